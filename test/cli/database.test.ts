import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { trialDataDir } from '../db/embedded/trial.js';
import { useMirror } from '../support/mirror.js';
import { query } from '../support/postgres.js';
import { until } from '../support/until.js';
import { folder, run, start } from './support.js';

const mirror = useMirror();
let env: Record<string, string>;
beforeAll(() => {
  env = { DATABASE_URL: mirror().databaseUrl };
});

const sql = (...args: string[]) => run(['sql', ...args], env);

describe('sql', () => {
  const select = `select 1 as id, 19.90 as price, '=1+1' as text, null as nothing, true as yes, '{"n": 12345678901234567890}'::jsonb as data`;

  it('prints a table without control characters from the marketplace', async () => {
    const { code, stdout, stderr } = await sql(`select 7 as id, E'a\\u001b[2Jb\\nc' as name`);
    expect({ code, stdout, stderr }).toEqual({
      code: 0,
      stdout: 'id  name\n 7  ab c\n',
      stderr: '',
    });
  });

  it('prints CSV with formulas disarmed, exact numbers and NULL as an empty cell', async () => {
    const { stdout } = await sql('--format', 'csv', `${select}, -5 as minus`);
    expect(stdout).toBe(
      'id,price,text,nothing,yes,data,minus\r\n1,19.90,\'=1+1,,true,"{""n"": 12345678901234567890}",-5\r\n',
    );
  });

  it('prints CSV on a terminal without control characters, and to a file with them', async () => {
    const args = ['sql', '--format', 'csv', `select E'a\\u001b[31m\\u009bb\\u202e' as name`];
    const { stdout } = await run(args, env, { terminal: ['stdout'] });
    expect(stdout).not.toMatch(/(?![\r\n])\p{Cc}|\u202E/u);
    expect((await run(args, env)).stdout).toBe('name\r\na\u001B[31m\u009Bb\u202E\r\n');
  });

  it('prints JSON with typed values', async () => {
    const { stdout } = await sql('--json', `${select}, array['a','b c'] as list, 1 as id`);
    expect(stdout).toBe(
      `[\n  {"id":1,"price":"19.90","text":"=1+1","nothing":null,"yes":true,"data":{"n": 12345678901234567890},"list":["a","b c"],"id_2":1}\n]\n`,
    );
    expect((await sql('--json', 'select 1 where false')).stdout).toBe('[]\n');
  });

  it('prints values in JSON so that no digit is lost', async () => {
    const values = [
      [`19.90::float8`, '19.9'],
      [`1e20::float8`, '1e+20'],
      [`9007199254740992`, '9007199254740992'],
      [`9007199254740993`, '"9007199254740993"'],
      [`'NaN'::float8`, '"NaN"'],
      [`'-Infinity'::float8`, '"-Infinity"'],
      [`-0.10::numeric(14,2)`, '"-0.10"'],
      [`0.12345678901234567891`, '"0.12345678901234567891"'],
      [`e'{"a":\\n 1.10, "b": "\u202E"}'::json`, '{"a":  1.10, "b": "\\u202e"}'],
      [`e'say "hi"\\n'`, '"say \\"hi\\"\\n"'],
      [`array['a','b c',null,'{}']`, '["a","b c",null,"{}"]'],
      [`false`, 'false'],
      [`null::int`, 'null'],
    ] as const;
    const columns = values.map(([value], n) => `${value} as v${n}`).join();
    const { stdout } = await sql('--format', 'ndjson', `select ${columns}`);
    expect(stdout).toBe(`{${values.map(([, json], n) => `"v${n}":${json}`).join()}}\n`);
  });

  it('renames columns of the same name in JSON, and accepts __proto__', async () => {
    const { stdout } = await sql('--format', 'ndjson', 'select 1 a, 2 a, 3 "__proto__", 4 a_2');
    expect(stdout).toBe('{"a":1,"a_3":2,"__proto__":3,"a_2":4}\n');
  });

  it('writes rows to a file in the format of its ending', async () => {
    const { stdout, stderr } = await sql('-o', 'two.csv', 'select 1 as id, 19.90 as price');
    expect({ stdout, stderr }).toEqual({ stdout: '', stderr: '1 row → two.csv (19 B)\n' });
    expect(readFileSync(join(folder(), 'two.csv'), 'utf8')).toBe('id,price\r\n1,19.90\r\n');
  });

  it('reads the statement from stdin', async () => {
    const ended = await run(['sql', '--format', 'ndjson', '-'], env, {
      stdin: '\uFEFF-- from a file\nselect x from generate_series(1, 2) x;\n',
    });
    expect(ended).toEqual({ code: 0, stdout: '{"x":1}\n{"x":2}\n', stderr: '' });
  });

  it('accepts a statement that begins with a comment, as those in docs/reporting.md do', async () => {
    const statement = '-- what is there\nselect 7 as id';
    for (const args of [
      [statement, '--json'],
      ['--json', statement],
      ['--json', '--', statement],
    ]) {
      const { code, stdout, stderr } = await sql(...args);
      expect({ code, stdout, stderr }).toEqual({
        code: 0,
        stdout: '[\n  {"id":7}\n]\n',
        stderr: '',
      });
    }
    const wrong = await sql('-- what is there\nselect 7 as id frm x');
    expect(wrong.stderr).toMatch(/\(line 2, character \d+\)/);
  });

  it('streams results larger than its memory', async () => {
    const ended = await run(
      ['sql', '--json', `select repeat('x', 10000) as x from generate_series(1, 7000)`],
      { ...env, NODE_OPTIONS: '--max-old-space-size=64' },
    );
    expect(ended.code).toBe(0);
    expect(ended.stdout.length).toBeGreaterThan(70_000_000);
    expect(ended.stdout.endsWith('"}\n]\n')).toBe(true);
  });

  it('exits quietly when its reader goes away, as `| head` does', async () => {
    const running = start(['sql', 'select * from generate_series(1, 5000000)'], env);
    await until(() => running.stdout() !== '');
    running.process.stdout.destroy();
    expect(await running.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('exits with 130 on Ctrl-C, and ends its query in the server', async () => {
    const running = start(['sql', 'select pg_sleep(600)'], env);
    const sessions = () =>
      mirror().rows(`SELECT FROM pg_stat_activity WHERE query = 'select pg_sleep(600)'`);
    await until(async () => (await sessions()).length > 0);
    running.process.kill('SIGINT');
    expect((await running.ended).code).toBe(130);
    await until(async () => (await sessions()).length === 0);
  });
});

describe('db', () => {
  it('keeps the embedded server running for other tools until `db stop`', async () => {
    const env = { DATA_DIR: await trialDataDir('db') };
    expect(await run(['db', 'url'], env)).toMatchObject({ code: 1, stdout: '' });

    const started = await run(['db', 'start'], env);
    expect(started.code).toBe(0);
    const psql = /^ {2}psql "\$\((.* db url --read-only)\)"$/m.exec(started.stdout)?.[1] ?? '';
    expect(psql).toMatch(/^DATA_DIR=\S*data \S/);

    const { stdout } = await run(['db', 'url'], env);
    const address = new URL(stdout);
    // Only `db url` shows the password.
    expect(address.password).not.toBe('');
    expect(started.stdout).not.toContain(address.password);
    expect(started.stdout).toMatch(new RegExp(`^ {2}port +${address.port}$`, 'm'));
    expect(await query(stdout.trim(), 'SELECT count(*)::int AS n FROM reporting.items')).toEqual([
      { n: 0 },
    ]);

    // The address for BI tools reads reports, and nothing else.
    const reader = (await run(['db', 'url', '--read-only'], env)).stdout.trim();
    expect(started.stdout).toMatch(/^ {2}user +reporting_reader$/m);
    expect(started.stdout).not.toContain(new URL(reader).password);
    expect(await query(reader, 'SELECT count(*)::int AS n FROM reporting.items')).toEqual([
      { n: 0 },
    ]);
    for (const statement of [
      'SELECT FROM mirror.items',
      'CREATE TABLE mine (n int)',
      'SET default_transaction_read_only = off; CREATE TABLE public.mine (n int)',
      'SET default_transaction_read_only = off; DELETE FROM reporting.items',
      'CREATE ROLE other',
    ]) {
      await expect(query(reader, statement), statement).rejects.toThrow(
        /permission denied|read-only transaction/,
      );
    }

    const asked = await run(['sql', '--format', 'ndjson', 'select current_user as role'], env);
    expect(asked.stdout).toBe('{"role":"seller_mirror"}\n');

    const status = await run(['db', 'status', '--json'], env);
    expect(JSON.parse(status.stdout)).toMatchObject({
      held: true,
      server: { port: Number(address.port), sessions: [] },
    });
    expect(status.stdout).not.toContain(address.password);

    expect(await run(['db', 'stop', '--now'], env)).toMatchObject({
      code: 0,
      stdout: 'The embedded server is stopped.\n',
    });
    expect((await run(['db', 'status'], env)).stdout).toMatch(/^server +not running$/m);
  });

  it('refuses every command if DATABASE_URL is set, and does not print that address', async () => {
    const env = { DATABASE_URL: 'postgres://ada:pa55word@db.example/x' };
    for (const command of ['start', 'stop', 'url', 'status']) {
      const { code, stdout, stderr } = await run(['db', command], env);
      expect(stderr).toMatch(/^error: DATABASE_URL is set, so there is no embedded server/);
      expect(stdout + stderr).not.toContain('pa55word');
      expect(code).toBe(2);
    }
  });
});
