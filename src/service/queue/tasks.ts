import { z } from 'zod';
import { errorText } from './errors.js';

/** The queues: mirror runs, checks of purchase codes, alerts to people, deliveries of feeds. */
export const QUEUE_NAMES = ['mirror', 'audits', 'alerts', 'feeds'] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

const seller = z.string().min(1).max(100);
/** The time of a schedule, or when a person asked. ISO 8601. */
const dueAt = z.iso.datetime().max(40);

const TASKS = {
  /** Mirrors account and items, or a part of them. */
  mirror: z.discriminatedUnion('kind', [
    z.object({ kind: z.enum(['sync', 'account', 'items']), seller, dueAt, byHand: z.boolean() }),
    z.object({
      kind: z.literal('item'),
      seller,
      itemId: z.int().positive(),
      dueAt,
      byHand: z.literal(true),
    }),
  ]),
  audits: z.discriminatedUnion('kind', [
    /** Does a piece of work on a check, again and again until it has ended. */
    z.object({ kind: z.literal('audit'), seller, auditId: z.string().regex(/^\d{1,19}$/) }),
    /** Checks known codes again. */
    z.object({ kind: z.literal('recheck'), seller, dueAt }),
  ]),
  /** Sends an alert through a channel. */
  alerts: z.object({
    kind: z.literal('send'),
    alertId: z.string().min(1).max(300),
    channel: z.enum(['webhook', 'mail']),
  }),
  /** Delivers everything that is due for a feed. */
  feeds: z.object({ kind: z.literal('deliver'), feed: z.string().min(1).max(63) }),
} as const;

/** The tasks of a queue. They carry ids and times, never keys or a seller's data. */
export type TaskOf<N extends QueueName> = z.infer<(typeof TASKS)[N]>;
export type MirrorTask = TaskOf<'mirror'>;
export type AuditTask = TaskOf<'audits'>;
export type AlertTask = TaskOf<'alerts'>;
export type FeedTask = TaskOf<'feeds'>;

/** What BullMQ stores of a task. */
export interface Payload {
  readonly v: 2;
  readonly task: unknown;
}

/** Reads the task from a payload, or says why it can't be read. */
export function readPayload<N extends QueueName>(
  queue: N,
  stored: unknown,
): { readonly task: TaskOf<N> } | { readonly fault: string } {
  const schema = z.object({ v: z.literal(2), task: TASKS[queue] as z.ZodType });
  const { success, data, error } = schema.safeParse(stored);
  if (success) return { task: data.task as TaskOf<N> };
  const faults = error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
  return { fault: errorText(faults.join('; ')) };
}

/**
 * What a task is about, such as `sync.acme.20261121T020000Z`. A queue holds one unfinished job about a thing; all
 * processes compute the same. BullMQ separates its keys by colons, so a subject has none.
 */
export function subjectOf(task: TaskOf<QueueName>): string {
  switch (task.kind) {
    case 'audit':
      return `audit.${task.auditId}`;
    case 'send':
      return `${task.channel}.${task.alertId.replaceAll(':', '-')}`;
    case 'deliver':
      return `feed.${task.feed}`;
    case 'item':
      return `item-${task.itemId}.${task.seller}.${stamp(task.dueAt)}`;
    default:
      return `${task.kind}.${task.seller}.${stamp(task.dueAt)}`;
  }
}

/** `2026-11-21T02:00:00.000Z` as `20261121T020000Z`; with milliseconds if there are any. */
function stamp(time: string): string {
  return new Date(time).toISOString().replaceAll(/[-:]|\.0+(?=Z)/g, '');
}
