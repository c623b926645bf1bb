import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const BUILT = new URL('../../dist/intake/', import.meta.url).href;
const MOST_MIB = 200;

/** Reads a CSV list of a million records and writes a result for each. Runs in its own process. */
const PROGRAM = `
  import { readCodes } from '${BUILT}read-codes.js';
  import { resultPieces, RESULT_COLUMNS } from '${BUILT}results.js';
  const LINES = 1_000_000;
  async function* source() {
    let text = 'buyer,purchase_code,note\\r\\n';
    for (let n = 0; n < LINES; n++) {
      const code = (n * 2654435761 % 2 ** 32).toString(16).padStart(8, '0');
      text += '"Buyer, ' + n + '",7f3d9a1c-52be-4e08-9a67-0000' + code + ',"said ""hi"""\\r\\n';
      if (text.length < 65536 && n < LINES - 1) continue;
      yield Buffer.from(text);
      text = '';
    }
  }
  const intake = await readCodes(source(), { name: 'list.csv' });
  const result = Object.fromEntries(RESULT_COLUMNS.map((name) => [name, null]));
  async function* rows() {
    for await (const batch of intake.rows) for (const { columns } of batch) yield { columns, result };
  }
  let characters = 0;
  for await (const text of resultPieces('csv', intake.layout.columns, rows())) {
    characters += text.length;
  }
  const { rows: read, rejected } = intake.tally;
  console.log(JSON.stringify({ read, rejected, characters, kib: process.resourceUsage().maxRSS }));
`;

it(`reading a list of a million lines and writing its result takes less than ${MOST_MIB} MiB`, async () => {
  const program = ['--input-type=module', '--eval', PROGRAM];
  const { stdout } = await promisify(execFile)(process.execPath, program, {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
  });
  const { read, rejected, characters, kib } = JSON.parse(stdout) as Record<string, number>;
  expect({ read, rejected }).toEqual({ read: 1_000_000, rejected: 0 });
  expect(characters).toBeGreaterThan(60_000_000);
  expect((kib ?? Infinity) / 1024).toBeLessThan(MOST_MIB);
});
