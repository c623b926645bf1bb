/** Days for which each part of the store is kept; null: for ever. */
export interface RetentionDays {
  /** Records as received: of items, accounts and purchases, and those that could not be read. */
  readonly raw: number | null;
  /** Runs that no kept row names. */
  readonly runs: number | null;
  /** Superseded states of items and accounts. */
  readonly versions: number | null;
  /** The lists of finished audits. */
  readonly audits: number | null;
}

export type RetentionPart = keyof RetentionDays;

/** The moments before which rows of each part are deleted; null: none are. */
export type RetentionPlan = { readonly [part in RetentionPart]: Date | null };

const DAY_MS = 86_400_000;

export function planRetention(days: RetentionDays, now: Date): RetentionPlan {
  const before = (kept: number | null): Date | null =>
    kept === null ? null : new Date(now.getTime() - kept * DAY_MS);
  return {
    raw: before(days.raw),
    runs: before(days.runs),
    versions: before(days.versions),
    audits: before(days.audits),
  };
}

export function keepsForEver(days: RetentionDays): boolean {
  return Object.values(days).every((kept) => kept === null);
}
