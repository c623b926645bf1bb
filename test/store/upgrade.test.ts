import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrate, migrationState, readMigrations } from '../../src/store/migrate.js';
import { createTestDatabase, type TestDatabase } from '../support/postgres.js';
import { run, settings } from '../cli/support.js';
import { CONTRACT, offered } from './reporting/contract.js';
import { poolOf, shape } from './shape.js';

const DUMP = fileURLToPath(new URL('upgrade.sql', import.meta.url));

let database: TestDatabase;
let pool: Pool;
/** Rows of the views before the migrations. */
const before: Record<string, Record<string, unknown>[]> = {};

beforeAll(async () => {
  database = await createTestDatabase({ empty: true });
  pool = new Pool({ connectionString: database.url, max: 1 });
  const data = await readFile(DUMP, 'utf8');
  // The dump contains the checksums of its migrations, so that edited ones are noticed below.
  const earlier = (await readMigrations()).filter(({ name }) => data.includes(`'${name}'`));
  await migrate(database.url, earlier);
  await pool.query(data);
  for (const [name, order] of Object.entries(VIEWS)) {
    const earlier = name === 'items_daily' ? 'catalogue_daily' : name;
    before[name] = await rowsOf(`SELECT * FROM reporting.${earlier} ORDER BY ${order}`);
  }
  await migrate(database.url);
});
afterAll(async () => {
  await pool.end();
  await database.drop();
});

/** Views and their sort order. */
const VIEWS = {
  items: 'seller_id, item_id',
  item_history: 'seller_id, item_id, valid_from',
  item_changes: 'seq',
  price_changes: 'seq',
  items_daily: 'seller_id, day',
  accounts: 'seller_id',
  account_history: 'seller_id, valid_from',
  balance_history: 'seller_id, valid_from',
  purchases: 'code_id',
  purchase_transitions: 'seq',
  support_calendar: 'seller_id, month',
  revenue_by_item: 'seller_id, item_id, currency',
  revenue_by_month: 'seller_id, month, currency',
  sync_runs: 'run_id',
};

/** Renamed values: column → old value → new value. */
const RENAMED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  kind: { catalogue: 'items' },
};

async function rowsOf(sql: string): Promise<Record<string, unknown>[]> {
  return (await pool.query<Record<string, unknown>>(sql)).rows;
}

/** Converts a row to today's names. */
function asToday(row: Record<string, unknown>): Record<string, unknown> {
  const { catalogue_wide: wide, ...rest } = row;
  const renamed = Object.entries(rest).map(
    ([column, value]) => [column, RENAMED[column]?.[String(value)] ?? value] as const,
  );
  return { ...Object.fromEntries(renamed), ...(wide === undefined ? {} : { wide_fields: wide }) };
}

describe('a store of an earlier version', () => {
  it('contains every state that real stores have', async () => {
    const states = async (sql: string) => (await rowsOf(sql)).map(({ state }) => state);
    const distinct = (column: string, table: string) =>
      states(`SELECT DISTINCT ${column}::text AS state FROM mirror.${table} ORDER BY 1`);
    expect(await distinct('state', 'items')).toEqual(['live', 'missing', 'removed']);
    expect(await distinct('state', 'runs')).toEqual(['failed', 'held', 'succeeded']);
    expect(await distinct('decision', 'runs')).toEqual(['approved', 'rejected', null]);
    expect(await distinct('state', 'audits')).toEqual(['cancelled', 'finished', 'running']);
    expect(await distinct('verdict', 'audit_codes')).toEqual([
      'invalid',
      'unproven',
      'valid',
      null,
    ]);
    expect(
      await states('SELECT seller_id AS state FROM mirror.sellers WHERE parked_at IS NOT NULL'),
    ).toEqual(['second']);
    expect(await rowsOf('SELECT FROM mirror.quarantine')).not.toEqual([]);
  });

  it('has the same tables and views as a new store after the upgrade', async () => {
    const clean = { pending: [], failed: [], edited: [], unknown: [] };
    expect(await migrationState(database.url)).toEqual(clean);
    expect(await offered(pool)).toEqual(CONTRACT);
    const upgraded = await shape(pool);
    await pool.query('RESET ALL');
    expect(upgraded).toEqual(await shape(await poolOf()));
  });

  it.each(Object.entries(VIEWS))(
    'shows the same rows in reporting.%s as before, with today’s names',
    async (name, order) => {
      const rows = await rowsOf(`SELECT * FROM reporting.${name} ORDER BY ${order}`);
      expect(before[name]).not.toEqual([]);
      // New columns are ignored.
      expect(rows).toEqual(
        before[name]?.map((row) => expect.objectContaining(asToday(row)) as unknown),
      );
    },
  );

  it('can be read by every command', async () => {
    const env = settings(database.url, 'http://127.0.0.1:9');
    for (const [args, expected] of [
      [['status'], /main/],
      [['runs'], /held/],
      [['runs', 'show', '12'], /approved/],
      [['changes', '--since', '2026-11-22'], /1234|12\.34/],
      [['items', '--state', 'all', '--json'], /"state":"removed"|"removed"/],
      [['items', 'view', '1001'], /Renamed/],
      [['audits', 'list'], /unfinished/],
      [['audits', 'show', '1'], /customers\.csv/],
      [['audits', 'export', '4'], /unproven/],
      [['codes', 'show', 'made-up-1'], /invalid/],
    ] as const) {
      const { code, stdout, stderr } = await run(args, env);
      expect(code, `${args.join(' ')}: ${stderr}`).toBe(0);
      expect(stdout, args.join(' ')).toMatch(expected);
    }
  });
});
