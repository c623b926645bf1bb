/** A view of a feed, and since when its target lacks something that it was asked to have. */
export interface Waiting {
  readonly view: string;
  /** Null: it lacks nothing. */
  readonly waitingSince: Date | null;
}

/** How far a feed's target is behind. */
export interface FeedLag {
  /** Since when it lacks something; null: it lacks nothing. */
  readonly since: Date | null;
  readonly ms: number;
  /** The views that lack something. */
  readonly views: readonly string[];
}

/** How far a target is behind in these views of a feed, which may have had others once. */
export function lagOf(all: readonly Waiting[], views: readonly string[], now: Date): FeedLag {
  const behind = all.filter(
    ({ view, waitingSince }) => waitingSince !== null && views.includes(view),
  );
  const since = behind.reduce<Date | null>(
    (first, { waitingSince }) =>
      first === null || (waitingSince !== null && waitingSince < first) ? waitingSince : first,
    null,
  );
  // The database's clock may be ahead of this one.
  const ms = since === null ? 0 : Math.max(0, now.getTime() - since.getTime());
  return { since, ms, views: behind.map(({ view }) => view) };
}
