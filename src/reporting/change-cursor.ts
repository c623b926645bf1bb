/** How far a reader has read the numbered changes. */
export interface ChangeCursor {
  /** The reader has everything up to this number. */
  readonly seq: bigint;
  /** When it was read, ISO 8601 in UTC; null if the time does not matter. */
  readonly at: string | null;
}

const CURSOR = /^(\d{1,18})(?:@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z))?$/;

/** Reads `4711` or `4711@2026-03-01T02:00:00Z`; null for anything else. */
export function parseCursor(text: string): ChangeCursor | null {
  const [, seq, at = null] = CURSOR.exec(text) ?? [];
  if (seq === undefined || (at !== null && Number.isNaN(Date.parse(at)))) return null;
  return { seq: BigInt(seq), at };
}

export function cursorText({ seq, at }: ChangeCursor): string {
  return at === null ? String(seq) : `${seq}@${at}`;
}
