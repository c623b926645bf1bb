import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { deliverFeed, type FeedContent, type ViewReport } from '../../src/feeds/deliver.js';
import { TargetError } from '../../src/feeds/target.js';
import { Exports, withExports } from '../../src/store/exports.js';
import { FOLLOWED_VIEWS, feedRule } from '../../src/store/feed-rules.js';
import { openStore, type Store } from '../../src/store/store.js';
import {
  audit,
  auditCodes,
  emptyBook,
  mirrorNight,
  night,
  SELLERS,
  type Valued,
} from '../export/sequences.js';
import { HistoryBook } from '../store/history-book.js';
import {
  FEED,
  openDatabases,
  placeOf,
  readView,
  type FeedDatabase,
  type Kept,
  type ViewColumns,
} from './databases.js';

/** More of both take longer and find more. */
const TRIALS = Number(process.env['TRIALS'] ?? 4);
const KILLS = Number(process.env['KILLS'] ?? 15);

/** Those that can be followed, and one that is replaced whole. */
const VIEWS = [...FOLLOWED_VIEWS, 'sync_runs'];
/** Each gives a view another column, which then stays. */
const MOST_GAINS = 4;

let book: HistoryBook;
let store: Store;
let source: Source;
let databases: FeedDatabase[];
beforeAll(async () => {
  book = await HistoryBook.open();
  store = openStore(book.url, 'test');
  source = await Source.open();
  databases = await openDatabases();
});
afterAll(async () => {
  for (const database of databases) await database.close();
  await source.close();
  await store.close();
  await book.close();
});

type Row = Kept['marked'][number];

