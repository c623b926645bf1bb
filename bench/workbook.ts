/**
 * Measures memory and processor time of reading a list or writing its result, as CSV or as an Excel workbook:
 * `node dist/bench/workbook.js read|write csv|xlsx [rows, default 1000000]`. `read` reads what `write` wrote.
 */
import { createWriteStream } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { readCodes } from '#product/intake/read-codes.js';
import { resultPieces, type ResultRow } from '#product/intake/results.js';
import { openSource } from '#product/intake/source.js';

const RESULT: ResultRow['result'] = {
  verdict: 'valid',
  license_type: 'Regular License',
  item_id: 4711,
  item_name: 'Aurora',
  price: '19.90',
  currency: 'USD',
  purchased_at: '2024-01-02T03:04:05Z',
  supported_until: '2024-07-02T03:04:05Z',
  support: 'expired',
  proof: 'purchase',
  checked_at: '2026-11-01T00:00:00Z',
};

async function* rows(): AsyncGenerator<ResultRow, void, undefined> {
  for (let n = 0; n < Number(rowCount); n++) {
    const code = `86781236-23d0-4b3c-7dfa-${String(n).padStart(12, '0')}`;
    yield await Promise.resolve({ columns: [`customer ${n}`, code, '2026-11-23'], result: RESULT });
  }
}

const [what, format, rowCount = '1000000'] = process.argv.slice(2);
if (format !== 'csv' && format !== 'xlsx')
  throw new Error('usage: workbook.js read|write csv|xlsx [rows]');
const file = join(tmpdir(), `seller-mirror-bench.${format}`);
if (what === 'write') {
  const pieces = resultPieces(format, ['name', 'purchase code', 'bought'], rows());
  await pipeline(Readable.from(pieces), createWriteStream(file));
} else {
  const intake = await readCodes(await openSource(file), { name: file });
  for await (const _ of intake.rows);
  await intake.close();
}
const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
const seconds = ((userCPUTime + systemCPUTime) / 1e6).toFixed(1);
process.stdout.write(
  `${what} ${format}, ${rowCount} rows: ${Math.round(maxRSS / 1024)} MB, ${seconds} s of CPU\n`,
);
