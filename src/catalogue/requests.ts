import type { RunKind, RunState } from '../db/generated/prisma/enums.js';

/** What can be asked for: account and items, one of them, or one item. */
export type Wanted =
  | { readonly kind: 'sync' | 'account' | 'items' }
  | { readonly kind: 'item'; readonly itemId: number };

/** A part of a request of which not all parts are answered. */
export interface OpenRequest {
  readonly seller: string;
  readonly kind: RunKind;
  readonly itemId: number | null;
  readonly dueAt: Date;
  /** When its run, which failed, is tried again; null: at once, or it is answered. */
  readonly retryAt: Date | null;
}

/** What was done about a kind of run, as far as schedules ask. */
export interface RunFacts {
  /** Start of the newest run that succeeded or was held. */
  readonly goodAt: Date | null;
  /** The newest run for a time of a schedule. */
  readonly last: {
    readonly dueAt: Date;
    readonly state: Exclude<RunState, 'asked'>;
    readonly retryAt: Date | null;
    /** A run in state `running` whose process died has no lock. */
    readonly isLocked: boolean;
  } | null;
}

export interface SellerFacts {
  readonly seller: string;
  readonly createdAt: Date;
  /** Whether schedules leave it alone. */
  readonly isParked: boolean;
  readonly recheckDueAt: Date | null;
  readonly isRechecking: boolean;
  readonly account: RunFacts;
  readonly items: RunFacts;
}
