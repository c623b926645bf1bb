/** Measures the mirror against plain ways of doing the same; see `USAGE`. */
import { statfs } from 'node:fs/promises';
import { cpus, loadavg, tmpdir } from 'node:os';
import { auditLines } from './audits/main.js';
import { interruption, type Measured } from './children.js';
import { BenchDatabase } from './database.js';
import { readOptions, USAGE, type Options } from './options.js';
import { reportingLines } from './reporting/main.js';
import { Rounds, type Results } from './rounds.js';
import { BenchMarketplace } from './simulator.js';
import { markdownTable, megabytes, plainTable, seconds, type Line } from './table.js';
import { growthLines, linesOf } from './verdicts.js';

const LARGER = 10;
const LARGER_LOADS = 2;
/** The targets are for catalogues of this size; in smaller ones the fixed costs of a run prevail. */
const JUDGED_ITEMS = 100_000;
/** List, rows, index, WAL and the files of the baseline, for each item. */
const DISK_BYTES_AN_ITEM = 10_000;

function say(what: string, { ms, peak, cpuMs }: Measured): void {
  const figures = [seconds(ms), `CPU ${seconds(cpuMs)}`, megabytes(peak)];
  process.stderr.write(`  ${what.padEnd(28)} ${figures.join('  ')}\n`);
}

/** Runs `work` on a database and a marketplace of its own, which are gone afterwards. */
async function withRounds(
  items: number,
  work: (rounds: Rounds) => Promise<Results>,
): Promise<Results> {
  await checkDisk(items);
  const database = await BenchDatabase.open();
  try {
    const marketplace = await BenchMarketplace.open(items);
    try {
      const megabytesOfList = megabytes(marketplace.ready.bytes);
      process.stderr.write(`${items} items, ${megabytesOfList} of JSON\n`);
      return await work(new Rounds(database, marketplace, say));
    } finally {
      await marketplace.close();
    }
  } finally {
    await database.close();
  }
}

async function checkDisk(items: number): Promise<void> {
  const { bavail, bsize } = await statfs(tmpdir());
  const needed = items * DISK_BYTES_AN_ITEM + 3e9;
  if (bavail * bsize >= needed) return;
  throw new Error(
    `${tmpdir()} has ${megabytes(bavail * bsize)} left and ${megabytes(needed)} may be needed; set TMPDIR to another folder`,
  );
}

async function run(options: Options): Promise<Line[]> {
  const { only, items, million, nights } = options;
  const wanted = (part: Options['only']): boolean => only === null || only === part;
  return [
    ...(wanted('mirror') ? await mirrorLines(options) : []),
    ...(wanted('codes') ? await auditLines(million) : []),
    ...(wanted('reporting') ? await reportingLines(items, nights) : []),
  ];
}

async function mirrorLines(options: Options): Promise<Line[]> {
  const { items, million } = options;
  const results = await withRounds(items, (rounds) => rounds.all(options));
  const lines = linesOf(results, items);
  if (!million) return lines;
  const large = await withRounds(items * LARGER, (rounds) => rounds.program(LARGER_LOADS));
  return [...lines, ...growthLines(results, large, items * LARGER)];
}

function surroundings(options: Options): string {
  const [cpu] = cpus();
  const repetitions = `medians (loads: ${options.loads}, nights: ${options.nights})`;
  const machine = `${cpus().length} × ${cpu?.model.trim() ?? 'unknown CPU'}`;
  return `${options.items} items, ${repetitions}; ${machine}, Node ${process.version}, load ${loadavg()[0]?.toFixed(1)} before`;
}

async function main(): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  if (options === null) return console.log(USAGE);
  const about = surroundings(options);
  const lines = await run(options);
  const judged = options.items < JUDGED_ITEMS ? lines.map(withoutVerdict) : lines;
  console.log(`${about}\n\n${(options.markdown ? markdownTable : plainTable)(judged)}`);
  if (judged.some(({ met }) => met === false)) process.exitCode = 1;
}

function withoutVerdict(line: Line): Line {
  return { ...line, met: null };
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
