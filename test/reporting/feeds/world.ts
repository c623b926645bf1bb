import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect } from 'vitest';
import { DbClient } from '../../../src/db/connection.js';
import { seededCatalogue, startSimulator, type Catalogue } from '../../../src/simulator/index.js';
import { run, type Ended } from '../../cli/support.js';
import { readConfig } from '../../../src/config/index.js';
import { disk } from '../../../src/config/load.js';
import { openDb } from '../../../src/db/db.js';
import { deliver } from '../../../src/service/feeds.js';
import { never } from '../../support/mirror.js';
import { createTestDatabase, emptyTables } from '../../support/postgres.js';
import { textsOfRows, type Column, type Place, type Row } from './places.js';

/** The sellers of a world, each with its key. */
export const SELLERS = { ada: 'key-of-ada-0123456789abcdef', bob: 'key-of-bob-0123456789abcdef' };
export type Seller = keyof typeof SELLERS;

/** Views with a key, and some that are written whole. */
export const VIEWS = [
  ...['items', 'item_history', 'item_changes', 'price_changes', 'purchases'],
  ...['purchase_transitions', 'account_history', 'revenue_by_item'],
];

/** The outcome of `feed run --json`. */
export interface FeedRun {
  readonly feed: string;
  readonly problem: string | null;
  readonly views: readonly {
    readonly view: string;
    readonly rows: number;
    readonly problem: { readonly message: string; readonly remedy: string } | null;
  }[];
}

/** A store that mirrors a simulated marketplace of two sellers, with feeds out of it. */
export class World {
  readonly folder = mkdtempSync(join(tmpdir(), 'smworld-'));
  #codes = 0;

  private constructor(
    public databaseUrl: string,
    public pool: pg.Pool,
    readonly catalogues: Readonly<Record<Seller, Catalogue>>,
    readonly marketUrl: string,
    readonly stop: () => Promise<void>,
    public drop: () => Promise<void>,
  ) {}

  static async open(items = 6): Promise<World> {
    const database = await createTestDatabase();
    const catalogues = {
      ada: seededCatalogue({ seed: 1, count: items }),
      bob: seededCatalogue({ seed: 2, count: items }),
    };
    const sim = await startSimulator({
      sellers: (['ada', 'bob'] as const).map((name) => ({
        key: SELLERS[name],
        username: name,
        catalogue: catalogues[name],
      })),
    });
    const stop = (): Promise<void> => sim.close();
    const pool = poolOf(database.url);
    return new World(database.url, pool, catalogues, sim.url, stop, () => database.drop());
  }

  /** Empties the store; the marketplace stays as it is. */
  async empty(): Promise<void> {
    await emptyTables(this.pool, 'mirror');
  }

  get env(): Record<string, string> {
    const sellers = Object.keys(SELLERS).map((name) => ({
      ...{ name, url: this.marketUrl, keyEnv: `KEY_OF_${name}` },
    }));
    writeFileSync(join(this.folder, 'sellers.json'), JSON.stringify({ sellers }));
    return {
      DATABASE_URL: this.databaseUrl,
      FEEDS_FILE: join(this.folder, 'feeds.json'),
      SELLERS_FILE: join(this.folder, 'sellers.json'),
      KEY_OF_ada: SELLERS.ada,
      KEY_OF_bob: SELLERS.bob,
      REQUESTS_PER_MINUTE: '0',
      REMOVAL_GUARD_ITEMS: '1000',
      REMOVAL_GUARD_PERCENT: '100',
    };
  }

  /** Writes FEEDS_FILE. */
  feeds(...feeds: readonly object[]): void {
    writeFileSync(join(this.folder, 'feeds.json'), JSON.stringify({ feeds }));
  }

  /** Runs a command of the program. */
  cli(...args: readonly string[]): Promise<Ended> {
    return run(args, this.env);
  }

  /** Runs a command that must succeed. @returns what it prints */
  async printed(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cli(...args);
    expect(code, stdout + stderr).toBe(0);
    return stdout;
  }

  sync(seller?: Seller): Promise<string> {
    return this.printed('sync', '--json', ...(seller === undefined ? [] : ['--seller', seller]));
  }

  /** Delivers the only feed. */
  async deliver(): Promise<FeedRun> {
    const { stdout, stderr } = await this.cli('feed', 'run', '--json');
    const [report] = stdout === '' ? [] : (JSON.parse(stdout) as FeedRun[]);
    if (report === undefined) throw new Error(stderr);
    return report;
  }

  /** Delivers as a worker does on most nights, without looking for rows that were edited by hand. */
  async deliverQuietly(
    name = 'test',
    { isFull = false, signal = never } = {},
  ): Promise<Awaited<ReturnType<typeof deliver>>> {
    const options = {
      cwd: this.folder,
      files: disk,
      needs: 'store',
    } as const;
    const feed = readConfig(this.env, options).feeds.find((one) => one.name === name);
    if (feed === undefined) throw new Error('no feed');
    const db = openDb(this.databaseUrl, 'test');
    try {
      return await deliver(db, feed, { signal, isFull });
    } finally {
      await db.close();
    }
  }

  /** Copies the store, as a copied data folder does. */
  async copy(): Promise<World> {
    const copied = await createTestDatabase({ copyOf: this.databaseUrl });
    const { catalogues, marketUrl } = this;
    const drop = (): Promise<void> => copied.drop();
    const pool = poolOf(copied.url);
    return new World(copied.url, pool, catalogues, marketUrl, () => Promise.resolve(), drop);
  }

