import { randomBytes } from 'node:crypto';
import { errorCode } from '../../src/domain/error-code.js';
import { databaseAt, query } from './query.js';
import { startedServer } from './test-run.js';

export { databaseAt, query };

/** The PostgreSQL of this test run. Whoever imports this file waits until it has started. */
export const testServer = await startedServer();

export interface TestDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/**
 * Creates an empty, migrated database that belongs to the user of `url`, who is not a superuser. `drop` cuts
 * open connections.
 * @param options `empty` leaves out the migrations, too; `copyOf` is the address of a database to copy
 */
export async function createTestDatabase({
  empty = false,
  copyOf = null as string | null,
} = {}): Promise<TestDatabase> {
  const { adminUrl, userUrl, template, strategy } = testServer;
  const name = `test_${process.pid}_${randomBytes(6).toString('hex')}`;
  const owner = decodeURIComponent(new URL(userUrl).username);
  const ownedBy = owner === '' ? '' : `OWNER "${owner}"`;
  const copied = copyOf === null ? null : new URL(copyOf).pathname.slice(1);
  const source = copied ?? (empty ? 'template1' : template);
  if (copied !== null) await query(adminUrl, WAIT_FOR_SESSIONS(copied), END_SESSIONS(copied));
  const create = `CREATE DATABASE ${name} ${ownedBy} TEMPLATE ${source} ${strategy}`;
  for (let tries = 1; ; tries++) {
    try {
      await query(adminUrl, create);
      break;
    } catch (error) {
      // A session that made the template may still be ending; PostgreSQL itself waits 5 s.
      if (errorCode(error) !== '55006' || tries === 6) throw error;
    }
  }
  return {
    url: databaseAt(userUrl, name),
    drop: async () => {
      await query(adminUrl, WAIT_FOR_SESSIONS(name));
      await query(adminUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    },
  };
}

const END_SESSIONS = (name: string): string =>
  `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`;

/** Waits up to a second for sessions that are ending. Cutting these would cause errors. */
const WAIT_FOR_SESSIONS = (name: string): string => `
  DO $$ BEGIN
    FOR try IN 1..100 LOOP
      PERFORM pg_stat_clear_snapshot();
      EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = '${name}');
      PERFORM pg_sleep(0.01);
    END LOOP;
  END $$`;

/**
 * Deletes every row of a schema in the order of its foreign keys, after waiting for other sessions. TRUNCATE
 * takes fifty times as long, because it makes new files for each table and index.
 */
export async function emptyTables(
  client: { query(sql: string): Promise<unknown> },
  schema: 'mirror' | 'bullmq',
): Promise<void> {
  const sql = `
    DO $$
    DECLARE
      tables text[];
      one text;
    BEGIN
      WITH RECURSIVE depths AS (
        SELECT oid, 0 AS depth FROM pg_class
         WHERE relkind = 'r' AND relnamespace = to_regnamespace('${schema}')
           AND relname NOT IN ('_prisma_migrations', 'migration')
        UNION
        SELECT k.confrelid, depth + 1 FROM depths d JOIN pg_constraint k ON k.conrelid = d.oid
         WHERE k.contype = 'f' AND k.confrelid <> k.conrelid
      ), deepest AS (
        SELECT oid, max(depth) AS depth FROM depths GROUP BY oid
      )
      -- A trigger refuses to delete codes that have checks.
      SELECT array_agg(oid::regclass::text ORDER BY oid = to_regclass('mirror.purchase_codes'), depth)
        INTO tables FROM deepest;
      IF tables IS NULL THEN RETURN; END IF;
      EXECUTE 'LOCK TABLE ' || array_to_string(tables, ', ') || ' IN ACCESS EXCLUSIVE MODE';
      FOREACH one IN ARRAY tables LOOP EXECUTE 'DELETE FROM ' || one; END LOOP;
    END $$`;
  for (let tries = 1; ; tries++) {
    try {
      await client.query(sql);
      return;
    } catch (error) {
      // Work of the test may still be ending, and locks tables in another order.
      if (tries === 5 || (error as { code?: string }).code !== '40P01') throw error;
    }
  }
}
