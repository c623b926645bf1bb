import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { folder, run, start } from './support.js';

const mirror = useMirror();
let env: Record<string, string>;
beforeEach(async () => {
  env = { DATABASE_URL: mirror().databaseUrl };
  await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'x')`);
  await write(1);
});

/** Writes a change of this run. */
async function write(run: number): Promise<void> {
  await mirror().rows(
    `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, new_value)
     VALUES ('main', 7, $1, '2026-03-01 02:00:00.5Z', 'text', 'name', '"=1+1"')`,
    [run],
  );
}

const cli = (...args: string[]) => run(['export', ...args], env);
const file = (name: string): string => join(folder(), name);

describe('export', () => {
  it('lists the views if none is named', async () => {
    const { code, stdout } = await cli();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^items +seller_id, item_id +Every item ever seen/m);
    expect(stdout).toMatch(/^freshness +whole only/m);
    const views = JSON.parse((await cli('--json')).stdout) as { view: string; key: unknown }[];
    expect(views).toContainEqual(expect.objectContaining({ view: 'item_changes', key: ['seq'] }));
  });

  it('continues from its cursor file, and refuses one of another view', async () => {
    const follow = () =>
      cli('item_changes', '--format', 'ndjson', '--cursor-file', 'changes.cursor');
    const runs = (stdout: string): unknown[] =>
      stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as { run_id: number }).run_id);
    expect(runs((await follow()).stdout)).toEqual([1]);
    await write(2);
    await write(3);
    expect(runs((await follow()).stdout)).toEqual([2, 3]);
    expect(runs((await follow()).stdout)).toEqual([]);
    const other = await cli('items', '--cursor-file', 'changes.cursor');
    expect(other.code).toBe(2);
    expect(other.stderr).toContain('has the cursor of item_changes');
    writeFileSync(file('broken.cursor'), '4711');
    expect((await cli('items', '--cursor-file', 'broken.cursor')).stderr).toContain('no cursor');
  });

  it('writes the next cursor to another file, and no cursor after a failed export', async () => {
    const options = ['--cursor-file', 'a.cursor', '--next-cursor-file', 'a.next'];
    const { code, stdout } = await cli('items', '--out', 'a.csv', '--json', ...options);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as { cursor: string };
    expect(report).toMatchObject({ view: 'items', rows: 0, since: null, format: 'csv' });
    expect(existsSync(file('a.cursor'))).toBe(false);
    expect(readFileSync(file('a.next'), 'utf8')).toContain(`"${report.cursor}"`);
    writeFileSync(file('a.cursor'), '{"view":"items","seller":null,"cursor":"999999"}');
    const ahead = await cli('items', '--out', 'a.csv', ...options);
    expect(ahead.code).toBe(1);
    expect(ahead.stderr).toContain('ahead of this store');
    expect(existsSync(file('a.next'))).toBe(false);
    expect(readdirSync(folder()).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('disarms formulas in CSV, unless --raw is given', async () => {
    await mirror().rows(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict) VALUES ('main', '=1+1', 'valid')`,
    );
    expect((await cli('purchases')).stdout).toContain(`,'=1+1,`);
    expect((await cli('purchases', '--raw')).stdout).toContain(',=1+1,');
  });

  it('writes decimal commas for Excel in countries that use them', async () => {
    await mirror().rows(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, price, currency)
       VALUES ('main', 'A', 'valid', 19.9, 'EUR')`,
    );
    const { stdout } = await cli('purchases', '--decimal-comma');
    expect(stdout).toMatch(/^\uFEFFcode_id;/);
    expect(stdout).toMatch(/;19,90;EUR;/);
    const select = 'select 1.5 as a, 2.5::float8 as b, true as c';
    const asked = await run(['sql', '--format', 'csv', '--decimal-comma', select], env);
    expect(asked.stdout).toBe('\uFEFFa;b;c\r\n1,5;2,5;true\r\n');
  });

  it('refuses more rows than a sheet has before it writes a file', async () => {
    await mirror().rows(
      'CREATE VIEW reporting.long AS SELECT n FROM generate_series(1, 1048576) AS n',
    );
    const { code, stderr } = await cli('long', '--out', 'long.xlsx');
    expect(stderr).toMatch(/has room for 1,048,575 rows, and these are 1,048,576\n {2}→ .*Parquet/);
    expect(code).toBe(2);
    expect(existsSync(file('long.xlsx'))).toBe(false);
  });

  it('follows a purchase that is gone, and one whose support ended meanwhile', async () => {
    await mirror().rows(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, purchase_seen_at, supported_until)
       VALUES ('main', 'A', 'valid', now(), NULL), ('main', 'B', 'valid', now(), '2020-06-01Z')`,
    );
    const { stderr } = await cli('purchases', '--out', 'p.ndjson');
    const [, seq = ''] = /--since (\d+)@/.exec(stderr) ?? [];
    await mirror().rows(`UPDATE mirror.purchase_codes SET verdict = 'invalid' WHERE code = 'A'`);
    const since = ['--format', 'ndjson', '--since', `${seq}@2020-01-01T00:00:00Z`];
    const { stdout } = await cli('purchases', ...since);
    const rows = stdout.split('\n', 2).map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows).toContainEqual(
      expect.objectContaining({ code: 'A', support: null, _deleted: true }),
    );
    expect(rows).toContainEqual(
      expect.objectContaining({ code: 'B', support: 'expired', _deleted: false }),
    );
  });

  it('writes Parquet to a pipe', async () => {
    const { code, stdout } = await cli('item_changes', '--format', 'parquet');
    expect({ code, magic: stdout.slice(0, 4) }).toEqual({ code: 0, magic: 'PAR1' });
  });

  it('does not advance the cursor if its reader goes away', async () => {
    await mirror().rows(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, new_value)
       SELECT 'main', n, 1, now(), 'text', 'name', to_jsonb(repeat('x', 1000))
         FROM generate_series(1, 20000) AS n`,
    );
    const running = start(['export', 'item_changes', '--cursor-file', 'gone.cursor'], env);
    await until(() => running.stdout() !== '');
    running.process.stdout.destroy();
    expect((await running.ended).code).toBe(0);
    expect(existsSync(file('gone.cursor'))).toBe(false);
  });
});
