import type { RemovalGuard } from '../domain/removals.js';
import type { Marketplace } from '../marketplace/types.js';
import type { HeldBack } from '../store/decisions.js';
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
  readonly held: HeldBack | null;
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
