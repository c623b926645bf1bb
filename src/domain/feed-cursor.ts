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
