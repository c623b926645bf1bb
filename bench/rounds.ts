import { measure, measureProgram, type Measured, type Settings } from './children.js';
import type { CopyInput } from './copy-rows.js';
import { FORMATS, type BenchDatabase, type Format } from './database.js';
import type { Options } from './options.js';
import { KEY, type BenchMarketplace } from './simulator.js';

/** Everything measured, each figure as often as it was repeated. */
export interface Results {
  readonly firstLoad: Measured[];
  readonly download: Measured[];
  readonly copy: Record<Format, Measured[]>;
  /** Rows a second. */
  readonly upsertRate: number[];
  readonly parse: Measured[];
  readonly unchanged: Measured[];
  readonly changed: Measured[];
  readonly rowsWritten: number[];
  /** Rows of history that a first load, or an unchanged night, wrote. */
  readonly historyOfLoads: number[];
  readonly historyOfNights: number[];
  readonly rowsChanged: number[];
  readonly allChanged: Measured[];
  readonly notation: Measured[];
  readonly notationRowsWritten: number[];
  readonly programFirst: Measured[];
  readonly programNight: Measured[];
}

const UPSERTED_ROWS = 2_000;
const SYNC = ['sync', 'items', '--json'];

/** The repetitions, in turns with those of the baselines, so that a drift of the machine hits both. */
export class Rounds {
  readonly results: Results = {
    firstLoad: [],
    download: [],
    copy: { binary: [], text: [] },
    upsertRate: [],
    parse: [],
    unchanged: [],
    changed: [],
    rowsWritten: [],
    historyOfLoads: [],
    historyOfNights: [],
    rowsChanged: [],
    allChanged: [],
    notation: [],
    notationRowsWritten: [],
    programFirst: [],
    programNight: [],
  };
  readonly #database: BenchDatabase;
  readonly #marketplace: BenchMarketplace;
  readonly #settings: Settings;
  readonly #say: (what: string, measured: Measured) => void;

  constructor(
    database: BenchDatabase,
    marketplace: BenchMarketplace,
    say: (what: string, measured: Measured) => void,
  ) {
    this.#database = database;
    this.#marketplace = marketplace;
    this.#say = say;
    this.#settings = {
      DATABASE_URL: database.url,
      MARKETPLACE_URL: marketplace.ready.url,
      MARKETPLACE_API_KEY: KEY,
      REQUESTS_PER_MINUTE: '0',
    };
  }

  /** All of it at one size. */
  async all({ loads, nights }: Options): Promise<Results> {
    for (let round = 0; round < loads; round++) await this.#load(round === 0);
    await this.program(loads);
    for (let round = 0; round < nights; round++) await this.#night();
    await this.#largeChanges();
    return this.results;
  }

  /** The program itself, from start to exit: first loads and unchanged nights. */
  async program(repetitions: number): Promise<Results> {
    const { programFirst, programNight } = this.results;
    for (let round = 0; round < repetitions; round++) {
      await this.#database.empty('mirror.items');
      await this.#note('program, first load', programFirst, measureProgram(SYNC, this.#settings));
      await this.#database.settle();
      await this.#note('program, unchanged', programNight, measureProgram(SYNC, this.#settings));
    }
    return this.results;
  }

  async #load(first: boolean): Promise<void> {
    const { firstLoad, copy, upsertRate, historyOfLoads } = this.results;
    await this.#database.empty('mirror.items');
    await this.#note('first load', firstLoad, this.#job());
    historyOfLoads.push(await this.#database.historyRows());
    if (first) await this.#database.makeBaseline();
    for (const format of FORMATS) {
      await this.#database.empty('bench.items');
      const input: CopyInput = {
        listUrl: this.#marketplace.ready.listUrl,
        databaseUrl: this.#database.url,
        file: this.#database.rowsFile(format),
        copy: this.#database.copyStatement(format),
      };
      await this.#note(`download + COPY, ${format}`, copy[format], measure('copy-rows', input));
    }
    const upserts = await measure<Measured & { rows: number }>('upsert-rows', {
      databaseUrl: this.#database.url,
      rows: UPSERTED_ROWS,
    });
    this.#say(`${upserts.rows} upserts`, upserts);
    upsertRate.push((upserts.rows / upserts.ms) * 1000);
  }

  async #night(): Promise<void> {
    const { parse, unchanged, changed, rowsWritten, rowsChanged, historyOfNights } = this.results;
    const { listUrl } = this.#marketplace.ready;
    await this.#note('download + JSON.parse', parse, measure('parse-list', { listUrl }));
    const history = await this.#database.historyRows();
    const written = await this.#database.rowsWritten(() =>
      this.#note('unchanged night', unchanged, this.#job()),
    );
    rowsWritten.push(written);
    historyOfNights.push((await this.#database.historyRows()) - history);
    await this.#marketplace.change({ kind: 'touch', percent: 1 });
    const rows = await this.#database.rowsWritten(() =>
      this.#note('1 % changed', changed, this.#job()),
    );
    rowsChanged.push(rows);
  }

  /** For information. */
  async #largeChanges(): Promise<void> {
    const { allChanged, notation, notationRowsWritten } = this.results;
    await this.#database.settle();
    await this.#marketplace.change({ kind: 'touch', percent: 100 });
    await this.#note('everything changed', allChanged, this.#job());
    await this.#database.settle();
    await this.#marketplace.change({ kind: 'notation', other: true });
    const rows = await this.#database.rowsWritten(() =>
      this.#note('notation changed', notation, this.#job()),
    );
    notationRowsWritten.push(rows);
  }

  #job(): Promise<Measured> {
    return measure('mirror-job', null, this.#settings);
  }

  async #note(what: string, into: Measured[], measuring: Promise<Measured>): Promise<void> {
    const measured = await measuring;
    this.#say(what, measured);
    into.push(measured);
  }
}
