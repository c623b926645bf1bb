/** Measures the product, compared with simple ways of doing the same. */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { apiLines } from './api.js';
import { auditLines } from './audits.js';
import { interruption } from './children.js';
import { dashboardLines } from './dashboard.js';
import { feedLines } from './feeds.js';
import { mirrorLines } from './mirror.js';
import { reportingLines } from './reporting.js';
import { startLines } from './start.js';
import { markdownTable, plainTable } from './table.js';
import { workbookLines } from './workbook.js';

const USAGE = `npm run bench -- [options]
  --items N    items in the catalogue, about 1 KB of JSON each (default 100000)
  --quick      20000 items, lists of 100000 rows, fewer repetitions, and no verdicts
  --million    with codes: also enqueue a million of them
  --only PART  start, mirror, codes, api, reporting, dashboard, feeds or workbook (default: all)
  --markdown   print the table as Markdown`;

const PARTS = ['start', 'mirror', 'codes', 'api', 'reporting', 'dashboard', 'feeds', 'workbook'];
/** Rows of the lists that are written and read. */
const LIST_ROWS = 1_000_000;
/** Targets apply from this size: in smaller catalogues the fixed costs of a run dominate. */
const JUDGED_ITEMS = 100_000;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      items: { type: 'string' },
      quick: { type: 'boolean', default: false },
      million: { type: 'boolean', default: false },
      only: { type: 'string' },
      markdown: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return console.log(USAGE);
  const { quick, million, only, markdown } = values;
  const items = Number(values.items ?? (quick ? 20_000 : 100_000));
  if (!Number.isInteger(items) || items < 1) {
    throw new Error(`--items ${values.items}: give a whole number of at least 1`);
  }
  if (only !== undefined && !PARTS.includes(only)) {
    throw new Error(`--only ${only}: give one of ${PARTS.join(', ')}`);
  }
  /** Repetitions of slow and of fast measurements. */
  const [loads, nights] = quick ? [1, 3] : [3, 5];
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, Node ${process.version}`;
  const about = `${items} items, medians (loads: ${loads}, nights: ${nights}); ${machine}, load ${loadavg()[0]?.toFixed(1)} before`;

  const wanted = (part: string): boolean => only === undefined || only === part;
  const measured = [
    ...(wanted('start') ? await startLines() : []),
    ...(wanted('mirror') ? await mirrorLines(items, loads, nights) : []),
    ...(wanted('codes') ? await auditLines(million) : []),
    ...(wanted('api') ? await apiLines() : []),
    ...(wanted('reporting') ? await reportingLines(items, nights) : []),
    ...(wanted('feeds') ? await feedLines(items, loads, nights) : []),
    ...(wanted('workbook') ? await workbookLines(quick ? LIST_ROWS / 10 : LIST_ROWS) : []),
    ...(wanted('dashboard') ? await dashboardLines(items, nights) : []),
  ];
  const lines = items < JUDGED_ITEMS ? measured.map((line) => ({ ...line, met: null })) : measured;
  console.log(`${about}\n\n${markdown ? markdownTable(lines) : plainTable(lines)}`);
  if (lines.some(({ met }) => met === false)) process.exitCode = 1;
}

// Ends the measured process. The part that waits for it then cleans up.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => interruption.abort());

try {
  await main();
} catch (error) {
  const interrupted = interruption.signal.aborted;
  process.exitCode = interrupted ? 130 : 2;
  console.error(interrupted ? 'interrupted' : error instanceof Error ? error.message : error);
}
