interface ViewState {
  readonly view: string;
  /** Since when rows wait for delivery; null if none do. */
  readonly waitingSince: Date | null;
}

/**
 * How far a target is behind.
 * @param all states of the views, also of views that the feed no longer has
 * @param views the views of the feed today
 * @returns since when rows wait (null if none do), for how many milliseconds, and in which views
 */
export function feedDelay(all: readonly ViewState[], views: readonly string[], now: Date) {
  const behind = all.flatMap(({ view, waitingSince }) =>
    waitingSince !== null && views.includes(view) ? [{ view, since: waitingSince }] : [],
  );
  const [first] = behind.toSorted((a, b) => a.since.getTime() - b.since.getTime());
  const since = first?.since ?? null;
  // The database's clock may be ahead.
  const ms = since === null ? 0 : Math.max(0, now.getTime() - since.getTime());
  return { since, ms, views: behind.map(({ view }) => view) };
}