  /** Makes the store what `earlier`, a copy of it, is, as a restored snapshot does. `earlier` is gone. */
  async goBackTo(earlier: World): Promise<void> {
    await this.pool.end();
    await this.drop();
    this.databaseUrl = earlier.databaseUrl;
    this.pool = earlier.pool;
    this.drop = earlier.drop;
  }

  /** Delivers, and expects each table to equal its view. @returns the rows written for each view */
  async deliverEqual(place: Place, views = VIEWS): Promise<Record<string, number>> {
    const report = await this.deliver();
    expect(report.problem, place.name).toBeNull();
    await this.expectEqual(place, views);
    return Object.fromEntries(report.views.map(({ view, rows }) => [view, rows]));
  }

  async expectEqual(place: Place, views = VIEWS): Promise<void> {
    for (const view of views) {
      const { columns, rows } = await this.view(view);
      expect(await place.rows(view, columns), `${view} in ${place.name}`).toEqual(rows);
    }
  }

  /** As `expectEqual`, but past states that the store may have pruned may be there, too. */
  async expectEqualButPast(place: Place, views: readonly string[]): Promise<void> {
    const limits = await this.rows<{ seller: string; since: string }>(
      `SELECT seller_id AS seller, history_since::text AS since FROM mirror.sellers WHERE history_since IS NOT NULL`,
    );
    for (const view of views) {
      const { columns, rows } = await this.view(view);
      const found = await place.rows(view, columns);
      const wanted = new Set(rows);
      const [seller, end] = ['seller_id', 'valid_to'].map((name) =>
        columns.findIndex((column) => column.name === name),
      );
      const compared = found.filter((row) => {
        if (wanted.has(row) || end === undefined || end < 0) return true;
        const values = JSON.parse(row) as (string | null)[];
        const limit = limits.find((one) => one.seller === values[seller ?? 0])?.since ?? '';
        return (values[end] ?? '9') > limit.replace('+00', '');
      });
      expect(compared, `${view} in ${place.name}`).toEqual(rows);
    }
  }

  /** A view's columns, and its rows as texts. */
  async view(view: string): Promise<{ columns: Column[]; rows: string[] }> {
    const columns = await this.rows<Column & Row>(
      `SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
        WHERE attrelid = ('reporting.' || $1)::regclass AND attnum > 0 ORDER BY attnum`,
      [view],
    );
    const list = columns.map(({ name }) => `"${name}"::text AS "${name}"`).join(', ');
    const rows = await this.rows(`SELECT ${list} FROM reporting."${view}"`);
    return { columns, rows: textsOfRows(rows, columns) };
  }

  async rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
    return (await this.pool.query<T & pg.QueryResultRow>(sql, [...values])).rows;
  }

  /** Records a check of a code, as if it had been made now. @returns its id */
  async check(seller: Seller, code: string, found: Row | null): Promise<void> {
    this.#codes += 1;
    const { item = null, until = null, price = '19.90', answered = code } = found ?? {};
    await this.rows(
      `INSERT INTO mirror.purchase_codes AS p
         (seller_id, code, verdict, verdict_since, first_checked_at, last_checked_at, purchase_seen_at,
          answered_code, license_type, price, currency, item_id, item_name, supported_until, purchased_at)
       VALUES ($1, $2, $3::mirror.code_verdict, now(), now(), now(), CASE WHEN $3::text = 'valid' THEN now() END, $4, 'Regular', $5,
               'USD', $6, 'Bought', $7, '2025-01-02 03:04:05.5Z')
       ON CONFLICT (seller_id, code) DO UPDATE SET
         verdict = excluded.verdict, verdict_since = now(), last_checked_at = now(), price = excluded.price,
         supported_until = excluded.supported_until, item_id = excluded.item_id`,
      [seller, code, found === null ? 'invalid' : 'valid', answered, price, item, until],
    );
    await this.rows(
      `INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, new_value)
       SELECT seller_id, code_id, $3, now(), 'price-changed', $4::text FROM mirror.purchase_codes
        WHERE seller_id = $1 AND code = $2`,
      [seller, code, this.#codes, price],
    );
  }

  /** Makes what happened to items today happen this many days ago. */
  async age(days: number): Promise<void> {
    const aged = (column: string): string =>
      `${column} = CASE WHEN ${column} > now() - interval '1 day' THEN ${column} - interval '${days} days' ELSE ${column} END`;
    await this.rows(`UPDATE mirror.item_versions SET ${aged('valid_from')}, ${aged('valid_to')}`);
    await this.rows(`UPDATE mirror.items SET ${aged('valid_from')}`);
  }

  /** Prunes past states that ended more than this many days ago. */
  async pruneVersions(days: number): Promise<void> {
    const { code, stderr } = await run(['prune'], {
      ...this.env,
      KEEP_VERSIONS_DAYS: String(days),
    });
    expect(code, stderr).toBe(0);
  }

  async close(): Promise<void> {
    await this.pool.end();
    await this.stop();
    await this.drop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

function poolOf(url: string): pg.Pool {
  const pool = new pg.Pool({ Client: DbClient, connectionString: url, max: 2 });
  pool.on('error', () => undefined);
  return pool;
}
