import type { RemovalGuard } from './rules.js';
import type { Marketplace } from '../marketplace/types.js';
import type { HeldItems } from './held-store.js';
import type { Db } from '../db/db.js';
import type { RecordedRequest, RunCounts, RunKind } from './runs-store.js';

export interface RunDeps {
  readonly db: Db;
  readonly marketplace: Marketplace;
  readonly sellerId: string;
  readonly removalGuard: RemovalGuard;
  /** Most look-ups of unlisted items in a run. */
  readonly lookupsPerRun: number;
  /** The seller's request budget, for estimates; 0: unlimited. */
  readonly requestsPerMinute: number;
  /** Host and process, shown to whoever finds the lock held. */
  readonly holder: string;
  /** Accept an account other than the one that this seller's key opened before. */
  readonly acceptAccount?: boolean;
  /** HTTP requests made so far by this marketplace client. */
  readonly callCount: () => number;
  readonly onProgress?: (progress: Progress) => void;
  /** The queue's job that this run belongs to; stored with the run. */
  readonly jobId?: string | null;
  /** What the run is for; null: a command performs it for a person who waits. */
  readonly request?: RunRequest | null;
  /** Called when each run starts and ends. */
  readonly onRun?: (event: RunEvent) => void;
}

/** What a run is for, and what follows if it fails. */
export interface RunRequest extends RecordedRequest {
  /** When a run that failed so is tried again; null: it is not. */
  readonly retryAt: (problem: Problem) => Date | null;
}

export type Progress =
  | { readonly phase: 'account' }
  | {
      readonly phase: 'list';
      readonly records: number;
      readonly bytes: number;
      readonly expected: number | null;
    }
  | { readonly phase: 'write' }
  | {
      /** Unlisted items are looked up one by one. */
      readonly phase: 'look-up';
      readonly done: number;
      readonly total: number;
      /** Items that need no second look-up if the run is interrupted now. */
      readonly saved: number;
      /** Shortest time that all look-ups of the run take, milliseconds; null: no limit. */
      readonly leastMs: number | null;
    };

/** Why a run failed: a code for programs, a sentence for people, and whether a retry may help. */
export interface Problem {
  readonly code: ProblemCode;
  readonly message: string;
  readonly remedy: string;
  readonly permanent: boolean;
  /** When the marketplace allows a retry, milliseconds since 1970; null when it did not say. */
  readonly notBefore: number | null;
}

export type ProblemCode =
  | 'refused'
  | 'account-changed'
  | 'account-twice'
  | 'limited'
  | 'unavailable'
  | 'unreadable'
  | 'not-found'
  | 'interrupted'
  | 'store';

export interface RunReport {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly kind: RunKind;
  readonly state: 'succeeded' | 'held' | 'failed';
  readonly counts: RunCounts;
  readonly warnings: readonly string[];
  readonly problem: Problem | null;
  /** Items that the removal guard held back; null: none. */
  readonly held: HeldItems | null;
}

/** A run's start or end, for logs and metrics. */
export type RunEvent =
  | { readonly phase: 'started'; readonly runId: bigint; readonly kind: RunKind }
  | {
      readonly phase: 'finished';
      readonly runId: bigint;
      readonly kind: RunKind;
      readonly state: RunReport['state'] | 'interrupted';
      readonly counts: RunCounts;
      readonly problem: Problem | null;
      readonly durationMs: number;
    };

/** An alert, by ids: its text is written when it is delivered. */
export type Alert =
  | { readonly kind: 'run-failed' | 'run-held'; readonly runId: string }
  | { readonly kind: 'audit-finished'; readonly auditId: string }
  | {
      readonly kind: 'codes-no_longer_valid';
      readonly auditId: string;
      /** Only codes that were denied since then, ISO 8601; absent: all of the audit. */
      readonly since?: string | undefined;
    }
  | {
      readonly kind: 'items-removed' | 'balance-changed';
      readonly seller: string;
      readonly runId: string;
    }
  /** The first item with a field that no column holds. */
  | {
      readonly kind: 'fields-new';
      readonly seller: string;
      readonly runId: string;
      readonly field: string;
    }
  | { readonly kind: 'seller-parked'; readonly seller: string; readonly runId: string | null }
  | {
      readonly kind: 'copy-stale';
      readonly seller: string;
      /** The last success, ISO 8601; null: never. */
      readonly since: string | null;
    }
  /** A moment was recorded while a clock was ahead. */
  | {
      readonly kind: 'clock-ahead';
      readonly seller: string | null;
      /** Such as `the start of run 7`. */
      readonly what: string;
    }
  | {
      readonly kind: 'feed-stale' | 'feed-recovered';
      readonly feed: string;
      /** Since when rows wait for delivery, ISO 8601. */
      readonly since: string;
    };

/** The outcome of a job, as plain data: ids, codes, counts and sentences. */
export type JobOutcome =
  /** Done, or not needed; `result` is kept with the job for a while. */
  | {
      readonly kind: 'done';
      readonly result: Readonly<Record<string, unknown>>;
      readonly alert?: Alert | null;
    }
  /** Failed temporarily: retry after a backoff, not before `notBefore` (ms since 1970). */
  | {
      readonly kind: 'retry';
      readonly problem: string;
      readonly notBefore: number | null;
      readonly alert?: Alert | null;
    }
  /** Can't be done now: run again after `delayMs`, without using up an attempt. */
  | {
      readonly kind: 'later';
      readonly reason: string;
      readonly delayMs: number;
      /** Another process is doing the same work, and may be done any moment. */
      readonly isBusy?: true;
      readonly alert?: Alert | null;
    }
  /** Failed for good: a retry can't help. */
  | { readonly kind: 'give-up'; readonly problem: string; readonly alert?: Alert | null }
  /** Not done because the process stops: another process, or the next start, does it. */
  | { readonly kind: 'hand-back' };
