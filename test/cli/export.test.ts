import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { folder, run } from './support.js';

const mirror = useMirror();
let env: Record<string, string>;
beforeEach(async () => {
  env = { DATABASE_URL: mirror().databaseUrl };
  await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'x')`);
  await mirror().rows(
    `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, new_value)
     VALUES ('main', 7, 1, '2026-03-01 02:00:00.5Z', 'text', 'name', '"=1+1"')`,
  );
});

const cli = (...args: string[]) => run(['export', ...args], env);
const file = (name: string): string => join(folder(), name);

describe('export', () => {
  it('lists the views if none is named', async () => {
    const { code, stdout } = await cli();
    expect(code).toBe(0);
    expect(stdout).toMatch(/^items +seller_id, item_id +Every item ever seen/m);
    expect(stdout).toMatch(/^freshness +How current/m);
    const views = JSON.parse((await cli('--json')).stdout) as { view: string; key: unknown }[];
    expect(views).toContainEqual(expect.objectContaining({ view: 'item_changes', key: ['seq'] }));
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

  it('and lists write a file in the format of its ending; -q says nothing about it', async () => {
    const out = file('changes.xlsx');
    const listed = await run(['changes', '-o', out], env);
    expect(listed).toMatchObject({ code: 0, stdout: '' });
    expect(listed.stderr).toMatch(/^1 row → .*changes\.xlsx \(.* kB\)\n$/);
    expect(readFileSync(out, 'latin1').slice(0, 2)).toBe('PK');
    expect((await cli('items', '-o', file('i.csv'))).stderr).toMatch(/^items: 0 rows → /);
    expect((await cli('items', '-q', '-o', file('i.csv'))).stderr).toBe('');
    // Errors are results, too.
    expect((await cli('itmes', '-q', '-o', file('i.csv'))).stderr).toMatch(
      /^error: there is no view/,
    );
  });

  it('writes Parquet to a pipe', async () => {
    const { code, stdout } = await cli('item_changes', '--format', 'parquet');
    expect({ code, magic: stdout.slice(0, 4) }).toEqual({ code: 0, magic: 'PAR1' });
  });
});
