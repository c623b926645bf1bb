import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { bounded } from './errors.js';
import type { AlertTask, AuditTask, MirrorTask, QueueName } from './types.js';

const seller = z.string().min(1).max(100);
const instant = z.iso.datetime().max(40);
const bigId = z.string().regex(/^\d{1,19}$/);

const MIRROR = z.discriminatedUnion('kind', [
  z.object({
    kind: z.enum(['sync', 'account', 'items']),
    seller,
    tick: instant.nullable(),
    askedAt: instant,
  }),
  z.object({
    kind: z.literal('item'),
    seller,
    itemId: z.int().positive(),
    tick: z.null(),
    askedAt: instant,
  }),
]) satisfies z.ZodType<MirrorTask>;

const AUDIT = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('chunk'), seller, auditId: bigId, chunk: z.int().min(-1) }),
  z.object({ kind: z.literal('recheck'), seller, tick: instant.nullable(), askedAt: instant }),
]) satisfies z.ZodType<AuditTask>;

const ALERT = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['run-failed', 'run-held']), runId: bigId }),
  z.object({ kind: z.literal('audit-finished'), auditId: bigId }),
  z.object({ kind: z.literal('seller-parked'), seller, runId: bigId.nullable() }),
  z.object({ kind: z.literal('copy-stale'), seller, since: instant.nullable() }),
]) satisfies z.ZodType<AlertTask>;

/** What may be in each queue. A new kind of task is a schema here and its type in `types.ts`. */
const TASKS = {
  mirror: MIRROR,
  audits: AUDIT,
  alerts: ALERT,
} satisfies Record<QueueName, z.ZodType>;

/** The tasks of a queue. */
export type TaskOf<N extends QueueName> = z.infer<(typeof TASKS)[N]>;

/** What is stored with a job. */
export interface Payload {
  /** Of this notation. */
  readonly v: 1;
  /** Unique to the adding: tells who added a job whose id many ask for. */
  readonly mark: string;
  readonly task: unknown;
}

/** Bytes of a stored payload; ids need a fraction of it. */
const LARGEST_PAYLOAD = 2_048;

const PAYLOAD = z.object({ v: z.literal(1), mark: z.string(), task: z.unknown() });

/** A task ready to be stored. @throws {TypeError} when it is none that the queue's workers understand */
export function payloadOf<N extends QueueName>(queue: N, task: TaskOf<N>): Payload {
  const parsed = TASKS[queue].safeParse(task);
  if (!parsed.success) throw new TypeError(`no task for ${queue}: ${faultsOf(parsed.error)}`);
  const payload: Payload = {
    v: 1,
    mark: randomBytes(9).toString('base64url'),
    task: parsed.data,
  };
  const bytes = Buffer.byteLength(JSON.stringify(payload));
  if (bytes > LARGEST_PAYLOAD) throw new TypeError(`a task of ${bytes} bytes is too large`);
  return payload;
}

/** The task in a stored payload, or why it is none. */
export function readPayload<N extends QueueName>(
  queue: N,
  stored: unknown,
): { readonly task: TaskOf<N> } | { readonly fault: string } {
  const payload = PAYLOAD.safeParse(stored);
  if (!payload.success) return { fault: faultsOf(payload.error) };
  const task = TASKS[queue].safeParse(payload.data.task);
  if (!task.success) return { fault: faultsOf(task.error) };
  return { task: task.data as TaskOf<N> };
}

function faultsOf(error: z.ZodError): string {
  const faults = error.issues.slice(0, 3).map(({ path, message }) => {
    const where = path.map(String).join('.');
    return where === '' ? message : `${where}: ${message}`;
  });
  return bounded(faults.join('; '));
}

/** An id of its own for a job that a person asked for, such as `sync.acme.asked-20261121T020000Z-4f1c…`. */
export function askedId(task: MirrorTask, now: Date): string {
  const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `${task.kind}.${task.seller}.asked-${time}-${randomBytes(6).toString('hex')}`;
}

/** The id of a chunk's job: the same as long as the job is in the queue. */
export function chunkId(auditId: bigint, chunk: number): string {
  return `chunk.${auditId}.${chunk}`;
}

/** An id of its own for another job of a chunk, whose first one may be held by a process that is gone. */
export function afreshId(auditId: bigint, chunk: number): string {
  return `${chunkId(auditId, chunk)}.again-${randomBytes(6).toString('hex')}`;
}

const LONGEST_ID = 200;

/**
 * Refuses what BullMQ can't have as a job's id: it takes a colon as part of its keys and an integer
 * as an id of its own making.
 * @throws {TypeError}
 */
export function checkJobId(id: string): void {
  const fine = id.length > 0 && id.length <= LONGEST_ID && !/[:\s\p{Cc}]/u.test(id);
  if (!fine || /^-?\d+$/.test(id)) throw new TypeError(`no id for a job: ${bounded(id)}`);
}
