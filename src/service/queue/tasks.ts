import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Alert } from '../../catalogue/types.js';
import { errorText } from './errors.js';

/** The queues: mirror runs, audits of purchase codes, alerts to people, deliveries of feeds. */
export const QUEUE_NAMES = ['mirror', 'audits', 'alerts', 'feeds'] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

const seller = z.string().min(1).max(100);
const instant = z.iso.datetime().max(40);
const feed = z.string().min(1).max(63);
const bigId = z.string().regex(/^\d{1,19}$/);

/** The time of the schedule that added the job, ISO 8601; null if a person did. */
const tick = instant.nullable();
/** When the job was requested, ISO 8601. It is not needed if a run that began later succeeded. */
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
  /** Does a piece of work on an audit, again and again until it has ended. */
  z.object({ kind: z.literal('audit'), seller, auditId: bigId }),
  /** Checks known codes again. */
  z.object({ kind: z.literal('recheck'), seller, tick, askedAt }),
]);

/** The channel of an alert; the webhook if absent. */
const by = z.literal('mail').optional();

const ALERT = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['run-failed', 'run-held']), runId: bigId, by }),
  z.object({ kind: z.literal('audit-finished'), auditId: bigId, by }),
  z.object({
    kind: z.literal('codes-no_longer_valid'),
    auditId: bigId,
    since: instant.optional(),
    by,
  }),
  z.object({ kind: z.enum(['items-removed', 'balance-changed']), seller, runId: bigId, by }),
  z.object({ kind: z.literal('seller-parked'), seller, runId: bigId.nullable(), by }),
  /** `since` is the last success, ISO 8601; null if there was none. */
  z.object({ kind: z.literal('copy-stale'), seller, since: instant.nullable(), by }),
  /** `since` is when the feed began to wait for a delivery, ISO 8601. */
  z.object({ kind: z.enum(['feed-stale', 'feed-recovered']), feed, since: instant, by }),
]) satisfies z.ZodType<Alert>;

/** Delivers everything that is due for a feed. */
const FEED = z.object({ kind: z.literal('deliver'), feed });

const TASKS = { mirror: MIRROR, audits: AUDIT, alerts: ALERT, feeds: FEED } as const;

/** The tasks of a queue. They carry ids and times, never keys or a seller's data. */
export type TaskOf<N extends QueueName> = z.infer<(typeof TASKS)[N]>;
export type MirrorTask = TaskOf<'mirror'>;
export type AuditTask = TaskOf<'audits'>;
/** An alert. Its text is made from the store when it is delivered. */
export type AlertTask = TaskOf<'alerts'>;
export type FeedTask = TaskOf<'feeds'>;

/** What BullMQ stores of a task. */
export interface Payload {
  readonly v: 1;
  /** Random per call of `add`. If several calls add the same job id, it shows which one succeeded. */
  readonly mark: string;
  readonly task: unknown;
}

/** @throws {TypeError} when the queue's workers could not read the task */
export function payloadOf<N extends QueueName>(queue: N, task: TaskOf<N>): Payload {
  const parsed = TASKS[queue].safeParse(task);
  if (!parsed.success) {
    throw new TypeError(`invalid task for queue ${queue}: ${faultsOf(parsed.error)}`);
  }
  return { v: 1, mark: randomBytes(9).toString('base64url'), task: parsed.data };
}

/** Reads the task from a payload, or says why it can't be read. */
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
  return errorText(faults.join('; '));
}

/** The time in an id, such as `20261121T020000Z`. */
function stamp(time: Date): string {
  return time.toISOString().replaceAll(/[-:]|\.\d+/g, '');
}

/** The id of a schedule's job, such as `sync.acme.20261121T020000Z`. All schedulers compute the same. */
export function jobIdOf(kind: string, name: string, dueAt: Date): string {
  return `${kind}.${name}.${stamp(dueAt)}`;
}

/** A new id for a job that a person requested, such as `sync.acme.asked-20261121T020000Z-4f1c…`. */
export function requestedJobId(
  task: { readonly kind: string; readonly seller?: string },
  now: Date,
): string {
  const { kind, seller = 'all' } = task;
  return `${kind}.${seller}.asked-${stamp(now)}-${randomBytes(6).toString('hex')}`;
}

/** The id of an audit's job. Keeps an audit from being in the queue twice. */
export function auditJobId(auditId: bigint): string {
  return `audit.${auditId}`;
}

/** A new id for a second job of an audit. */
export function secondAuditJobId(auditId: bigint): string {
  return `${auditJobId(auditId)}.again-${randomBytes(6).toString('hex')}`;
}

const MAX_ID_LENGTH = 200;

/**
 * Rejects job ids that BullMQ can't use: it separates its keys by colons, and reserves integers for its own ids.
 * @throws {TypeError}
 */
export function checkJobId(id: string): void {
  const isValid = id.length > 0 && id.length <= MAX_ID_LENGTH && !/[:\s\p{Cc}]/u.test(id);
  if (!isValid || /^-?\d+$/.test(id)) throw new TypeError(`invalid job id: ${errorText(id)}`);
}
