import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import {
  KEY,
  measureBaseline,
  measureJob,
  measureProgram,
  withMarketplace,
  type Marketplace,
  type Measured,
  type Settings,
} from './children.js';
import { BenchDatabase } from './database.js';
import {
  atLeast,
  atMost,
  bounded,
  count,
  information,
  median,
  megabytes,
  say,
  seconds,
  type Line,
} from './table.js';

const LARGER = 10;
const UPSERTED_ROWS = 2_000;
/** List, rows, index, WAL and the files of the baseline, for each item. */
const DISK_BYTES_AN_ITEM = 10_000;
const SYNC = ['sync', 'items', '--json'];

/**
 * Measures catalogue runs beside plain ways of doing the same.
 * @param loads repetitions of first loads
 * @param nights repetitions of unchanged nights
 */
export async function mirrorLines(items: number, loads: number, nights: number): Promise<Line[]> {
  const rounds = await withRounds(items, async (rounds) => {
    for (let round = 0; round < loads; round++) await rounds.load(round === 0);
    await rounds.program(loads);
    for (let round = 0; round < nights; round++) await rounds.night();
    for (let round = 0; round < loads; round++) await rounds.sale();
  });
  return linesOf(rounds, items);
}

/** One seller with ten times the items: memory should stay, and processor time grow with the items only. */
export async function growthLines(items: number): Promise<Line[]> {
  const small = await withRounds(items, (rounds) => rounds.program(1));
  const large = await withRounds(items * LARGER, (rounds) => rounds.program(1));
  const told = (rounds: Rounds, run: Run): string =>
    `${seconds(rounds.time(run))}, CPU ${seconds(rounds.cpu(run))}`;
  return PROGRAM_RUNS.flatMap(([run, what]) => {
    const [few, name] = [
      `${count(items)} items, ${what}`,
      `${count(items * LARGER)} items, ${what}`,
    ];
    const slower = large.cpu(run) / (LARGER * small.cpu(run));
    const [peak, smallPeak] = [large.peak(run), small.peak(run)];
    return [
      information(few, told(small, run), megabytes(smallPeak)),
      atMost(name, told(large, run), slower, 1.25, 'the CPU time of an item of the small one'),
      atMost(`${name}: peak memory`, megabytes(peak), peak / smallPeak, 1.25, 'the small one'),
    ];
  });
}

/** Runs `work` on a database and a marketplace of its own, which are gone afterwards. */
async function withRounds(items: number, work: (rounds: Rounds) => Promise<void>): Promise<Rounds> {
  const { bavail, bsize } = await statfs(tmpdir());
  const needed = items * DISK_BYTES_AN_ITEM + 3e9;
  if (bavail * bsize < needed) {
    throw new Error(
      `${tmpdir()} has ${megabytes(bavail * bsize)} left and ${megabytes(needed)} may be needed; set TMPDIR to another folder`,
    );
  }
  const database = await BenchDatabase.open();
  try {
    await database.stopAutovacuum();
    return await withMarketplace({ items }, async (marketplace) => {
      say(`${items} items, ${megabytes(marketplace.state.bytes)} of JSON`);
      const rounds = new Rounds(database, marketplace);
      await work(rounds);
      return rounds;
    });
  } finally {
    await database.close();
  }
}

/** What is measured in a process of its own. */
type Run =
  | 'first load'
  | 'download + COPY'
  | 'upserts'
  | 'download + JSON.parse'
  | 'unchanged night'
  | '1 % changed'
  | 'everything changed'
  | 'everything, plain SQL'
  | 'program, first load'
  | 'program, unchanged';
/** Rows that are counted. */
type Rows = 'history of loads' | 'history of nights' | 'items of nights';

const PROGRAM_RUNS: readonly (readonly [Run, string])[] = [
  ['program, first load', 'first load'],
  ['program, unchanged', 'unchanged night'],
];

/** The repetitions, in turns with those of the baselines, so that a drift of the machine hits both. */
class Rounds {
  readonly #runs = new Map<Run, Measured[]>();
  readonly #rows = new Map<Rows, number[]>();
  readonly #settings: Settings;

