import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { bounded } from './errors.js';

/** The queues: `mirror` runs, `audits` of purchase codes, `alerts` to people, deliveries of `feeds`. */
export const QUEUE_NAMES = ['mirror', 'audits', 'alerts', 'feeds'] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

const seller = z.string().min(1).max(100);
const instant = z.iso.datetime().max(40);
const feed = z.string().min(1).max(63);
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

/** How people are told; not given: by the webhook. */
const by = z.literal('mail').optional();

const ALERT = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['run-failed', 'run-held']), runId: bigId, by }),
  z.object({ kind: z.literal('audit-finished'), auditId: bigId, by }),
  z.object({ kind: z.literal('seller-parked'), seller, runId: bigId.nullable(), by }),
  /** `since` is the last success, ISO 8601; null when there never was one. */
  z.object({ kind: z.literal('copy-stale'), seller, since: instant.nullable(), by }),
  /** `since` is when something began to wait, ISO 8601. */
  z.object({ kind: z.enum(['feed-stale', 'feed-recovered']), feed, since: instant, by }),
]);

/** Delivers a feed into its target: whatever there is by then. */
const FEED = z.object({ kind: z.literal('deliver'), feed });

const TASKS = { mirror: MIRROR, audits: AUDIT, alerts: ALERT, feeds: FEED } as const;

/** The tasks of a queue. Tasks carry ids and times, never keys or a seller's data. */
export type TaskOf<N extends QueueName> = z.infer<(typeof TASKS)[N]>;
export type MirrorTask = TaskOf<'mirror'>;
export type AuditTask = TaskOf<'audits'>;
/** An alert by its ids; its text is made from the store when it is delivered. */
export type AlertTask = TaskOf<'alerts'>;

export type FeedTask = TaskOf<'feeds'>;

export interface Payload {
  readonly v: 1;
  /** Unique to each call that adds: shows which call added a job whose id several ask for. */
  readonly mark: string;
  readonly task: unknown;
}

/** Makes the payload of a task. @throws {TypeError} when the queue's workers would not understand it */
export function payloadOf<N extends QueueName>(queue: N, task: TaskOf<N>): Payload {
  const parsed = TASKS[queue].safeParse(task);
  if (!parsed.success) throw new TypeError(`no task for ${queue}: ${faultsOf(parsed.error)}`);
  return { v: 1, mark: randomBytes(9).toString('base64url'), task: parsed.data };
}

/** Reads the task in a payload, or says why it can't be read. */
export function readPayload<N extends QueueName>(
  queue: N,
  stored: unknown,
): { readonly task: TaskOf<N> } | { readonly fault: string } {
  const schema = z.object({ v: z.literal(1), task: TASKS[queue] as z.ZodType });
  const { success, data, error } = schema.safeParse(stored);
  return success ? { task: data.task as TaskOf<N> } : { fault: faultsOf(error) };
}

function faultsOf(error: z.ZodError): string {
  const faults = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  return bounded(faults.join('; '));
}

/** `20261121T020000Z`: part of an id. */
function stamp(time: Date): string {
  return time.toISOString().replaceAll(/[-:]|\.\d+/g, '');
}

/** The id of a tick's job, the same for every scheduler, such as `sync.acme.20261121T020000Z`. */
export function tickId(kind: string, seller: string, tick: Date): string {
  return `${kind}.${seller}.${stamp(tick)}`;
}

/** A new id for a job that a person asked for, such as `sync.acme.asked-20261121T020000Z-4f1c…`. */
export function askedId(
  task: { readonly kind: string; readonly seller?: string },
  now: Date,
): string {
  const { kind, seller = 'all' } = task;
  return `${kind}.${seller}.asked-${stamp(now)}-${randomBytes(6).toString('hex')}`;
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
