import type { TextRow } from '../../db/text-cursor.js';

const LINE_END = 10;

/**
 * Parses complete lines. Each line becomes a separate string, because V8 keeps the whole parent string of a
 * substring in memory, and Parquet keeps the least and greatest value of each group.
 */
export function rowsOf(lines: Buffer): TextRow[] {
  const rows: TextRow[] = [];
  for (let start = 0; start < lines.length;) {
    const end = lines.indexOf(LINE_END, start);
    rows.push(rowOf(lines.toString('utf8', start, end)));
    start = end + 1;
  }
  return rows;
}

function rowOf(line: string): TextRow {
  const cells: (string | null)[] = line.split('\t');
  if (!line.includes('\\')) return cells;
  return cells.map((cell) => (cell === '\\N' ? null : (cell?.replace(ESCAPE, unescape) ?? null)));
}

const ESCAPE = /\\([\s\S])/g;
const MEANINGS: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

function unescape(_: string, letter: string): string {
  return MEANINGS[letter] ?? letter;
}
