import type { RemovalGuard } from '../domain/removals.js';
import type { Marketplace } from '../marketplace/types.js';
import type { HeldItems } from '../store/decisions.js';
import type { RunCounts, RunKind } from '../store/runs.js';
import type { Store } from '../store/store.js';

export interface JobDeps {
  readonly store: Store;
  readonly marketplace: Marketplace;
  readonly sellerId: string;
  readonly removalGuard: RemovalGuard;
  /** Most look-ups of unlisted items in one run. */
  readonly lookupsPerRun: number;
  /** The seller's share of requests, for estimates; 0: no limit. */
  readonly requestsPerMinute: number;
  /** Host and process, for who meets the lock. */
  readonly holder: string;
  /** Accept another account than the one this seller's key opened before. */
  readonly acceptAccount?: boolean;
  /** HTTP requests made so far by this marketplace client. */
  readonly callCount: () => number;
  readonly onProgress?: (progress: Progress) => void;
  /** The queue's job on whose behalf this is done; entered with the run. */
  readonly jobId?: string | null;
  /**
   * A run of the same kind that began at or after this and went well makes another one needless:
   * nothing is asked then, and `CoveredError` is thrown.
   */
  readonly coveredSince?: Date | null;
  /** Told of each run as it begins and ends. */
  readonly onRun?: (event: RunEvent) => void;
  /** Pause before a list that broke off is asked for again; default a second. */
  readonly listPauseMs?: number;
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
      /** Items that the list no longer names are looked up one by one. */
      readonly phase: 'look-up';
      readonly done: number;
      readonly total: number;
      /** How many of them are not asked for again when the run is interrupted now. */
      readonly saved: number;
      /** How long all look-ups of the run take at least; null: nothing limits them. */
      readonly leastMs: number | null;
    };

/** Why a run failed: a code for programs, a sentence for people, and whether repeating may help. */
export interface Problem {
  readonly code: ProblemCode;
  readonly message: string;
  readonly remedy: string;
  readonly permanent: boolean;
  /** When the marketplace said to come back, milliseconds since 1970; null when it did not say. */
  readonly notBefore: number | null;
}

export type ProblemCode =
  | 'refused'
  | 'account-changed'
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
  /** What the removal guard held back; null when it did not. */
  readonly held: HeldItems | null;
}

/** What happens to a run, for logs and metrics. */
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

/** Something to tell people about, by ids; the text is made when it is delivered. */
export type Alert =
  | { readonly kind: 'run-failed' | 'run-held'; readonly runId: string }
  | { readonly kind: 'audit-finished'; readonly auditId: string }
  | { readonly kind: 'seller-parked'; readonly seller: string; readonly runId: string | null }
  | {
      readonly kind: 'copy-stale';
      readonly seller: string;
      /** The last success, ISO 8601; null when there never was one. */
      readonly since: string | null;
    }
  | {
      readonly kind: 'feed-stale' | 'feed-recovered';
      readonly feed: string;
      /** When something began to wait, ISO 8601. */
      readonly since: string;
    };

/** What became of a job, as plain data that holds ids, codes, counts and sentences. */
export type JobOutcome =
  /** Done for good, or needless; `result` is kept with the job for a while. */
  | {
      readonly kind: 'done';
      readonly result: Readonly<Record<string, unknown>>;
      readonly alert?: Alert | null;
    }
  /** Failed in a way that may pass: again after a backoff, not before `notBefore` (ms since 1970). */
  | {
      readonly kind: 'retry';
      readonly problem: string;
      readonly notBefore: number | null;
      readonly alert?: Alert | null;
    }
  /** Can't be done now: again after `delayMs`, without using up an attempt. */
  | {
      readonly kind: 'later';
      readonly reason: string;
      readonly delayMs: number;
      /** Another process works on the same, and may be done any moment. */
      readonly isBusy?: true;
    }
  /** Failed, and repeating can't help. */
  | { readonly kind: 'give-up'; readonly problem: string; readonly alert?: Alert | null }
  /** Not done because the process stops: another one, or the next start, does it. */
  | { readonly kind: 'hand-back' };
