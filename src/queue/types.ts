import type { Log } from '../domain/log.js';

/** The queues of the product: what mirrors, what audits purchase codes, what tells people. */
export const QUEUE_NAMES = ['mirror', 'audits', 'alerts'] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

/** What a mirror job is to do. Jobs carry ids only, never keys or anything of a seller's data. */
export type MirrorTask =
  | {
      readonly kind: 'sync' | 'account' | 'items';
      readonly seller: string;
      /** The schedule's instant, ISO 8601; null when a person asked. */
      readonly tick: string | null;
      /** When it was asked for, ISO 8601: a success that began later covers it. */
      readonly askedAt: string;
    }
  | {
      readonly kind: 'item';
      readonly seller: string;
      readonly itemId: number;
      readonly tick: null;
      readonly askedAt: string;
    };

/** What is to be done about purchase codes; which they are is in the store. */
export type AuditTask =
  | {
      readonly kind: 'chunk';
      readonly seller: string;
      readonly auditId: string;
      readonly chunk: number;
    }
  /** Ask again for codes that are known. */
  | {
      readonly kind: 'recheck';
      readonly seller: string;
      /** The schedule's instant, ISO 8601; null when a person asked. */
      readonly tick: string | null;
      readonly askedAt: string;
    };

/** What to tell people about, by ids; the text is made from the store when it is delivered. */
export type AlertTask =
  | { readonly kind: 'run-failed' | 'run-held'; readonly runId: string }
  | { readonly kind: 'audit-finished'; readonly auditId: string }
  | { readonly kind: 'seller-parked'; readonly seller: string; readonly runId: string | null }
  | {
      readonly kind: 'copy-stale';
      readonly seller: string;
      /** The last success, ISO 8601; null when there never was one. */
      readonly since: string | null;
    };

/** What a handler knows of the job it works on. */
export interface JobContext {
  readonly jobId: string;
  /** 1 for the first. */
  readonly attempt: number;
  readonly attempts: number;
  /** Ends when the worker must stop, or has lost the job to another one. */
  readonly signal: AbortSignal;
  /** Aborted when the worker begins to stop: the job may come to a good end still, but soon. */
  readonly closing: AbortSignal;
  /** Carries the job's id, and its seller where it has one, already. */
  readonly log: Log;
}

/** What became of a job. */
export type JobOutcome =
  /** Done for good; `result` is kept with the job for a while. */
  | { readonly kind: 'done'; readonly result: Readonly<Record<string, unknown>> }
  /** It failed in a way that may pass: again after a growing pause, not before `notBefore` (milliseconds since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  /** It can't be done just now for no fault of its own: again after `delayMs`, without using up an attempt. */
  | { readonly kind: 'later'; readonly reason: string; readonly delayMs: number }
  /** Repeating can't help. */
  | { readonly kind: 'give-up'; readonly problem: string }
  /** The worker stops: another one, or the next start, does it. */
  | { readonly kind: 'hand-back' };

export type JobHandler<T> = (task: T, context: JobContext) => Promise<JobOutcome>;

/** A job as its worker ended it; for logs and metrics. */
export interface JobEvent {
  readonly queue: QueueName;
  readonly name: string;
  readonly outcome: JobOutcome['kind'];
  readonly durationMs: number;
}

/** How many jobs of a queue are in which state. */
export interface QueueCounts {
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly completed: number;
  readonly failed: number;
}
