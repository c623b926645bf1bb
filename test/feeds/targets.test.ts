import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { deliverFeed, type FeedContent, type ViewReport } from '../../src/feeds/deliver.js';
import { folderTarget } from '../../src/feeds/folder.js';
import { mysqlTarget } from '../../src/feeds/mysql.js';
import { postgresTarget } from '../../src/feeds/postgres.js';
import { sqliteTarget } from '../../src/feeds/sqlite.js';
import { TargetError, type Target } from '../../src/feeds/target.js';
import { withExports } from '../../src/store/exports.js';
import { hasMariaDb, startMariaDb, type TestMariaDb } from '../support/mariadb.js';
import { useMirror, never } from '../support/mirror.js';
import { createTestDatabase } from '../support/postgres.js';
import { openSynced, type Market } from '../jobs/market.js';

const mirror = useMirror();

interface Reader {
  open(): Promise<Target>;
  /** Rows of a table as PostgreSQL's text or null, by column. */
  rows(sql: string): Promise<Record<string, unknown>[]>;
  exec(sql: string): Promise<unknown>;
  readonly table: (name: string) => string;
  close(): Promise<void>;
}

const VIEWS = ['items', 'item_changes', 'item_history', 'purchases', 'accounts', 'sync_runs'];

function deliver(target: Target, content: Partial<FeedContent> = {}): Promise<ViewReport[]> {
  return withExports(mirror().databaseUrl, never, (exports) =>
    deliverFeed(
      exports,
      target,
      { views: VIEWS, sellers: null, deletes: 'delete', ...content },
      { signal: never },
    ),
  );
}

async function postgres(): Promise<Reader> {
  const database = await createTestDatabase();
  const client = new Client(database.url);
  await client.connect();
  return {
    open: () => postgresTarget(new URL(database.url), 'shop', 'test', never),
    rows: async (sql) =>
      (await client.query<Record<string, unknown>>(sql.replaceAll('FROM ', 'FROM shop.'))).rows,
    exec: (sql) => client.query(sql),
    table: (name) => `shop.${name}`,
    async close() {
      await client.end();
      await database.drop();
    },
  };
}

let mariadb: TestMariaDb | null = null;

async function mysql(): Promise<Reader> {
  mariadb ??= await startMariaDb();
  const url = new URL(await mariadb.database());
  const client = await createConnection({
    socketPath: url.searchParams.get('socketPath') ?? '',
    user: 'root',
    database: url.pathname.slice(1),
    supportBigNumbers: true,
    dateStrings: true,
  });
  return {
    open: () => mysqlTarget(url, 'test', never),
    rows: async (sql) => (await client.query(sql))[0] as Record<string, unknown>[],
    exec: (sql) => client.query(sql),
    table: (name) => name,
    close: () => client.end(),
  };
}

async function sqlite(): Promise<Reader> {
  const folder = await mkdtemp(join(tmpdir(), 'smlite-'));
  const path = join(folder, 'reports.db');
  const { default: Database } = await import('libsql');
  return {
    open: () => sqliteTarget(path, 'test'),
    rows: (sql) => {
      const database = new Database(path);
      const rows = database.prepare(sql).all() as Record<string, unknown>[];
      database.close();
      return Promise.resolve(rows);
    },
    exec: (sql) => {
      const database = new Database(path);
      database.exec(sql);
      database.close();
      return Promise.resolve();
    },
    table: (name) => name,
    close: () => rm(folder, { recursive: true }),
  };
}

afterAll(async () => {
  await mariadb?.close();
});

const TARGETS = [
  ['PostgreSQL', postgres, true],
  ['MariaDB', mysql, hasMariaDb],
  ['SQLite', sqlite, true],
] as const;

