import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import type { Client } from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import {
  deliverFeed,
  type FeedContent,
  type ViewReport,
} from '../../../src/reporting/feeds/deliver.js';
import { TargetError } from '../../../src/reporting/feeds/target.js';
import { Exports, withExports } from '../../../src/reporting/exports.js';
import { FOLLOWED_VIEWS, followRule } from '../../../src/reporting/followed-views.js';
import {
  audit,
  auditCodes,
  emptyBook,
  mirrorNight,
  night,
  type Valued,
} from '../export/sequences.js';
import { HistoryBook } from '../../catalogue/history-book.js';
import { type Db, openDb } from '../../../src/db/db.js';
import { DbClient } from '../../../src/db/connection.js';
import {
  FEED,
  openDatabases,
  positionOf,
  readView,
  type FeedDatabase,
  type StoredView,
  type ViewColumns,
} from './databases.js';

/** Higher numbers take longer and find more. */
const TRIALS = Number(process.env['TRIALS'] ?? 4);
const KILLS = Number(process.env['KILLS'] ?? 15);

/** All views with a cursor, and one that is replaced as a whole. */
const VIEWS = [...FOLLOWED_VIEWS, 'sync_runs'];
/** Maximum number of columns that are added to views; they stay for the whole test. */
const MAX_ADDED_COLUMNS = 4;

let book: HistoryBook;
let db: Db;
let source: Source;
let databases: FeedDatabase[];
beforeAll(async () => {
  book = await HistoryBook.open();
  db = openDb(book.url, 'test');
  source = await Source.open();
  databases = await openDatabases();
});
afterAll(async () => {
  for (const database of databases) await database.close();
  await source.close();
  await db.close();
  await book.close();
});

type Row = StoredView['marked'][number];

/** The store's views, with all their earlier states. */
class Source {
  readonly #client: Client;
  readonly #exports = new Exports(book.url, new AbortController().signal);
  /** Rows of each view at each cursor; for a view without a cursor, all its states under `whole`. */
  readonly #states = new Map<string, string[]>();
  columns: readonly ViewColumns[] = [];
  #addedColumns = 0;

  private constructor(client: Client) {
    this.#client = client;
  }

  static async open(): Promise<Source> {
    const client = new DbClient(book.url);
    await client.connect();
    return new Source(client);
  }

  async close(): Promise<void> {
    await this.#exports.close();
    await this.#client.end();
  }

  /** Records the current rows of the views. */
  record = async (): Promise<void> => {
    const { rows: epochs } = await this.#client.query<{ epoch: string }>(
      'SELECT epoch FROM mirror.epochs',
    );
    const epoch = epochs[0]?.epoch;
    const all: ViewColumns[] = [];
    for (const view of VIEWS) {
      const { columns, rows, cursor } = await readView(this.#exports, view);
      const at = cursor === null ? 'whole' : positionOf(epoch, cursor.seq);
      const key = `${view} ${at}`;
      const text = textOf(rows, { view, columns });
      this.#states.set(key, [...(this.#states.get(key) ?? []), text]);
      this.#states.set(view, [text]);
      all.push({ view, columns });
    }
    this.columns = all;
  };

  /** The last recorded state of the view. */
  latest(view: string): string {
    return this.#states.get(view)?.[0] ?? '';
  }

  /** The states of the view at a cursor. */
  statesAt(view: string, at: string): readonly string[] {
    return this.#states.get(`${view} ${followRule(view) === null ? 'whole' : at}`) ?? [];
  }

  /** Whether any state of the view matches. */
  everHad(view: string, matches: (state: string) => boolean): boolean {
    return [...this.#states].some(
      ([key, states]) => key.startsWith(`${view} `) && states.some(matches),
    );
  }

  /** Empties the store and the recorded states. */
  async reset(): Promise<void> {
    await this.restore();
    this.#states.clear();
    await this.record();
  }

  /** Empties the store, with a new epoch and lower sequence numbers, as after a restore from a backup. */
  async restore(): Promise<void> {
    await emptyBook(book);
    await book.rows(`UPDATE mirror.epochs SET epoch = gen_random_uuid()`);
    await book.rows(`SELECT setval('mirror.item_changes_seq_seq', 3)`);
  }

