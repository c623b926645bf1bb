/** Measures the product against plain ways of doing the same; see `USAGE`. */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { auditLines } from './audits.js';
import { interruption } from './children.js';
import { dashboardLines } from './dashboard.js';
import { feedLines } from './feeds.js';
import { mirrorLines } from './mirror.js';
import { reportingLines } from './reporting.js';
import { startLines } from './start.js';
import { markdownTable, plainTable } from './table.js';

const USAGE = `npm run bench -- [options]
  --items N    items in the catalogue, about 1 KB of JSON each (default 100000)
  --quick      20000 items, fewer repetitions and no verdicts, for trying things out
  --million    with codes: also a million of them taken in
  --only PART  start, mirror, codes, reporting, dashboard or feeds (default: all)
  --markdown   print the table as Markdown`;

const PARTS = ['start', 'mirror', 'codes', 'reporting', 'dashboard', 'feeds'];
/** The targets are for catalogues of this size; in smaller ones the fixed costs of a run prevail. */
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
    throw new Error(`--items ${values.items} is no number`);
  }
  if (only !== undefined && !PARTS.includes(only)) throw new Error(`--only ${only} is no part`);
  /** Repetitions of what takes seconds, and of what takes a second or two. */
  const [loads, nights] = quick ? [1, 3] : [3, 5];
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown CPU'}, Node ${process.version}`;
  const about = `${items} items, medians (loads: ${loads}, nights: ${nights}); ${machine}, load ${loadavg()[0]?.toFixed(1)} before`;

  const wanted = (part: string): boolean => only === undefined || only === part;
  const measured = [
    ...(wanted('start') ? await startLines() : []),
    ...(wanted('mirror') ? await mirrorLines(items, loads, nights) : []),
    ...(wanted('codes') ? await auditLines(million) : []),
    ...(wanted('reporting') ? await reportingLines(items, nights) : []),
    ...(wanted('feeds') ? await feedLines(items, loads, nights) : []),
    ...(wanted('dashboard') ? await dashboardLines(items, nights) : []),
  ];
  const lines = items < JUDGED_ITEMS ? measured.map((line) => ({ ...line, met: null })) : measured;
  console.log(`${about}\n\n${markdown ? markdownTable(lines) : plainTable(lines)}`);
  if (lines.some(({ met }) => met === false)) process.exitCode = 1;
}

// What waits for the measured process then cleans up and ends this one.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => interruption.abort());

try {
  await main();
} catch (error) {
  const interrupted = interruption.signal.aborted;
  process.exitCode = interrupted ? 130 : 2;
  console.error(interrupted ? 'interrupted' : error instanceof Error ? error.message : error);
}
