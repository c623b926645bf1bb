import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ResultRow } from '#product/codes/lists/write-result.js';
import { measureJob } from './children.js';
import { count, information, usage, type Line } from './table.js';

/** Measures writing the result of a list and reading it again, as CSV and as an Excel workbook. */
export async function workbookLines(rows: number): Promise<Line[]> {
  const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-bench-'));
  try {
    const lines: Line[] = [];
    for (const format of ['csv', 'xlsx'] as const) {
      const file = join(folder, `list.${format}`);
      const what = `${count(rows)} rows as ${format === 'csv' ? 'CSV' : 'an Excel workbook'}`;
      const written = await measureJob('writeResult', { file, format, rows });
      const read = await measureJob('readList', { file });
      lines.push(information(`${what}: written`, usage(written)));
      lines.push(information(`${what}: read`, usage(read)));
    }
    return lines;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export interface WriteInput {
  readonly file: string;
  readonly format: 'csv' | 'xlsx';
  readonly rows: number;
}

/** Writes a result of 14 columns. @returns milliseconds */
export async function writeResult({ file, format, rows }: WriteInput): Promise<number> {
  const { resultPieces } = await import('#product/codes/lists/write-result.js');
  const { RESULT_COLUMNS } = await import('#product/codes/result.js');
  const started = performance.now();
  const names = ['name', 'purchase code', 'bought'];
  const pieces = resultPieces(format, names, RESULT_COLUMNS, resultRows(rows));
  await pipeline(Readable.from(pieces), createWriteStream(file));
  return performance.now() - started;
}

async function* resultRows(rows: number): AsyncGenerator<ResultRow, void, undefined> {
  for (let n = 0; n < rows; n++) {
    const code = `86781236-23d0-4b3c-7dfa-${String(n).padStart(12, '0')}`;
    const columns = [`customer ${n}`, code, '2026-11-23'];
    yield await Promise.resolve({ line: n + 2, columns, values: VALUES });
  }
}

const VALUES = [
  ...['valid', 'the marketplace answered with the purchase', 'Regular License', 4711, 'Aurora'],
  ...['19.90', 'USD', '2024-01-02T03:04:05Z', '2024-07-02T03:04:05Z', 'expired', null],
  ...['2026-11-01T00:00:00Z', 1, 'purchase'],
  'the marketplace answered with the purchase at 2026-11-01 00:00:00Z',
];

/** Reads a list of codes. @returns milliseconds */
export async function readList({ file }: { readonly file: string }): Promise<number> {
  const { readList: read } = await import('#product/codes/lists/read-list.js');
  const { openFile, readBytes } = await import('#product/codes/lists/source.js');
  const started = performance.now();
  const bytes = await openFile(file);
  await read(() => readBytes(bytes), { name: file });
  return performance.now() - started;
}
