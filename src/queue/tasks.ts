import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { bounded } from './errors.js';

/** The queues: `mirror` runs, `audits` of purchase codes, `alerts` to people. */
export const QUEUE_NAMES = ['mirror', 'audits', 'alerts'] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

const seller = z.string().min(1).max(100);
const instant = z.iso.datetime().max(40);
const bigId = z.string().regex(/^\d{1,19}$/);

/** The time of the schedule that added a job, ISO 8601; null when a person did. */
const tick = instant.nullable();
/** When a job was asked for, ISO 8601: a success that began later covers it. */
const askedAt = instant;

const MIRROR = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['sync', 'account', 'items']), seller, tick, askedAt }),
  z.object({
    kind: z.literal('item'),
    seller,
    itemId: z.int().positive(),
    tick: z.null(),
    askedAt,
  }),
]);

const AUDIT = z.discriminatedUnion('kind', [
  /** Asks for the codes of a part of an audit; the store knows which they are. */
  z.object({ kind: z.literal('chunk'), seller, auditId: bigId, chunk: z.int().min(-1) }),
  /** Asks again for codes that are known. */
  z.object({ kind: z.literal('recheck'), seller, tick, askedAt }),
]);

const ALERT = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['run-failed', 'run-held']), runId: bigId }),
  z.object({ kind: z.literal('audit-finished'), auditId: bigId }),
  z.object({ kind: z.literal('seller-parked'), seller, runId: bigId.nullable() }),
  /** `since` is the last success, ISO 8601; null when there never was one. */
  z.object({ kind: z.literal('copy-stale'), seller, since: instant.nullable() }),
]);

/** What each queue may hold. */
const TASKS = { mirror: MIRROR, audits: AUDIT, alerts: ALERT } satisfies Record<
  QueueName,
  z.ZodType
>;

/** The tasks of a queue. Tasks carry ids and times, never keys or a seller's data. */
export type TaskOf<N extends QueueName> = z.infer<(typeof TASKS)[N]>;
export type MirrorTask = TaskOf<'mirror'>;
export type AuditTask = TaskOf<'audits'>;
/** An alert by its ids; its text is made from the store when it is delivered. */
export type AlertTask = TaskOf<'alerts'>;

/** The data of a BullMQ job. */
export interface Payload {
  /** Version of this format. */
  readonly v: 1;
  /** Unique to each call that adds: shows which call added a job whose id several ask for. */
  readonly mark: string;
  readonly task: unknown;
}

/** Most bytes of a payload; ids need a fraction of it. */
const LARGEST_PAYLOAD = 2_048;

const PAYLOAD = z.object({ v: z.literal(1), mark: z.string(), task: z.unknown() });

/** Makes the payload of a task. @throws {TypeError} when the queue's workers would not understand it */
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

/** Reads the task in a payload, or says why it can't be read. */
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

/** A new id for a job that a person asked for, such as `sync.acme.asked-20261121T020000Z-4f1c…`. */
export function askedId(task: MirrorTask, now: Date): string {
  const time = now.toISOString().replaceAll(/[-:]|\.\d+/g, '');
  return `${task.kind}.${task.seller}.asked-${time}-${randomBytes(6).toString('hex')}`;
}

/** The id of a chunk's job, so that a chunk is in the queue once. */
export function chunkId(auditId: bigint, chunk: number): string {
  return `chunk.${auditId}.${chunk}`;
}

/** A new id for a second job of a chunk, for when a process that is gone may hold the first. */
export function afreshId(auditId: bigint, chunk: number): string {
  return `${chunkId(auditId, chunk)}.again-${randomBytes(6).toString('hex')}`;
}

const LONGEST_ID = 200;

/**
 * Refuses a job id that BullMQ can't take: a colon separates its keys, and integers are the ids that
 * it makes itself.
 * @throws {TypeError}
 */
export function checkJobId(id: string): void {
  const fine = id.length > 0 && id.length <= LONGEST_ID && !/[:\s\p{Cc}]/u.test(id);
  if (!fine || /^-?\d+$/.test(id)) throw new TypeError(`no id for a job: ${bounded(id)}`);
}
