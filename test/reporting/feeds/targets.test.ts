import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  deliverFeed,
  type FeedContent,
  type ViewReport,
} from '../../../src/reporting/feeds/deliver.js';
import { mysqlTarget } from '../../../src/reporting/feeds/mysql.js';
import { postgresTarget } from '../../../src/reporting/feeds/postgres.js';
import { connectionError } from '../../../src/reporting/feeds/server-connection.js';
import { sqliteTarget } from '../../../src/reporting/feeds/sqlite.js';
import {
  MovedError,
  TargetError,
  type Target,
  type ViewShape,
} from '../../../src/reporting/feeds/target.js';
import { noLines } from '../../../src/reporting/feeds/lines.js';
import { withExports } from '../../../src/reporting/exports.js';
import { hasMariaDb, startMariaDb, type TestMariaDb } from '../../support/mariadb.js';
import { useMirror, never } from '../../support/mirror.js';
import { createTestDatabase } from '../../support/postgres.js';
import { DbClient } from '../../../src/db/connection.js';
import { openSynced, type Market } from '../../catalogue/market.js';

const mirror = useMirror();

interface Reader {
  open(): Promise<Target>;
  /** Returns rows with values as PostgreSQL's text or null. */
  rows(sql: string): Promise<Record<string, unknown>[]>;
  exec(sql: string): Promise<unknown>;
  readonly table: (name: string) => string;
  close(): Promise<void>;
}

const SHAPE: ViewShape = {
  view: 'items',
  columns: [],
  key: ['seller_id', 'item_id'],
  indexed: [],
  isMarked: false,
  sellers: null,
};

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
  const client = new DbClient(database.url);
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
    open: () => Promise.resolve(sqliteTarget(path, 'test')),
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
  if (!isThere) {
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
    for (const view of VIEWS) await target.reset(view);
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

  it('delivers all rows first, then only changes, and nothing if nothing changed', async () => {
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

  it('does not overwrite the cursor of a process that delivered in the meantime', async () => {
    await run();
    const [slow, fast] = [await reader.open(), await reader.open()];
    try {
      await slow.ensureTable(SHAPE);
      const before = await slow.position('items');
      await deliver(fast, { views: ['items'] });
      const at = await fast.position('items');
      expect(at.token).not.toBe(before.token);
      const next = { epoch: 'late', cursor: '1', shape: 'late', digest: null };
      const late = slow.apply(SHAPE, before, noLines(), () => next);
      await expect(late).rejects.toThrow(MovedError);
      expect(await fast.position('items')).toEqual(at);
    } finally {
      await slow.close();
      await fast.close();
    }
  });

  /** Delivers with progress recorded after each chunk. */
  async function runInParts(watch: {
    readonly begun?: (view: string) => void;
    readonly loading: (view: string, part: number) => Promise<void>;
  }): Promise<ViewReport[]> {
    const target = await reader.open();
    Object.defineProperty(target, 'partBytes', { value: 1 });
    const [beginLoad, loadPart] = [target.beginLoad.bind(target), target.loadPart.bind(target)];
    target.beginLoad = (shape, ...rest) => {
      watch.begun?.(shape.view);
      return beginLoad(shape, ...rest);
    };
    let parts = 0;
    target.loadPart = async (shape, ...rest) => {
      await watch.loading(shape.view, (parts += 1));
      return loadPart(shape, ...rest);
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

  it('includes changes made during its first load, in rows already read and in later ones', async () => {
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

  it('continues an interrupted first load, even if rows have changed since', async () => {
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

  it('starts over after the store was restored from a backup, because its history differs', async () => {
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

  it('adds a dropped column again, fills it in every row, and says why it loads all rows', async () => {
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

  it('stops only the view whose table has another type, and names both types', async () => {
    await run({ views: ['accounts'] });
    await reader.exec(`DROP TABLE IF EXISTS ${reader.table('items')}`);
    await reader.exec(`CREATE TABLE ${reader.table('items')} (item_id date, seller_id date)`);
    const reports = await run({ views: ['items', 'accounts'] });
    expect(reports[0]?.problem?.message).toMatch(
      /column seller_id of table items has type date, but the view has (?:text|varchar)/i,
    );
    expect(reports[1]?.problem).toBeNull();
    await reader.exec(`DROP TABLE ${reader.table('items')}`);
  });

  it('stops only the view whose name belongs to a view of the target', async () => {
    const name = reader.table('sync_runs');
    await run({ views: ['sync_runs'] });
    await reader.exec(`DROP TABLE ${name}`);
    await reader.exec(`CREATE VIEW ${name} AS SELECT 1 AS run_id`);
    try {
      const reports = await run({ views: ['sync_runs', 'accounts'] });
      expect(reports[0]?.problem?.message).toContain('sync_runs is not a table in the target');
      expect(reports[1]).toMatchObject({ view: 'accounts', problem: null });
    } finally {
      await reader.exec(`DROP VIEW ${name}`);
    }
  });

  it('keeps deleted rows, marked, with `deletes: mark`', async () => {
    const target = await reader.open();
    await target.reset('items');
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

it('check refuses a read-only SQLite file before the first delivery', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'smlite-'));
  const path = join(folder, 'reports.db');
  await writeFile(path, '');
  // Loads the driver first: after seteuid its folder may not be readable.
  await sqliteTarget(path, 'test').close();
  await chmod(path, 0o444);
  await chmod(folder, 0o555);
  const isRoot = process.geteuid?.() === 0;
  if (isRoot) process.seteuid?.(65_534);
  try {
    const target = sqliteTarget(path, 'test');
    await expect(target.describe([SHAPE])).rejects.toThrow('read-only');
    await target.close();
  } finally {
    if (isRoot) process.seteuid?.(0);
    await chmod(folder, 0o700);
    await rm(folder, { recursive: true });
  }
});

it.each([
  ['ER_ACCESS_DENIED_ERROR', 'password file'],
  ['ER_ACCESS_DENIED_NO_PASSWORD_ERROR', 'password file'],
  ['ER_DBACCESS_DENIED_ERROR', 'check that the database exists'],
  ['ECONNREFUSED', 'host and port'],
])('gives a remedy for %s', (code, words) => {
  const error = Object.assign(new Error('no'), { code });
  expect(connectionError(error, 'MySQL at db').remedy).toContain(words);
});
