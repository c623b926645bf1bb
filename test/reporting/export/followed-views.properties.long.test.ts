import fc from 'fast-check';
import pg from 'pg';
import initSqlJs from 'sql.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ChangeCursor } from '../../../src/reporting/change-cursor.js';
import { FOLLOWED_VIEWS, followRule } from '../../../src/reporting/followed-views.js';
import { HistoryBook } from '../../catalogue/history-book.js';
import { createTestDatabase, type TestDatabase } from '../../support/postgres.js';
import { auditCodes, audit, emptyBook, mirrorNight, night, type Valued } from './sequences.js';
import { type Db, openDb } from '../../../src/db/db.js';
import { DbClient } from '../../../src/db/connection.js';
import { documented, exportView, linesOf } from './support.js';

let book: HistoryBook;
let db: Db;
let other: TestDatabase;
let target: pg.Pool;
let SQL: Awaited<ReturnType<typeof initSqlJs>>;
beforeAll(async () => {
  book = await HistoryBook.open();
  db = openDb(book.url, 'test');
  other = await createTestDatabase({ empty: true });
  target = new pg.Pool({ Client: DbClient, connectionString: other.url, max: 1 });
  target.on('error', () => undefined);
  SQL = await initSqlJs();
});
afterAll(async () => {
  await target.end();
  await other.drop();
  await db.close();
  await book.close();
});

/** The SQL from docs/feeds.md that loads an export, adapted to another view. */
function loading(view: string): string {
  const key = (followRule(view)?.key ?? [])
    .map((name) => `old.${name} = new.${name}`)
    .join(' AND ');
  return documented('postgresql')
    .replaceAll(/\bitems\b/g, view)
    .replace(/old\.seller_id .*(?=;)/, key);
}

/** Another PostgreSQL that follows every view with the documented statements. */
class Copy {
  readonly #cursors = new Map<string, ChangeCursor>();

  /** Creates empty tables: the documented one for items, and tables like the views for the rest. */
  async begin(): Promise<void> {
    this.#cursors.clear();
    for (const view of FOLLOWED_VIEWS) {
      const { columns } = await exportView(book.url, view, null, 'ndjson', { deletions: false });
      const list = columns.map(({ name, type }) => `${name} ${type}`).join(', ');
      await target.query(`DROP TABLE IF EXISTS ${view}`);
      await target.query(
        view === 'items' ? documented('postgresql-table') : `CREATE TABLE ${view} (${list})`,
      );
    }
  }

  async follow(view: string): Promise<void> {
    const exported = await exportView(book.url, view, this.#cursors.get(view) ?? null);
    await target.query('BEGIN; CREATE TEMP TABLE feed (line jsonb) ON COMMIT DROP');
    await target.query('INSERT INTO feed SELECT unnest($1::jsonb[])', [linesOf(exported)]);
    await target.query(loading(view));
    await target.query('COMMIT');
    if (exported.cursor !== null) this.#cursors.set(view, exported.cursor);
  }

  async expectEqual(): Promise<void> {
    for (const view of FOLLOWED_VIEWS) {
      const source = await rowsOf(book.pool, `reporting.${view}`);
      expect(await rowsOf(target, view), view).toEqual(source);
    }
  }
}

async function rowsOf(pool: pg.Pool, from: string): Promise<string[]> {
  const { rows } = await pool.query<{ row: string }>(
    `SELECT to_jsonb(t)::text AS row FROM ${from} t ORDER BY 1`,
  );
  return rows.map(({ row }) => row);
}

/** An SQLite database that follows items with the documented statements. */
class LiteCopy {
  readonly #db = new SQL.Database();
  #cursor: ChangeCursor | null = null;

  constructor() {
    this.#db.run(documented('sqlite-table'));
  }

  async follow(): Promise<void> {
    const exported = await exportView(book.url, 'items', this.#cursor);
    this.#db.run('BEGIN; CREATE TEMP TABLE feed (line TEXT)');
    for (const line of linesOf(exported)) this.#db.run('INSERT INTO feed VALUES (?)', [line]);
    this.#db.run(documented('sqlite'));
    this.#db.run('COMMIT');
    this.#cursor = exported.cursor;
  }

  async expectEqual(): Promise<void> {
    const columns = 'seller_id, item_id, name, version, tags, price_regular, currency, state';
    const [found] = this.#db.exec(`SELECT ${columns} FROM items ORDER BY 1, 2`);
    const { rows } = await book.pool.query<unknown[]>({
      rowMode: 'array',
      text: `SELECT seller_id, item_id::int, name, version, to_json(tags)::text, price_regular::float8,
                    currency, state::text FROM reporting.items ORDER BY 1, 2`,
    });
    expect(found?.values ?? []).toEqual(rows);
  }

  close(): void {
    this.#db.close();
  }
}

const follow = fc.record({
  kind: fc.constant('follow' as const),
  views: fc.subarray([...FOLLOWED_VIEWS]),
});
/** A night of one seller whose items all have the same outcome. */
function nightOfOne(fate: string): Valued<typeof night> {
  const fields = { name: 'A', version: null, tags: [], currency: 'USD', published_at: null };
  const record = { ...fields, price: { regular: 1, extended: 1 }, rating: 1 };
  const items = [7, 8, 9].map((id) => [id, fate, record]);
  const rest = { items, followed: [], isKilled: false };
  return { kind: 'night', seller: 'ada', ...rest } as unknown as Valued<typeof night>;
}

it('copies in PostgreSQL and SQLite equal the views after any sequence of nights and audits', async () => {
  const steps = fc.array(fc.oneof(night, audit, follow), { minLength: 8, maxLength: 24 });
  await fc.assert(
    fc.asyncProperty(steps, async (sequence) => {
      await emptyBook(book);
      const copy = new Copy();
      await copy.begin();
      const lite = new LiteCopy();
      const followBoth = async (views: readonly string[]): Promise<void> => {
        for (const view of views) await copy.follow(view);
        await lite.follow();
        await lite.expectEqual();
      };
      for (const [n, step] of sequence.entries()) {
        if (step.kind === 'night') {
          await mirrorNight(book, n, step, () => followBoth(step.followed));
        } else if (step.kind === 'audit') await auditCodes(db, n, step);
        else await followBoth(step.views);
      }
      await followBoth(FOLLOWED_VIEWS);
      await copy.expectEqual();
      lite.close();
    }),
    {
      numRuns: 10,
      // An export during the look-ups of items that the list lacks.
      examples: [[[nightOfOne('list'), { ...nightOfOne('found'), followed: [...FOLLOWED_VIEWS] }]]],
    },
  );
});
