import { describe, expect, it } from 'vitest';
import { marketOf, printed, run, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { query, testServer } from '../support/postgres.js';
import { trialDataDir } from './embedded/trial.js';

const mirror = useMirror();

/** Settings that values are sent and parsed by. The role of the tests has others; see global-setup.ts. */
const EXPECTED = {
  DateStyle: 'ISO, YMD',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  default_transaction_isolation: 'read committed',
  extra_float_digits: '1',
  quote_all_identifiers: 'off',
  search_path: '"$user", public',
  standard_conforming_strings: 'on',
};
const SETTINGS = `SELECT name, setting FROM pg_settings WHERE name IN ('${Object.keys(EXPECTED).join("', '")}')`;

const isNow = (time: Date | null | undefined): boolean =>
  Math.abs((time?.getTime() ?? 0) - Date.now()) < 60_000;

describe('a session has the settings that its values are parsed by, whatever the role has set', () => {
  it('of a command', async () => {
    const [row] = await query(
      testServer.adminUrl,
      `SELECT cardinality(setconfig) AS odd FROM pg_db_role_setting
        WHERE setdatabase = 0 AND setrole = '"${new URL(mirror().databaseUrl).username}"'::regrole`,
    );
    expect(row?.['odd']).toBeGreaterThan(10);
    const env = { DATABASE_URL: mirror().databaseUrl };
    const text = await printed(['sql', '--format', 'ndjson', SETTINGS], env);
    const rows = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, string>);
    const shown = Object.fromEntries(rows.map(({ name = '', setting }) => [name, setting]));
    expect(shown).toEqual(EXPECTED);
  });

  it('of the library, in transactions too', async () => {
    const reads = await mirror().reader();
    const rows = Object.entries(EXPECTED).map(([name, setting]) => ({ name, setting }));
    const statement = Object.assign([`${SETTINGS} ORDER BY name COLLATE "C"`], { raw: [''] });
    expect(await reads.$queryRaw(statement)).toEqual(rows);
    expect(await reads.$transaction((tx) => tx.$queryRaw(statement))).toEqual(rows);
  });

  it('so that the times of a run are right in the store and in the library', async () => {
    const { env } = await marketOf(mirror(), 3);
    await printed(['sync', 'items'], env);
    const [run] = await mirror().rows<{ at: Date }>('SELECT finished_at AS at FROM mirror.runs');
    expect(isNow(run?.at)).toBe(true);
    const reads = await mirror().reader();
    expect(isNow((await reads.reportingSyncRuns.findFirst())?.startedAt)).toBe(true);
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

  it('change no connection, neither to a server nor to the embedded one', async () => {
    const env = { ...ODD, DATABASE_URL: mirror().databaseUrl };
    expect(await run(['status'], env)).toMatchObject({ code: 0, stderr: '' });
    const own = { ...ODD, DATA_DIR: await trialDataDir() };
    expect(await start(['migrate'], own).ended).toMatchObject({ code: 0, stderr: '' });
  });
});
