/** A reader's position in a feed. */
export interface FeedCursor {
  /** The reader has everything up to this number. */
  readonly seq: bigint;
  /** When it was read, ISO 8601 in UTC; null if the time does not matter. */
  readonly at: string | null;
}

const CURSOR = /^(\d{1,18})(?:@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z))?$/;

/** Reads `4711` or `4711@2026-03-01T02:00:00Z`; null for anything else. */
export function parseCursor(text: string): FeedCursor | null {
  const [, seq, at = null] = CURSOR.exec(text) ?? [];
  if (seq === undefined || (at !== null && Number.isNaN(Date.parse(at)))) return null;
  return { seq: BigInt(seq), at };
}

export function cursorText({ seq, at }: FeedCursor): string {
  return at === null ? String(seq) : `${seq}@${at}`;
}

interface ViewState {
  readonly view: string;
  /** Since when rows wait for delivery; null if none do. */
  readonly waitingSince: Date | null;
}

/**
 * How far a target is behind.
 * @param views the views of the feed today; other views are ignored
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
