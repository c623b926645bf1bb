import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { Mirror } from '../support/mirror.js';
import { databaseAt, testServer } from '../support/postgres.js';
import { offered } from './contract.js';

const SCRIPT = new URL('../../prisma/grants.sql', import.meta.url);
/** Roles are the whole server's: another name for each run of the tests. */
const READER = `reader_${randomBytes(6).toString('hex')}`;

let mirror: Mirror;
let script: string;
let admin: pg.Client;
beforeAll(async () => {
  mirror = await Mirror.open();
  await mirror.rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'm')`);
  script = (await readFile(SCRIPT, 'utf8')).replaceAll('reporting_reader', READER);
  const database = new URL(mirror.databaseUrl).pathname.slice(1);
  admin = new pg.Client(databaseAt(testServer.adminUrl, database));
  await admin.connect();
});
afterAll(async () => {
  await admin.query(`DROP OWNED BY ${READER}; DROP ROLE ${READER}`);
  await admin.end();
  await mirror.close();
});

/** What the reader is answered, or is told when it may not. */
async function asReader(sql: string): Promise<unknown> {
  await admin.query(`SET ROLE ${READER}`);
  try {
    return (await admin.query<Record<string, unknown>>(sql)).rows;
  } catch (error) {
    return error instanceof Error ? error.message : error;
  } finally {
    await admin.query('RESET ROLE');
  }
}

describe('the script of grants', () => {
  it('says who has to create the role where its user may not, and grants nothing', async () => {
    const { rows } = await mirror.pool.query<{ may: boolean }>(
      'SELECT rolsuper OR rolcreaterole AS may FROM pg_roles WHERE rolname = current_user',
    );
    if (rows[0]?.may !== true) {
      await expect(mirror.pool.query(script)).rejects.toMatchObject({
        message: expect.stringMatching(/^there is no role reader_\w+, and \w+ may not create it$/),
        hint: expect.stringContaining(`CREATE ROLE ${READER} NOLOGIN`) as string,
      });
    }
    expect(await admin.query(`SELECT FROM pg_roles WHERE rolname = '${READER}'`)).toMatchObject({
      rowCount: 0,
    });
  });

  it('may be run by the owner of the views once there is the role, and by a superuser, any number of times', async () => {
    await admin.query(script);
    await mirror.pool.query(script);
    await mirror.pool.query(script);
  });

  it('lets the role read every view and ask both functions', async () => {
    for (const name of Object.keys(await offered(mirror.pool))) {
      const source = name.replace(/\(.*/, '(now())');
      expect(await asReader(`SELECT * FROM reporting.${source}`), name).toEqual(expect.any(Array));
    }
    expect(await asReader('SELECT seller_id FROM reporting.freshness')).toEqual([
      { seller_id: 'main' },
    ]);
    expect(await asReader(`SELECT count(*) FROM reporting.items WHERE state = 'live'`)).toEqual([
      { count: '0' },
    ]);
  });

  it('lets it read views that later versions add', async () => {
    await mirror.pool.query('CREATE VIEW reporting.later AS SELECT 1 AS one');
    expect(await asReader('SELECT * FROM reporting.later')).toEqual([{ one: 1 }]);
    await mirror.pool.query('DROP VIEW reporting.later');
  });

  it('lets it neither read the tables behind them nor write anything', async () => {
    const denied = expect.stringContaining('permission denied') as string;
    const attempts = [
      'SELECT FROM mirror.items',
      'SELECT FROM mirror.sales',
      'SELECT FROM mirror.repeated_sales',
      'SELECT FROM mirror.purchase_codes',
      `SELECT nextval('mirror.item_changes_seq_seq')`,
      'DELETE FROM mirror.items',
      `UPDATE reporting.items SET name = 'mine'`,
      'DELETE FROM reporting.item_changes',
      `INSERT INTO reporting.accounts (seller_id) VALUES ('mine')`,
      'CREATE VIEW reporting.mine AS SELECT 1',
      'CREATE TABLE mirror.mine ()',
      'DROP VIEW reporting.items',
    ];
    for (const attempt of attempts) {
      expect(await asReader(attempt), attempt).toEqual(
        attempt.startsWith('DROP') ? expect.stringContaining('must be owner') : denied,
      );
    }
  });
});

describe('a role for an assistant, as docs/bi.md creates it', () => {
  it('reads reports, but no purchase code and nobody’s address', async () => {
    const docs = await readFile(new URL('../../docs/bi.md', import.meta.url), 'utf8');
    const [, statements = ''] = /```sql assistant\n(.*?)```/s.exec(docs) ?? [];
    const role = `assistant_${randomBytes(6).toString('hex')}`;
    const sql = statements.replaceAll(/\bassistant\b/g, role).replace("'…'", "'secret'");
    await admin.query(sql);
    onTestFinished(async () => {
      await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
    });
    const columns = await mirror.rows<{ view: string; column: string; readable: boolean }>(
      `SELECT c.relname AS view, a.attname AS column,
              has_column_privilege('${role}', c.oid, a.attnum, 'SELECT') AS readable
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = 'reporting'::regnamespace`,
    );
    const readable = columns
      .filter((one) => one.readable)
      .map((one) => `${one.view}.${one.column}`);
    expect(readable).toEqual(
      expect.arrayContaining(['items.name', 'purchases.price', 'freshness.live_items']),
    );
    expect(
      readable.filter((name) => /\.(?:code|answered_code|email|contact_email)$/.test(name)),
    ).toEqual([]);
    const tables = await mirror.rows(
      `SELECT relname FROM pg_class WHERE relnamespace = 'mirror'::regnamespace AND relkind IN ('r', 'v')
          AND has_table_privilege('${role}', oid, 'SELECT')`,
    );
    expect(tables).toEqual([]);
  });
});
