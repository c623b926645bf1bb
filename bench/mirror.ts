import { statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { measureJob, measureProgram, type Measurement, type Settings } from './children.js';
import { BenchDatabase } from './database.js';
import { withMarketplace, type Marketplace } from './marketplace.js';
import {
  atLeast,
  atMost,
  bounded,
  count,
  growthLines,
  information,
  median,
  megabytes,
  perSecond,
  progress,
  seconds,
  times,
  usage,
  type Line,
} from './table.js';

/** How many times larger the large catalogue of `largeCatalogueLines` is. */
const GROWTH = 10;
const UPSERTED_ROWS = 2_000;
/** For each item: the list, its row, index and WAL, and the files of the baseline. */
const DISK_BYTES_PER_ITEM = 10_000;
const SYNC = ['sync', 'items', '--json'];

/**
 * Measures runs of items, compared with simple ways of doing the same.
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

/** Measures ten times as many items: memory must stay, and processor time must grow with the items only. */
export async function largeCatalogueLines(items: number): Promise<Line[]> {
  const small = await withRounds(items, (rounds) => rounds.program(1));
  const large = await withRounds(items * GROWTH, (rounds) => rounds.program(1));
  return PROGRAM_RUNS.flatMap(([run, what]) => {
    return growthLines(
      GROWTH,
      'an item',
      [`${count(items)} items, ${what}`, small.median(run)],
      [`${count(items * GROWTH)} items, ${what}`, large.median(run)],
    );
  });
}

/** Runs `work` with a database and a marketplace of its own. */
async function withRounds(items: number, work: (rounds: Rounds) => Promise<void>): Promise<Rounds> {
  const { bavail, bsize } = await statfs(tmpdir());
  const needed = items * DISK_BYTES_PER_ITEM + 3e9;
  if (bavail * bsize < needed) {
    throw new Error(
      `${tmpdir()} has ${megabytes(bavail * bsize)} left, and ${megabytes(needed)} may be needed; set TMPDIR to another folder`,
    );
  }
  const database = await BenchDatabase.open();
  try {
    await database.stopAutovacuum();
    return await withMarketplace({ items }, async (marketplace) => {
      progress(`${items} items, ${megabytes(marketplace.listBytes)} of JSON`);
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
  | 'upserts in transactions'
  | 'createMany'
  | 'first unchanged night'
  | 'download + JSON.parse'
  | 'unchanged night'
  | '1 % changed'
  | 'everything changed'
  | 'everything, plain SQL'
  | 'program, first load'
  | 'program, unchanged';
/** Rows that runs write. */
type Rows =
  | 'history of loads'
  | 'history of nights'
  | 'items of nights'
  | 'WAL of the first night'
  | 'WAL of the next night'
  | 'WAL of a sale';

/** What a user would write instead. */
const BY_PRISMA = [
  ['upserts', 'single'],
  ['upserts in transactions', 'transaction'],
  ['createMany', 'createMany'],
] as const;

const PROGRAM_RUNS: readonly (readonly [Run, string])[] = [
  ['program, first load', 'first load'],
  ['program, unchanged', 'unchanged night'],
];

/** Repeats runs and their baselines in turn, so that a change in the machine's speed affects both. */
class Rounds {
  readonly #runs = new Map<Run, Measurement[]>();
  readonly #rows = new Map<Rows, number>();
  readonly #settings: Settings;

  constructor(
    readonly database: BenchDatabase,
    readonly marketplace: Marketplace,
  ) {
    this.#settings = {
      DATABASE_URL: database.url,
      MARKETPLACE_URL: marketplace.url,
      MARKETPLACE_API_KEY: marketplace.key,
      REQUESTS_PER_MINUTE: '0',
    };
  }

  /** The median times and the highest peak of a run. */
  median(run: Run): Measurement {
    const all = this.#runs.get(run) ?? [];
    return {
      ms: median(all.map(({ ms }) => ms)),
      cpuMs: median(all.map(({ cpuMs }) => cpuMs)),
      peak: Math.max(...all.map(({ peak }) => peak)),
    };
  }

  mostRows(rows: Rows): number {
    return this.#rows.get(rows) ?? Number.NaN;
  }

  /** Measures the program from start to exit: first loads and unchanged nights. */
  async program(repetitions: number): Promise<void> {
    for (let round = 0; round < repetitions; round++) {
      await this.database.empty('mirror.items');
      await this.#record('program, first load', measureProgram(SYNC, this.#settings));
      await this.database.vacuum();
      await this.#record('program, unchanged', measureProgram(SYNC, this.#settings));
    }
  }

  async load(isFirst: boolean): Promise<void> {
    const { database } = this;
    const { url: databaseUrl, rowsFile: file } = database;
    const { listUrl } = this.marketplace;
    await database.empty('mirror.items');
    await this.#job('first load');
    this.#count('history of loads', await database.historyRows());
    if (isFirst) {
      // As in practice, where a checkpoint follows a load within minutes. After it, the first scan sets hint bits, and
      // with data checksums PostgreSQL logs each page whole.
      await database.checkpoint();
      const wal = await database.walBytes(() => this.#job('first unchanged night'));
      this.#count('WAL of the first night', wal);
      this.#count(
        'WAL of the next night',
        await database.walBytes(() => this.#job('first unchanged night')),
      );
    }
    if (isFirst) await database.makeBaseline();
    await database.empty('bench.items');
    const copies = [{ file, into: 'bench.items FROM STDIN (FORMAT binary)' }];
    await this.#record('download + COPY', measureJob('copy', { listUrl, databaseUrl, copies }));
    const rows = UPSERTED_ROWS;
    for (const [run, how] of BY_PRISMA) {
      await this.#record(run, measureJob('upsert', { databaseUrl, rows, how }));
    }
  }

  async night(): Promise<void> {
    const { database, marketplace } = this;
    const { listUrl } = marketplace;
    await this.#record('download + JSON.parse', measureJob('parse', { listUrl }));
    const history = await database.historyRows();
    const written = await database.rowsWritten(() => this.#job('unchanged night'));
    this.#count('items of nights', written);
    this.#count('history of nights', (await database.historyRows()) - history);
    await marketplace.touch(1);
    await this.#job('1 % changed');
  }

  /** Measures a sale, which changes every item, and plain statements that write the same rows. */
  async sale(): Promise<void> {
    const { database, marketplace } = this;
    await database.vacuum();
    await marketplace.touch(100);
    this.#count('WAL of a sale', await database.walBytes(() => this.#job('everything changed')));
    await database.refill();
    const { url: databaseUrl, rowsFile: file } = database;
    const input = { listUrl: marketplace.listUrl, databaseUrl, file };
    await this.#record('everything, plain SQL', measureJob('sale', input));
  }

  async #job(run: Run): Promise<void> {
    await this.#record(run, measureJob('items', undefined, this.#settings));
  }

  async #record(run: Run, measuring: Promise<Measurement>): Promise<void> {
    const measured = await measuring;
    progress(`${run.padEnd(28)} ${usage(measured)}`);
    this.#runs.set(run, [...(this.#runs.get(run) ?? []), measured]);
  }

  #count(rows: Rows, number: number): void {
    this.#rows.set(rows, Math.max(this.#rows.get(rows) ?? 0, number));
  }
}

/** The table's lines for a catalogue of this size. */
function linesOf(rounds: Rounds, items: number): Line[] {
  const time = (run: Run): number => rounds.median(run).ms;
  const copy = time('download + COPY');
  const first = time('first load');
  const night = time('unchanged night');
  const changed = time('1 % changed');
  const sale = time('everything changed');
  const plain = time('everything, plain SQL');
  const parse = time('download + JSON.parse');
  const rate = (items / first) * 1000;
  const rateOf = (run: Run): number => (Math.min(items, UPSERTED_ROWS) / time(run)) * 1000;
  const upserts = rateOf('upserts');
  return [
    information('Baseline: download + COPY of the finished rows', seconds(copy)),
    information('Baseline: Prisma upsert per row', perSecond(upserts, 'rows')),
    ...(['upserts in transactions', 'createMany'] as const).map((run) =>
      information(
        `Baseline: Prisma, ${run}`,
        perSecond(rateOf(run), 'rows'),
        `first load ${times(rate / rateOf(run))}`,
      ),
    ),
    information('Baseline: download + JSON.parse', seconds(parse)),
    atMost('First load', seconds(first), first / copy, 1.5, 'download + COPY'),
    atLeast('First load, rate', perSecond(rate, 'rows'), rate / upserts, 40, 'upsert per row'),
    atMost('Unchanged night', seconds(night), night / parse, 0.8, 'download + JSON.parse'),
    bounded('First load, rows of history written', rounds.mostRows('history of loads'), 0),
    bounded('Unchanged night, item rows written', rounds.mostRows('items of nights'), 0),
    bounded('Unchanged night, rows of history written', rounds.mostRows('history of nights'), 0),
    atMost('1 % changed', seconds(changed), changed / night, 1.4, 'unchanged night'),
    atMost('Everything changed', seconds(sale), sale / copy, 4.5, 'download + COPY'),
    information(
      'Baseline: the same rows by COPY, UPDATE and INSERTs',
      seconds(plain),
      times(plain / copy),
    ),
    information('WAL of a sale', megabytes(rounds.mostRows('WAL of a sale'))),
    information(
      'WAL of the first unchanged night',
      megabytes(rounds.mostRows('WAL of the first night')),
    ),
    information('WAL of the next one', megabytes(rounds.mostRows('WAL of the next night'))),
    information('Whole process, first load', seconds(time('program, first load'))),
    information('Whole process, unchanged night', seconds(time('program, unchanged'))),
    ...PROGRAM_RUNS.map(([run, what]) => {
      const name = `Peak memory at ${count(items)} items, ${what}`;
      return bounded(name, rounds.median(run).peak, 330e6, megabytes);
    }),
  ];
}
