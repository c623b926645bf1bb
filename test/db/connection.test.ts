import type { Client, Pool } from 'pg';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openMirror } from '../../src/index.js';
import { createQueuePool, withOwnClient } from '../../src/db/pools.js';
import {
  createUser,
  listActions,
  logAction,
  startSession,
} from '../../src/dashboard/access-store.js';
import { connect } from '../../src/db/backup/format.js';
import { DbClient } from '../../src/db/connection.js';
import { RUNS } from '../../src/catalogue/runs-listing.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import { openMarket } from '../catalogue/market.js';
import { never, useMirror } from '../support/mirror.js';
import { databaseAt, query, testServer } from '../support/postgres.js';
import { open, trialDataDir } from './embedded/trial.js';

const mirror = useMirror();

/** The role of the tests has other values for all of these; see global-setup.ts. */
const EXPECTED = {
  DateStyle: 'ISO, YMD',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  default_transaction_deferrable: 'off',
  default_transaction_isolation: 'read committed',
  extra_float_digits: '1',
  quote_all_identifiers: 'off',
  search_path: '"$user", public',
  standard_conforming_strings: 'on',
};
const SETTINGS = `SELECT json_object_agg(name, setting) AS settings FROM pg_settings
  WHERE name IN (${Object.keys(EXPECTED)
    .map((name) => `'${name}'`)
    .join(', ')})`;

async function settingsOf(client: Pool | Client): Promise<unknown> {
  const { rows } = await client.query<{ settings: unknown }>(SETTINGS);
  return rows[0]?.settings;
}

describe('a session has the settings that its values are parsed by, whatever the role has set', () => {
  it('in the tests themselves, whose role has others', async () => {
    const [row] = await query(
      testServer.adminUrl,
      `SELECT cardinality(setconfig) AS odd FROM pg_db_role_setting
        WHERE setdatabase = 0 AND setrole = '"${new URL(mirror().databaseUrl).username}"'::regrole`,
    );
    expect(row?.['odd']).toBe(Object.keys(EXPECTED).length);
  });

  it('in both pools', async () => {
    expect(await settingsOf(mirror().db.pool)).toEqual(EXPECTED);
    expect(await settingsOf(mirror().db.locks)).toEqual(EXPECTED);
  });

  it('in the queue, whose tables are in a schema of their own', async () => {
    const options = { applicationName: 'test', schema: 'bullmq', connectMs: 9_000, queryMs: 9_000 };
    const { pool, end } = createQueuePool(mirror().databaseUrl, options);
    onTestFinished(() => end(1_000));
    expect(await settingsOf(pool)).toEqual({ ...EXPECTED, search_path: 'bullmq' });
  });

  it('of a command, and of a backup', async () => {
    const { databaseUrl } = mirror();
    expect(await withOwnClient(databaseUrl, 'test', never, settingsOf)).toEqual(EXPECTED);
    const client = await connect(databaseUrl, 'test');
    expect(await settingsOf(client)).toEqual(EXPECTED);
    await client.end();
  });

  it('of the library, in transactions too', async () => {
    const reads = await openMirror({ databaseUrl: mirror().databaseUrl });
    onTestFinished(() => reads.close());
    const statement = Object.assign([SETTINGS], { raw: [SETTINGS] });
    expect(await reads.$queryRaw(statement)).toEqual([{ settings: EXPECTED }]);
    const inTransaction = await reads.$transaction((tx) => tx.$queryRaw(statement));
    expect(inTransaction).toEqual([{ settings: EXPECTED }]);
  });
});

describe('times on a server in another zone', () => {
  const isNow = (time: Date | null | undefined): boolean =>
    Math.abs((time?.getTime() ?? 0) - Date.now()) < 60_000;

  it('are right in runs and in the library', async () => {
    const { deps } = await openMarket(mirror(), 3);
    await syncItems(deps, never);
    const [run] = await RUNS.read(mirror().db, {}, { face: 'tables', from: null, limit: 1 });
    expect([isNow(run?.startedAt), isNow(run?.finishedAt)]).toEqual([true, true]);
    const reads = await mirror().reader();
    expect(isNow((await reads.reportingSyncRuns.findFirst())?.startedAt)).toBe(true);
  });

  it('are stored right by the dashboard', async () => {
    const { db } = mirror();
    await createUser(db, { name: 'ada', role: 'operator', passwordHash: 'x' });
    await startSession(db, Buffer.from('token'), { userName: 'ada' });
    await logAction(db, { who: 'ada', action: 'x', target: null, outcome: 'done' });
    expect(isNow((await listActions(db, 1))[0]?.at)).toBe(true);
    const stored = await query(
      databaseAt(testServer.adminUrl, new URL(db.url).pathname.slice(1)),
      `SELECT abs(extract(epoch FROM now() - a.at)) < 60 AS action,
              abs(extract(epoch FROM now() - s.seen_at)) < 60 AS session
         FROM mirror.actions a, mirror.sessions s`,
    );
    expect(stored).toEqual([{ action: true, session: true }]);
  });
});

describe('variables of the environment that the driver would read', () => {
  const ODD = {
    PGOPTIONS: '-c nonsense=1',
    PGSSLMODE: 'require',
    PGSSLNEGOTIATION: 'direct',
    PGPORT: '1',
    PGUSER: 'nobody',
    PGREPLICATION: 'database',
    PGCLIENT_ENCODING: 'LATIN1',
  };
  const setOdd = (): void => {
    for (const [name, value] of Object.entries(ODD)) vi.stubEnv(name, value);
  };
  afterEach(() => vi.unstubAllEnvs());

  it('change no connection, and stay as they are', async () => {
    setOdd();
    const client = new DbClient(mirror().databaseUrl);
    await client.connect();
    expect(await settingsOf(client)).toEqual(EXPECTED);
    await client.end();
    expect(process.env).toMatchObject(ODD);
  });

  it('do not keep the embedded server from starting', async () => {
    setOdd();
    const database = await open(await trialDataDir(), { durable: false });
    const client = new DbClient(database.url);
    await client.connect();
    await client.end();
    await database.close();
  });
});

describe('a connection that the server ends while it is being set up', () => {
  it('fails, and does not end the process by an error event that nobody listens to', () => {
    const client = new DbClient(mirror().databaseUrl);
    expect(() => client.emit('error', new Error('terminating connection'))).not.toThrow();
  });
});