describe.each(TARGETS)('a feed into %s', (_, open, isThere) => {
  if (!isThere && process.env['CI'] === undefined) {
    it.skip('needs its server, which is not installed here', () => undefined);
    return;
  }
  let reader: Reader;
  let market: Market;

  beforeAll(async () => {
    reader = await open();
  });
  afterAll(async () => {
    await reader.close();
  });
  beforeEach(async () => {
    const target = await reader.open();
    for (const view of VIEWS) await target.forget(view);
    await target.close();
    market = await openSynced(mirror(), 30);
    await market.syncAccount();
  });

  async function run(content: Partial<FeedContent> = {}): Promise<ViewReport[]> {
    const target = await reader.open();
    try {
      return await deliver(target, content);
    } finally {
      await target.close();
    }
  }

  async function expectSame(): Promise<void> {
    const ours = await mirror().rows<{
      item_id: string;
      name: string;
      price: string | null;
      state: string;
      tags: string[];
    }>(
      `SELECT item_id::text, name, price_regular::text AS price, state, tags FROM reporting.items ORDER BY item_id`,
    );
    const theirs = await reader.rows(
      'SELECT item_id, name, price_regular AS price, state, tags FROM items ORDER BY item_id',
    );
    expect(
      theirs.map((row) => ({
        item_id: String(row['item_id']),
        name: row['name'],
        price: row['price'] === null ? null : Number(row['price']).toFixed(2),
        state: row['state'],
        tags: typeof row['tags'] === 'string' ? (JSON.parse(row['tags']) as unknown) : row['tags'],
      })),
    ).toEqual(ours);
    for (const view of VIEWS) {
      const [count] = await mirror().rows<{ n: number }>(
        `SELECT count(*)::int AS n FROM reporting.${view}`,
      );
      const [their] = await reader.rows(`SELECT count(*) AS n FROM ${view}`);
      expect(Number(their?.['n']), view).toBe(count?.n);
    }
  }

  it('delivers everything at first, then only what changed, and nothing when nothing did', async () => {
    const first = await run();
    expect(first.map(({ problem }) => problem)).toEqual(VIEWS.map(() => null));
    expect(first.find(({ view }) => view === 'items')).toMatchObject({ kind: 'all', rows: 30 });
    await expectSame();
    const again = await run();
    expect(again.map(({ kind, rows }) => [kind, rows])).toEqual(VIEWS.map(() => ['same', 0]));
    const [changed = { id: 0 }, gone = { id: 0 }] = [...market.catalogue.truth()];
    market.catalogue.change(changed.id, {
      name: `it's "new"\t\\ ${String.fromCodePoint(0x1f600)}`,
    });
    market.catalogue.remove(gone.id);
    await market.sync();
    const second = await run();
    expect(second.find(({ view }) => view === 'items')).toMatchObject({ kind: 'changes', rows: 2 });
    await expectSame();
  });

  /** Delivers with a target that notes after each piece that it reads how far it is. */
  async function runInParts(watch: {
    readonly begun?: (view: string) => void;
    readonly loading: (view: string, part: number) => Promise<void>;
  }): Promise<ViewReport[]> {
    const target = await reader.open();
    Object.defineProperty(target, 'partBytes', { value: 1 });
    const [begin, load] = [target.begin.bind(target), target.load.bind(target)];
    target.begin = (shape, ...rest) => {
      watch.begun?.(shape.view);
      return begin(shape, ...rest);
    };
    let parts = 0;
    target.load = async (shape, ...rest) => {
      await watch.loading(shape.view, (parts += 1));
      return load(shape, ...rest);
    };
    try {
      return await deliver(target);
    } finally {
      await target.close();
    }
  }

  async function changeSome(): Promise<void> {
    const all = [...market.catalogue.truth()];
    for (const place of [0, -1]) {
      const { id = 0 } = all.at(place) ?? {};
      market.catalogue.change(id, { name: `changed ${place}` });
    }
    market.catalogue.remove(all.at(1)?.id ?? 0);
    await market.sync();
  }

  it('has what changed while its first load was under way, in rows before that place and after it', async () => {
    market = await openSynced(mirror(), 800);
    let most = 0;
    await runInParts({
      async loading(view, part) {
        if (view !== 'items') return;
        most = Math.max(most, part);
        if (part === 2) await changeSome();
      },
    });
    expect(most, 'the load has parts').toBeGreaterThan(2);
    await expectSame();
  });

  it('goes on with a first load where it was cut off, though rows have changed since', async () => {
    market = await openSynced(mirror(), 800);
    const cut = runInParts({
      loading: (_, part) =>
        part === 3 ? Promise.reject(new TargetError('cut', '')) : Promise.resolve(),
    });
    await expect(cut).rejects.toThrow('cut');
    await changeSome();
    const begun: string[] = [];
    await runInParts({ begun: (view) => begun.push(view), loading: () => Promise.resolve() });
    expect(begun).not.toContain('items');
    await expectSame();
  });

  it('starts over when the store was restored from a backup, which has another past', async () => {
    await run();
    await mirror().rows('UPDATE mirror.epochs SET epoch = gen_random_uuid()');
    await mirror().rows(
      `DELETE FROM mirror.item_changes; DELETE FROM mirror.items WHERE item_id % 2 = 0`,
    );
    const reports = await run();
    expect(reports.find(({ view }) => view === 'items')?.kind).toBe('all');
    await expectSame();
  });

  it('keeps columns that people added, and their values', async () => {
    await run();
    const [first = { id: 0 }] = [...market.catalogue.truth()];
    const table = reader.table('items');
    await reader.exec(`ALTER TABLE ${table} ADD COLUMN note varchar(20)`);
    await reader.exec(`UPDATE ${table} SET note = 'mine' WHERE item_id = ${first.id}`);
    market.catalogue.change(first.id, { version: '9.9' });
    await market.sync();
    await run();
    const [row] = await reader.rows(`SELECT version, note FROM items WHERE item_id = ${first.id}`);
    expect(row).toEqual({ version: '9.9', note: 'mine' });
    await expectSame();
  });

  it('fills a column again that people dropped, in every row, and says why all rows come', async () => {
    await run();
    const table = reader.table('items');
    await reader.exec(`ALTER TABLE ${table} DROP COLUMN version`);
    const [items] = await run({ views: ['items'] });
    expect(items).toMatchObject({ kind: 'all', why: expect.stringMatching('lacked a column') });
    const rows = await reader.rows('SELECT count(*) AS n FROM items WHERE version IS NOT NULL');
    const [ours] = await mirror().rows<{ n: number }>(
      'SELECT count(*)::int AS n FROM reporting.items WHERE version IS NOT NULL',
    );
    expect(Number(rows[0]?.['n'])).toBe(ours?.n);
    expect(await run({ views: ['items'] })).toMatchObject([{ kind: 'same' }]);
  });

  it('stops only the view whose table has another type, and says both types', async () => {
    await run({ views: ['accounts'] });
    await reader.exec(`DROP TABLE IF EXISTS ${reader.table('items')}`);
    await reader.exec(`CREATE TABLE ${reader.table('items')} (item_id date, seller_id date)`);
    const reports = await run({ views: ['items', 'accounts'] });
    expect(reports[0]?.problem?.message).toMatch(
      /column seller_id of table items is date.*text|varchar/i,
    );
    expect(reports[1]?.problem).toBeNull();
    await reader.exec(`DROP TABLE ${reader.table('items')}`);
  });

  it('keeps rows that are gone, marked, where the feed says so', async () => {
    const target = await reader.open();
    await target.forget('items');
    await target.close();
    await reader.exec(`DROP TABLE IF EXISTS ${reader.table('items')}`);
    await run({ views: ['items'], deletes: 'mark' });
    await mirror().rows('UPDATE mirror.epochs SET epoch = gen_random_uuid()');
    await mirror().rows(
      'DELETE FROM mirror.item_changes; DELETE FROM mirror.items WHERE item_id % 2 = 0',
    );
    await run({ views: ['items'], deletes: 'mark' });
    const marked = await reader.rows('SELECT item_id FROM items WHERE _deleted');
    const [gone] = await mirror().rows<{ n: number }>(
      'SELECT 30 - count(*)::int AS n FROM reporting.items',
    );
    expect(marked).toHaveLength(gone?.n ?? -1);
    await reader.exec(`DROP TABLE ${reader.table('items')}`);
  });
});

describe('a feed into a folder', () => {
  it('is a part for each delivery with changes, and a manifest that lists them', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'smfeed-'));
    const market = await openSynced(mirror(), 10);
    const target = folderTarget(folder, 'ndjson');
    await deliver(target, { views: ['items'] });
    const [first = { id: 0 }] = [...market.catalogue.truth()];
    market.catalogue.change(first.id, { version: '9.9' });
    await market.sync();
    await deliver(target, { views: ['items'] });
    await deliver(target, { views: ['items'] });
    const manifest = JSON.parse(await readFile(join(folder, 'items/manifest.json'), 'utf8')) as {
      parts: { path: string; rows: number }[];
    };
    expect(manifest.parts.map(({ rows }) => rows)).toEqual([10, 1]);
    const lines = await Promise.all(
      manifest.parts.map(async ({ path }) =>
        (await readFile(join(folder, path), 'utf8')).trim().split('\n'),
      ),
    );
    expect(lines.map((part) => part.length)).toEqual([10, 1]);
    expect(JSON.parse(lines[1]?.[0] ?? '')).toMatchObject({
      item_id: first.id,
      version: '9.9',
      _deleted: false,
    });
    await rm(folder, { recursive: true });
  });
});