/** The views, and all states that they ever had. */
class Source {
  readonly #client: Client;
  readonly #exports = new Exports(book.url, new AbortController().signal);
  /** Rows of each view at each cursor; of views without one, all under the name `whole`. */
  readonly #states = new Map<string, string[]>();
  columns: readonly ViewColumns[] = [];
  #gains = 0;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async open(): Promise<Source> {
    const client = new Client(book.url);
    await client.connect();
    return new Source(client);
  }

  async close(): Promise<void> {
    await this.#exports.close();
    await this.#client.end();
  }

  /** Notes what the views show now. */
  remember = async (): Promise<void> => {
    const { rows: epochs } = await this.#client.query<{ epoch: string }>(
      'SELECT epoch FROM mirror.epochs',
    );
    const epoch = epochs[0]?.epoch;
    const all: ViewColumns[] = [];
    for (const view of VIEWS) {
      const { columns, rows, cursor } = await readView(this.#exports, view);
      const at = cursor === null ? 'whole' : placeOf(epoch, cursor.seq);
      const key = `${view} ${at}`;
      const text = textOf(rows, { view, columns });
      this.#states.set(key, [...(this.#states.get(key) ?? []), text]);
      this.#states.set(view, [text]);
      all.push({ view, columns });
    }
    this.columns = all;
  };

  /** What the view shows now. */
  now(view: string): string {
    return this.#states.get(view)?.[0] ?? '';
  }

  /** What the view may have shown at a place. */
  statesAt(view: string, at: string): readonly string[] {
    return this.#states.get(`${view} ${feedRule(view) === null ? 'whole' : at}`) ?? [];
  }

  /** Whether the view ever showed such a state. */
  everHad(view: string, is: (state: string) => boolean): boolean {
    return [...this.#states].some(([key, states]) => key.startsWith(`${view} `) && states.some(is));
  }

  /** Begins again, empty. */
  async begin(): Promise<void> {
    await this.restore();
    this.#states.clear();
    await this.remember();
  }

  /** Forgets all, with another epoch and lower numbers, as a restore from a backup does. */
  async restore(): Promise<void> {
    await emptyBook(book);
    await book.rows(`UPDATE mirror.epochs SET epoch = gen_random_uuid()`);
    await book.rows(`SELECT setval('mirror.item_changes_seq_seq', 3)`);
  }

  /** A migration adds a column to a view. */
  async gain(): Promise<void> {
    if ((this.#gains += 1) > MOST_GAINS) return;
    const view = this.#gains % 2 === 0 ? 'items' : 'sync_runs';
    const [row] = await book.rows<{ sql: string }>(
      `SELECT rtrim(pg_get_viewdef('reporting.${view}'::regclass), ';') AS sql`,
    );
    await book.rows(`CREATE OR REPLACE VIEW reporting.${view} AS
      SELECT old.*, length(old.seller_id) + ${this.#gains} AS gained_${this.#gains}
        FROM (${row?.sql ?? ''}) AS old`);
  }
}

/** Rows as lines in an order of their own. */
function textOf(rows: readonly Row[], { columns }: ViewColumns): string {
  const lines = rows.map((row) => JSON.stringify(columns.map(({ name }) => [name, row[name]])));
  return lines.sort().join('\n');
}

/** A target as the trial knows it. */
class Copy {
  /** Keys of items that people wrote a note to. */
  #noted: readonly string[] = [];
  #hasNotes = false;
  #changes = 0;
  /** Columns that people dropped, renamed or gave another type. */
  readonly #taken = new Set<string>();
  /** Keys that ever were in a table. */
  readonly #seen = new Map<string, Set<string>>();

  constructor(
    readonly database: FeedDatabase,
    readonly deletes: FeedContent['deletes'],
  ) {}

  /** Delivers once, as a worker does. */
  async deliver(
    signal = new AbortController().signal,
    onProgress: () => void = () => undefined,
  ): Promise<ViewReport[]> {
    const target = await this.database.open(signal);
    try {
      return await withExports(book.url, signal, (exports) =>
        deliverFeed(
          exports,
          target,
          { views: VIEWS, sellers: null, deletes: this.deletes },
          { signal, onProgress },
        ),
      );
    } finally {
      await target.close();
    }
  }

  /** Delivers all; then the target has what the views show. */
  async deliverAll(): Promise<void> {
    const reports = await this.deliver();
    expect(reports.map(({ problem }) => problem)).toEqual(VIEWS.map(() => null));
    const kept = await this.expectExact();
    for (const { view } of source.columns) {
      this.#expectText(view, kept, source.now(view));
    }
  }

  /** A delivery that is disturbed ends as an error of the target, in an abort, or well. */
  async disturbed(delivering: Promise<unknown>, signal?: AbortSignal): Promise<boolean> {
    try {
      await delivering;
      return true;
    } catch (error) {
      if (!(error instanceof TargetError) && signal?.aborted !== true) throw error;
      return false;
    }
  }

  /** Whatever happened, each table is what its view was at the cursor that the target tells. */
  async expectExact(): Promise<ReadonlyMap<string, Kept>> {
    const kept = await this.database.read(source.columns);
    for (const { view } of source.columns) {
      const { at, rows } = kept.get(view) ?? { at: null, rows: null };
      if (at === null) {
        // MariaDB renames no table in a transaction: for a moment there are rows and no cursor.
        const isWhole =
          this.database.name === 'MariaDB' &&
          source.everHad(view, (state) => {
            const [found, wanted] = this.#comparable(view, kept, state);
            return found === wanted;
          });
        const found = isWhole ? [] : (rows ?? []);
        expect(found, `${this.database.name}: ${view} before its first delivery`).toEqual([]);
        continue;
      }
      const states = source.statesAt(view, at);
      const isOne = states.some((state) => {
        const [found, wanted] = this.#comparable(view, kept, state);
        return found === wanted;
      });
      if (!isOne) this.#expectText(view, kept, states.at(-1) ?? `no state at ${at}`);
      this.#expectMarked(view, kept.get(view));
    }
    await this.#expectNotes(kept);
    return kept;
  }

  #expectText(view: string, kept: ReadonlyMap<string, Kept>, text: string): void {
    const [found, wanted] = this.#comparable(view, kept, text);
    expect(found.split('\n'), `${this.database.name}: ${view}`).toEqual(wanted.split('\n'));
  }

  /**
   * Rows of a target and those of a state, in the columns that both have. A column that the view gained may
   * be there already, empty; and so may one that people took away, while the target says that values lack.
   */
  #comparable(view: string, kept: ReadonlyMap<string, Kept>, state: string): [string, string] {
    const there = kept.get(view);
    const wanted = state.startsWith('[')
      ? state.split('\n').map((line) => Object.fromEntries(JSON.parse(line) as []) as Row)
      : [];
    const [first] = wanted;
    const columns = (source.columns.find((one) => one.view === view)?.columns ?? []).filter(
      ({ name }) =>
        (first === undefined || name in first) &&
        (there === undefined || there.columns.size === 0 || there.columns.has(name)) &&
        !(there?.isIncomplete === true && this.#taken.has(name)),
    );
    const shown = { view, columns };
    return [
      textOf(there?.rows ?? [], shown),
      state.startsWith('[') ? textOf(wanted, shown) : state,
    ];
  }

  /** Rows that are gone stay where the feed marks them. */
  #expectMarked(view: string, kept: Kept | undefined): void {
    const key = feedRule(view)?.key;
    if (this.deletes === 'delete' || key === undefined || kept === undefined) return;
    const all = new Set([...(kept.rows ?? []), ...kept.marked].map((row) => keyOf(row, key)));
    for (const one of this.#seen.get(view) ?? []) expect(all).toContain(one);
    this.#seen.set(view, all);
  }

  async #expectNotes(kept: ReadonlyMap<string, Kept>): Promise<void> {
    if (!this.#hasNotes) return;
    const table = this.database.table('items');
    const key = feedRule('items')?.key ?? [];
    const noted = await this.database.query(
      `SELECT seller_id, item_id FROM ${table} WHERE note = 'mine'`,
    );
    const found = noted.map((row) => keyOf(row, key));
    const live = new Set((kept.get('items')?.rows ?? []).map((row) => keyOf(row, key)));
    this.#noted = this.#noted.filter((one) => live.has(one));
    expect(found).toEqual(expect.arrayContaining([...this.#noted]));
  }

  /** People change a table of theirs. */
  async change(what: Valued<typeof people>['what']): Promise<void> {
    const { database } = this;
    const table = database.table('items');
    const kept = (await database.read(source.columns)).get('items');
    if (kept?.rows === null || kept === undefined) return;
    this.#changes += 1;
    const column = ['version', 'price_regular', 'changed_at'][this.#changes % 3] ?? '';
    const isThere = kept.columns.has(column);
    switch (what) {
      case 'index': {
        const part = database.name === 'MariaDB' ? 'name(20)' : 'name';
        await database.exec(`CREATE INDEX people_${this.#changes} ON ${table} (${part})`);
        return;
      }
      case 'drop':
        // SQLite drops no column that an index has.
        if (!isThere || column === 'changed_at') return;
        this.#taken.add(column);
        await database.exec(`ALTER TABLE ${table} DROP COLUMN ${column}`);
        return;
      case 'rename':
        if (!isThere) return;
        this.#taken.add(column);
        await database.exec(
          `ALTER TABLE ${table} RENAME COLUMN ${column} TO people_${this.#changes}`,
        );
        return;
      case 'type':
        return this.#changeType(table);
      case 'note':
        break;
    }
    if (!this.#hasNotes) await database.exec(`ALTER TABLE ${table} ADD COLUMN note varchar(20)`);
    this.#hasNotes = true;
    await database.exec(`UPDATE ${table} SET note = 'mine'`);
    const key = feedRule('items')?.key ?? [];
    this.#noted = kept.rows.map((row) => keyOf(row, key));
  }

  /** A column gets another type: its view stops alone, and goes on when people have mended it. */
  async #changeType(table: string): Promise<void> {
    const { database } = this;
    const name = 'price_extended';
    this.#taken.add(name);
    await database.exec(`ALTER TABLE ${table} DROP COLUMN ${name}`);
    await database.exec(`ALTER TABLE ${table} ADD COLUMN ${name} date`);
    const reports = await this.deliver();
    for (const { view, problem } of reports) {
      if (view !== 'items') expect(problem).toBeNull();
      else {
        expect(problem?.message).toMatch(
          /^column price_extended .* has type date, .* (?:numer|decim)/i,
        );
        expect(problem?.remedy).toMatch(/^change the column’s type to (?:numeric|decimal)/i);
      }
    }
    await database.exec(`ALTER TABLE ${table} DROP COLUMN ${name}`);
    await database.exec(`ALTER TABLE ${table} ADD COLUMN ${name} decimal(14,2)`);
    await this.expectExact();
  }
}

function keyOf(row: Row | Readonly<Record<string, unknown>>, key: readonly string[]): string {
  return JSON.stringify(key.map((name) => String(row[name])));
}

const deliver = fc.record({
  kind: fc.constant('deliver' as const),
  to: fc.constantFrom(0, 1, 2),
  how: fc.constantFrom('well', 'cut', 'cut', 'commit lost', 'reply lost', 'stopped', 'two'),
  /** After so many pieces of data or rows, or at this commit, it is disturbed. */
  after: fc.nat({ max: 60 }),
});
const people = fc.record({
  kind: fc.constant('people' as const),
  to: fc.constantFrom(0, 1, 2),
  what: fc.constantFrom('note', 'index', 'drop', 'rename', 'type'),
});
const gain = fc.constant({ kind: 'gain' as const });
const restore = fc.constant({ kind: 'restore' as const });

async function deliverDisturbed(copy: Copy, { how, after }: Valued<typeof deliver>): Promise<void> {
  const { link } = copy.database;
  let count = 0;
  switch (how) {
    case 'well':
      return copy.deliverAll();
    case 'cut':
      link?.inspect(() => (count += 1) <= after * 3);
      break;
    case 'commit lost':
      // Of each view there is one.
      link?.inspect((data, isToServer) => {
        const isCommit = isToServer && data.includes('COMMIT');
        return !isCommit || (count += 1) <= after % VIEWS.length;
      });
      break;
    case 'reply lost': {
      let isDone = false;
      link?.inspect((data, isToServer) => {
        if (isDone && !isToServer) return false;
        const isCommit = isToServer && data.includes('COMMIT');
        isDone ||= isCommit && (count += 1) > after % VIEWS.length;
        return true;
      });
      break;
    }
    case 'stopped':
      break;
    case 'two': {
      const both = await Promise.all([1, 2].map(() => copy.disturbed(copy.deliver())));
      expect(both).toContain(true);
      break;
    }
  }
  if (how !== 'two') {
    const stop = new AbortController();
    const isStopped = how === 'stopped';
    const onProgress = (): void => {
      if (isStopped && (count += 1) > after % 8) stop.abort(new Error('stopped'));
    };
    await copy.disturbed(copy.deliver(stop.signal, onProgress), stop.signal);
    link?.inspect(null);
  }
  await copy.expectExact();
}

it('a target always holds what the views showed at its cursor, through kills, outages and schema changes', async () => {
  const steps = fc.array(
    fc.oneof(
      { arbitrary: night, weight: 5 },
      { arbitrary: audit, weight: 2 },
      { arbitrary: deliver, weight: 9 },
      { arbitrary: people, weight: 3 },
      { arbitrary: gain, weight: 1 },
      { arbitrary: restore, weight: 1 },
    ),
    { minLength: 12, maxLength: 24, size: 'max' },
  );
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (sequence, isMarked) => {
      await source.begin();
      const copies = databases.map((one) => new Copy(one, isMarked ? 'mark' : 'delete'));
      for (const { database } of copies) {
        for (const table of [...VIEWS, '_seller_mirror_feeds']) {
          await database.exec(`DROP TABLE IF EXISTS ${database.table(table)}`);
        }
      }
      for (const [n, step] of sequence.entries()) {
        if (step.kind === 'night') await mirrorNight(book, n, step, source.remember);
        else if (step.kind === 'audit') await auditCodes(store, n, step);
        else if (step.kind === 'gain') await source.gain();
        else if (step.kind === 'restore') await source.restore();
        if (step.kind === 'deliver' || step.kind === 'people') {
          const copy = copies[step.to];
          if (copy === undefined) continue;
          await (step.kind === 'people' ? copy.change(step.what) : deliverDisturbed(copy, step));
        } else await source.remember();
      }
      for (const seller of SELLERS) await book.settle(seller);
      await source.remember();
      for (const copy of copies) {
        await copy.deliverAll();
        const again = await copy.deliver();
        expect(again.map(({ kind, rows, problem }) => [kind, rows, problem])).toEqual(
          VIEWS.map(() => ['same', 0, null]),
        );
      }
    }),
    { numRuns: TRIALS, endOnFailure: true },
  );
});

const DIST = new URL('../../dist/', import.meta.url).href;

/** Delivers to all targets, again and again. */
const SCRIPT = `
  const [dist, databaseUrl, feed, views, places] = process.argv.slice(1);
  const from = (path) => import(dist + path);
  const { runFeed } = await from('feeds/open.js');
  const { TargetError } = await from('feeds/target.js');
  const { Secret } = await from('domain/secret.js');
  const signal = new AbortController().signal;
  console.log('begins');
  for (const place of JSON.parse(places)) void (async () => {
    const target = place.url === undefined ? place : { ...place, url: new Secret(place.url) };
    const config = { name: feed, target, views: JSON.parse(views), sellers: null, deletes: 'delete' };
    for (;;) {
      try {
        await runFeed(databaseUrl, config, { signal });
      } catch (error) {
        if (!(error instanceof TargetError)) throw error;
        console.error(error.message);
      }
    }
  })();
`;

function startWorker(): ChildProcess {
  const places = databases.map(({ place }) => place);
  const given = [DIST, book.url, FEED, JSON.stringify(VIEWS), JSON.stringify(places)];
  const args = ['--input-type=module', '-e', SCRIPT, '--', ...given];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

it('kill -9 at any moment of a delivery neither loses nor repeats a row', async () => {
  await source.begin();
  const [events] = fc.sample(fc.array(night, { minLength: 40, maxLength: 40 }), 1);
  const copies = databases.map((one) => new Copy(one, 'delete'));
  for (const { database } of copies) {
    for (const table of [...VIEWS, '_seller_mirror_feeds']) {
      await database.exec(`DROP TABLE IF EXISTS ${database.table(table)}`);
    }
  }
  let nights = 0;
  for (let kills = 0; kills < KILLS; kills++) {
    if (Math.random() < 0.2) await source.restore();
    await source.remember();
    const worker = startWorker();
    const ended = once(worker, 'exit');
    await once(worker.stdout ?? worker, 'data');
    const killed = sleep(Math.random() * 400).then(() => worker.kill('SIGKILL'));
    while (worker.exitCode === null && worker.signalCode === null && !worker.killed) {
      const step = events?.[(nights += 1) % 40];
      if (step === undefined) continue;
      // A run first tells what a killed one left undecided: that is a state of its own.
      await book.settle(step.seller);
      await source.remember();
      await mirrorNight(book, nights, step, source.remember);
      await source.remember();
    }
    await killed;
    expect(await ended).toEqual([null, 'SIGKILL']);
    for (const copy of copies) await copy.expectExact();
  }
  for (const seller of SELLERS) await book.settle(seller);
  await source.remember();
  for (const copy of copies) await copy.deliverAll();
});
