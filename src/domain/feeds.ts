/** How far a reader of a feed is. */
export interface FeedCursor {
  /** All that was written up to this number is known. */
  readonly seq: bigint;
  /** The moment as of which it was read, ISO 8601 in UTC; null where moments do not matter. */
  readonly at: string | null;
}

const CURSOR = /^(\d{1,18})(?:@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z))?$/;

/** Reads `4711` or `4711@2026-03-01T02:00:00Z`; null when it is neither. */
export function parseCursor(text: string): FeedCursor | null {
  const [, seq, at = null] = CURSOR.exec(text) ?? [];
  if (seq === undefined || (at !== null && Number.isNaN(Date.parse(at)))) return null;
  return { seq: BigInt(seq), at };
}

export function cursorText({ seq, at }: FeedCursor): string {
  return at === null ? String(seq) : `${seq}@${at}`;
}

/** A view of a feed, and since when its target lacks something that it was asked to have. */
interface Waiting {
  readonly view: string;
  /** Null: it lacks nothing. */
  readonly waitingSince: Date | null;
}

/**
 * How far a target is behind in these views of a feed, which may have had others once: since when it
 * lacks something (null: it lacks nothing), and which of them do.
 */
export function feedDelay(all: readonly Waiting[], views: readonly string[], now: Date) {
  const behind = all.flatMap(({ view, waitingSince }) =>
    waitingSince !== null && views.includes(view) ? [{ view, since: waitingSince }] : [],
  );
  const [first] = behind.toSorted((a, b) => a.since.getTime() - b.since.getTime());
  const since = first?.since ?? null;
  // The database's clock may be ahead of this one.
  const ms = since === null ? 0 : Math.max(0, now.getTime() - since.getTime());
  return { since, ms, views: behind.map(({ view }) => view) };
}