  constructor(
    readonly database: BenchDatabase,
    readonly marketplace: Marketplace,
  ) {
    this.#settings = {
      DATABASE_URL: database.url,
      MARKETPLACE_URL: marketplace.state.url,
      MARKETPLACE_API_KEY: KEY,
      REQUESTS_PER_MINUTE: '0',
    };
  }

  /** The median time of a run, milliseconds. */
  time(run: Run): number {
    return median((this.#runs.get(run) ?? []).map(({ ms }) => ms));
  }

  /** The median processor time of a run, milliseconds. */
  cpu(run: Run): number {
    return median((this.#runs.get(run) ?? []).map(({ cpuMs }) => cpuMs));
  }

  /** The highest peak of all runs: memory has no good days. */
  peak(run: Run): number {
    return Math.max(...(this.#runs.get(run) ?? []).map(({ peak }) => peak));
  }

  mostRows(rows: Rows): number {
    return Math.max(...(this.#rows.get(rows) ?? []));
  }

  /** The program itself, from start to exit: first loads and unchanged nights. */
  async program(repetitions: number): Promise<void> {
    for (let round = 0; round < repetitions; round++) {
      await this.database.empty('mirror.items');
      await this.#note('program, first load', measureProgram(SYNC, this.#settings));
      await this.database.settle();
      await this.#note('program, unchanged', measureProgram(SYNC, this.#settings));
    }
  }

  async load(first: boolean): Promise<void> {
    const { database } = this;
    const { listUrl } = this.marketplace.state;
    await database.empty('mirror.items');
    await this.#note('first load', measureJob(this.#settings));
    this.#count('history of loads', await database.historyRows());
    if (first) await database.makeBaseline();
    await database.empty('bench.items');
    const copies = [{ file: database.rowsFile, into: 'bench.items FROM STDIN (FORMAT binary)' }];
    const databaseUrl = database.url;
    await this.#note('download + COPY', measureBaseline('copy', { listUrl, databaseUrl, copies }));
    const rows = { databaseUrl, rows: UPSERTED_ROWS };
    await this.#note('upserts', measureBaseline('upsert', rows));
  }

  async night(): Promise<void> {
    const { database, marketplace } = this;
    const { listUrl } = marketplace.state;
    await this.#note('download + JSON.parse', measureBaseline('parse', { listUrl }));
    const history = await database.historyRows();
    const written = await database.rowsWritten(() => this.#job('unchanged night'));
    this.#count('items of nights', written);
    this.#count('history of nights', (await database.historyRows()) - history);
    await marketplace.tell({ kind: 'touch', percent: 1 });
    await this.#job('1 % changed');
  }

  /** A sale, which changes every item; and the same rows written by plain statements. */
  async sale(): Promise<void> {
    const { database, marketplace } = this;
    await database.settle();
    await marketplace.tell({ kind: 'touch', percent: 100 });
    await this.#job('everything changed');
    await database.refill();
    const { listUrl } = marketplace.state;
    const input = { listUrl, databaseUrl: database.url, file: database.rowsFile };
    await this.#note('everything, plain SQL', measureBaseline('sale', input));
  }

  async #job(run: Run): Promise<void> {
    await this.#note(run, measureJob(this.#settings));
  }

  async #note(run: Run, measuring: Promise<Measured>): Promise<void> {
    const measured = await measuring;
    const { ms, peak, cpuMs } = measured;
    const figures = [seconds(ms), `CPU ${seconds(cpuMs)}`, megabytes(peak)];
    say(`${run.padEnd(28)} ${figures.join('  ')}`);
    this.#runs.set(run, [...(this.#runs.get(run) ?? []), measured]);
  }

  #count(rows: Rows, number: number): void {
    this.#rows.set(rows, [...(this.#rows.get(rows) ?? []), number]);
  }
}

/** The table's lines for one size of catalogue. */
function linesOf(rounds: Rounds, items: number): Line[] {
  const time = (run: Run): number => rounds.time(run);
  const perSecond = (rate: number): string => `${count(Math.round(rate))} rows/s`;
  const copy = time('download + COPY');
  const [first, night, changed] = [
    time('first load'),
    time('unchanged night'),
    time('1 % changed'),
  ];
  const [sale, plain] = [time('everything changed'), time('everything, plain SQL')];
  const parse = time('download + JSON.parse');
  const rate = (items / first) * 1000;
  const upserts = (Math.min(items, UPSERTED_ROWS) / time('upserts')) * 1000;
  return [
    information('Baseline: download + COPY of the finished rows', seconds(copy)),
    information('Baseline: Prisma upsert per row', perSecond(upserts)),
    information('Baseline: download + JSON.parse', seconds(parse)),
    atMost('First load', seconds(first), first / copy, 1.1, 'download + COPY'),
    atLeast('First load, rate', perSecond(rate), rate / upserts, 40, 'upsert per row'),
    atMost('Unchanged night', seconds(night), night / parse, 2, 'download + JSON.parse'),
    bounded('First load, rows of history written', rounds.mostRows('history of loads'), 0),
    bounded('Unchanged night, item rows written', rounds.mostRows('items of nights'), 0),
    bounded('Unchanged night, rows of history written', rounds.mostRows('history of nights'), 0),
    atMost('1 % changed', seconds(changed), changed / night, 1.2, 'unchanged night'),
    atMost('Everything changed', seconds(sale), sale / copy, 2.5, 'download + COPY'),
    information(
      'Baseline: the same rows by COPY, UPDATE and INSERTs',
      seconds(plain),
      `${(plain / copy).toFixed(2)} ×`,
    ),
    information('Whole process, first load', seconds(time('program, first load'))),
    information('Whole process, unchanged night', seconds(time('program, unchanged'))),
    ...PROGRAM_RUNS.map(([run, what]) => {
      const name = `Peak memory at ${count(items)} items, ${what}`;
      return bounded(name, rounds.peak(run), 200e6, megabytes);
    }),
  ];
}