  /** Adds a column to a view, as a migration does. */
  async addColumn(): Promise<void> {
    if ((this.#addedColumns += 1) > MAX_ADDED_COLUMNS) return;
    const view = this.#addedColumns % 2 === 0 ? 'items' : 'sync_runs';
    const [row] = await book.rows<{ sql: string }>(
      `SELECT rtrim(pg_get_viewdef('reporting.${view}'::regclass), ';') AS sql`,
    );
    await book.rows(`CREATE OR REPLACE VIEW reporting.${view} AS
      SELECT old.*, length(old.seller_id) + ${this.#addedColumns} AS added_${this.#addedColumns}
        FROM (${row?.sql ?? ''}) AS old`);
  }
}

/** Formats rows as sorted lines. */
function textOf(rows: readonly Row[], { columns }: ViewColumns): string {
  const lines = rows.map((row) => JSON.stringify(columns.map(({ name }) => [name, row[name]])));
  return lines.sort().join('\n');
}

/** A target, and what the test has done to it. */
class Copy {
  /** Keys of items with a note by people. */
  #noted: readonly string[] = [];
  #hasNotes = false;
  #changes = 0;
  /** Columns that people dropped, renamed or gave another type. */
  readonly #changedColumns = new Set<string>();
  /** All keys that were ever in a table. */
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

  /** Delivers everything, and expects the target to equal the views. */
  async deliverAll(): Promise<void> {
    const reports = await this.deliver();
    expect(reports.map(({ problem }) => problem)).toEqual(VIEWS.map(() => null));
    const kept = await this.expectExact();
    for (const { view } of source.columns) {
      this.#expectText(view, kept, source.latest(view));
    }
  }

  /** Waits for a disrupted delivery. Only errors of the target and aborts are allowed. @returns true if it succeeded */
  async waitFor(delivering: Promise<unknown>, signal?: AbortSignal): Promise<boolean> {
    try {
      await delivering;
      return true;
    } catch (error) {
      if (!(error instanceof TargetError) && signal?.aborted !== true) throw error;
      return false;
    }
  }

  /** Expects each table to equal its view at the cursor recorded in the target. */
  async expectExact(): Promise<ReadonlyMap<string, StoredView>> {
    const kept = await this.database.read(source.columns);
    for (const { view } of source.columns) {
      const { at, rows } = kept.get(view) ?? { at: null, rows: null };
      if (at === null) {
        // MariaDB can't rename a table in a transaction, so for a moment there are rows without a cursor.
        const isComplete =
          this.database.name === 'MariaDB' &&
          source.everHad(view, (state) => {
            const [found, wanted] = this.#comparable(view, kept, state);
            return found === wanted;
          });
        const found = isComplete ? [] : (rows ?? []);
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

  #expectText(view: string, kept: ReadonlyMap<string, StoredView>, text: string): void {
    const [found, wanted] = this.#comparable(view, kept, text);
    expect(found.split('\n'), `${this.database.name}: ${view}`).toEqual(wanted.split('\n'));
  }

  /**
   * Formats the rows of the target and of a state, with the columns that both have. Ignores columns that people
   * changed while the target has recorded that rows lack values.
   */
  #comparable(
    view: string,
    kept: ReadonlyMap<string, StoredView>,
    state: string,
  ): [string, string] {
    const stored = kept.get(view);
    const wanted = state.startsWith('[')
      ? state.split('\n').map((line) => Object.fromEntries(JSON.parse(line) as []) as Row)
      : [];
    const [first] = wanted;
    const columns = (source.columns.find((one) => one.view === view)?.columns ?? []).filter(
      ({ name }) =>
        (first === undefined || name in first) &&
        (stored === undefined || stored.columns.size === 0 || stored.columns.has(name)) &&
        !(stored?.isIncomplete === true && this.#changedColumns.has(name)),
    );
    const shown = { view, columns };
    return [
      textOf(stored?.rows ?? [], shown),
      state.startsWith('[') ? textOf(wanted, shown) : state,
    ];
  }

  /** Expects deleted rows to stay if the feed marks them. */
  #expectMarked(view: string, kept: StoredView | undefined): void {
    const key = followRule(view)?.key;
    if (this.deletes === 'delete' || key === undefined || kept === undefined) return;
    const all = new Set([...(kept.rows ?? []), ...kept.marked].map((row) => keyOf(row, key)));
    for (const one of this.#seen.get(view) ?? []) expect(all).toContain(one);
    this.#seen.set(view, all);
  }

  async #expectNotes(kept: ReadonlyMap<string, StoredView>): Promise<void> {
    if (!this.#hasNotes) return;
    const table = this.database.table('items');
    const key = followRule('items')?.key ?? [];
    const noted = await this.database.query(
      `SELECT seller_id, item_id FROM ${table} WHERE note = 'mine'`,
    );
    const found = noted.map((row) => keyOf(row, key));
    const live = new Set((kept.get('items')?.rows ?? []).map((row) => keyOf(row, key)));
    this.#noted = this.#noted.filter((one) => live.has(one));
    expect(found).toEqual(expect.arrayContaining([...this.#noted]));
  }

  /** Changes a table as people may do. */
  async change(what: Valued<typeof people>['what']): Promise<void> {
    const { database } = this;
    const table = database.table('items');
    const kept = (await database.read(source.columns)).get('items');
    if (kept?.rows === null || kept === undefined) return;
    this.#changes += 1;
    const column = ['version', 'price_regular', 'changed_at'][this.#changes % 3] ?? '';
    const hasColumn = kept.columns.has(column);
    switch (what) {
      case 'index': {
        const part = database.name === 'MariaDB' ? 'name(20)' : 'name';
        await database.exec(`CREATE INDEX people_${this.#changes} ON ${table} (${part})`);
        return;
      }
      case 'drop':
        // SQLite can't drop an indexed column.
        if (!hasColumn || column === 'changed_at') return;
        this.#changedColumns.add(column);
        await database.exec(`ALTER TABLE ${table} DROP COLUMN ${column}`);
        return;
      case 'rename':
        if (!hasColumn) return;
        this.#changedColumns.add(column);
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
    const key = followRule('items')?.key ?? [];
    this.#noted = kept.rows.map((row) => keyOf(row, key));
  }

  /** Changes the type of a column: only its view stops, until people repair the type. */
  async #changeType(table: string): Promise<void> {
    const { database } = this;
    const name = 'price_extended';
    this.#changedColumns.add(name);
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
  how: fc.constantFrom('undisturbed', 'cut', 'cut', 'commit lost', 'reply lost', 'stopped', 'two'),
  /** The chunk, batch of rows or commit at which the delivery is disrupted. */
  after: fc.nat({ max: 60 }),
});
const people = fc.record({
  kind: fc.constant('people' as const),
  to: fc.constantFrom(0, 1, 2),
  what: fc.constantFrom('note', 'index', 'drop', 'rename', 'type'),
});
const addColumn = fc.constant({ kind: 'add column' as const });
const restore = fc.constant({ kind: 'restore' as const });

async function deliverDisrupted(copy: Copy, { how, after }: Valued<typeof deliver>): Promise<void> {
  const { link } = copy.database;
  let count = 0;
  switch (how) {
    case 'undisturbed':
      return copy.deliverAll();
    case 'cut':
      link?.inspect(() => (count += 1) <= after * 3);
      break;
    case 'commit lost':
      // Each view has one commit.
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
      const both = await Promise.all([1, 2].map(() => copy.waitFor(copy.deliver())));
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
    await copy.waitFor(copy.deliver(stop.signal, onProgress), stop.signal);
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
      { arbitrary: addColumn, weight: 1 },
      { arbitrary: restore, weight: 1 },
    ),
    { minLength: 12, maxLength: 24, size: 'max' },
  );
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (sequence, isMarked) => {
      await source.reset();
      const copies = databases.map((one) => new Copy(one, isMarked ? 'mark' : 'delete'));
      for (const { database } of copies) {
        for (const table of [...VIEWS, '_seller_mirror_feeds']) {
          await database.exec(`DROP TABLE IF EXISTS ${database.table(table)}`);
        }
      }
      for (const [n, step] of sequence.entries()) {
        if (step.kind === 'night') await mirrorNight(book, n, step, source.record);
        else if (step.kind === 'audit') await auditCodes(db, n, step);
        else if (step.kind === 'add column') await source.addColumn();
        else if (step.kind === 'restore') await source.restore();
        if (step.kind === 'deliver' || step.kind === 'people') {
          const copy = copies[step.to];
          if (copy === undefined) continue;
          await (step.kind === 'people' ? copy.change(step.what) : deliverDisrupted(copy, step));
        } else await source.record();
      }
      await source.record();
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

const DIST = new URL('../../../dist/', import.meta.url).href;

/** Delivers to all targets in endless loops. */
const SCRIPT = `
  const [dist, databaseUrl, feed, views, places] = process.argv.slice(1);
  const from = (path) => import(dist + path);
  const { runFeed } = await from('reporting/feeds/open.js');
  const { TargetError } = await from('reporting/feeds/target.js');
  const { Secret } = await from('domain/secret.js');
  const signal = new AbortController().signal;
  console.log('started');
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
  const values = [DIST, book.url, FEED, JSON.stringify(VIEWS), JSON.stringify(places)];
  const args = ['--input-type=module', '-e', SCRIPT, '--', ...values];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

it('kill -9 at any moment of a delivery neither loses nor repeats a row', async () => {
  await source.reset();
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
    await source.record();
    const worker = startWorker();
    const ended = once(worker, 'exit');
    await once(worker.stdout ?? worker, 'data');
    const killed = sleep(Math.random() * 400).then(() => worker.kill('SIGKILL'));
    while (worker.exitCode === null && worker.signalCode === null && !worker.killed) {
      const step = events?.[(nights += 1) % 40];
      if (step === undefined) continue;
      await mirrorNight(book, nights, step, source.record);
      await source.record();
    }
    await killed;
    expect(await ended).toEqual([null, 'SIGKILL']);
    for (const copy of copies) await copy.expectExact();
  }
  await source.record();
  for (const copy of copies) await copy.deliverAll();
});
