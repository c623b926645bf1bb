import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { defaultOf } from '../src/config/index.js';
import { fillStore } from './reporting/data.js';
import { Mirror } from './support/mirror.js';
import { createTestDatabase, databaseAt, testServer } from './support/postgres.js';

const example = (name: string): string =>
  readFileSync(new URL(`../examples/${name}`, import.meta.url), 'utf8');

/** The SQL of a page, without the indent of a list. */
function sqlOf(page: string, block: string): string {
  const text = readFileSync(new URL(`../docs/${page}.md`, import.meta.url), 'utf8');
  const [, sql = ''] = new RegExp(`^ *\`\`\`sql ${block}\\n([^]*?)^ *\`\`\``, 'm').exec(text) ?? [];
  expect(sql, `docs/${page}.md has a block "sql ${block}"`).not.toBe('');
  return sql;
}

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;

describe('examples/seller-mirror.service', () => {
  const unit = example('seller-mirror.service');

  it('gives running work its time to stop, and starts at boot', () => {
    const [, stop] = /^TimeoutStopSec=(\d+)$/m.exec(unit) ?? [];
    expect(Number(stop)).toBeGreaterThan(Number(defaultOf('SHUTDOWN_TIMEOUT')));
    expect(unit).toMatch(/^\[Install\]\nWantedBy=multi-user\.target$/m);
  });

  it.skipIf(!hasSystemd)('is a unit without faults (needs systemd-analyze)', () => {
    const folder = mkdtempSync(join(tmpdir(), 'unit-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'seller-mirror.service');
    // This machine has neither the user nor the folder, and maybe another Node.
    const here = unit
      .replaceAll('/opt/seller-mirror', folder)
      .replace('/usr/bin/node', process.execPath)
      .replace(/^User=.*$/m, 'User=root');
    writeFileSync(file, here);
    const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', file], {
      encoding: 'utf8',
    });
    const own = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('seller-mirror'));
    expect({ status, own }).toEqual({ status: 0, own: [] });
  });
});

interface Panel {
  readonly title: string;
  readonly gridPos: Readonly<Record<'h' | 'w' | 'x' | 'y', number>>;
  readonly targets: readonly { readonly rawSql: string; readonly format: string }[];
}

describe('examples/grafana-dashboard.json', () => {
  const dashboard = JSON.parse(example('grafana-dashboard.json')) as {
    __inputs: { name: string }[];
    templating: { list: { name: string; query: string }[] };
    panels: Panel[];
  };
  let mirror: Mirror;
  beforeAll(async () => {
    mirror = await Mirror.open();
    await fillStore(mirror);
  });
  afterAll(() => mirror.close());

  /** Replaces Grafana's macros and variables as its PostgreSQL data source does. */
  const expanded = (sql: string): string =>
    sql
      .replaceAll(/\$__timeFilter\((.+?)\)(?=\s)/g, `$1 BETWEEN '2000-01-01Z' AND '2100-01-01Z'`)
      .replaceAll('$seller', `'main','second'`);

  it('asks for its data source when it is imported, and uses no other', () => {
    expect(dashboard.__inputs.map(({ name }) => name)).toEqual(['DS_REPORTING']);
    const used = JSON.stringify(dashboard).match(/"uid":"\$\{\w+\}"/g);
    expect(new Set(used)).toEqual(new Set(['"uid":"${DS_REPORTING}"']));
  });

  it('offers the sellers', async () => {
    const [seller] = dashboard.templating.list;
    const { rows } = await mirror.pool.query(seller?.query ?? '');
    expect(rows).toEqual([{ seller_id: 'main' }, { seller_id: 'second' }]);
  });

  it.each(dashboard.panels)('shows rows in “$title”, without a purchase code', async (panel) => {
    const [target] = panel.targets;
    const sql = expanded(target?.rawSql ?? '');
    expect(sql).not.toContain('$');
    expect(sql).not.toMatch(/mirror\.|\bcode\b/);
    const { rows, fields } = await mirror.pool.query<Record<string, unknown>>(sql);
    if (!panel.title.includes('stopped')) expect(rows).not.toEqual([]);
    if (target?.format !== 'time_series') return;
    expect(fields.map(({ name }) => name)).toEqual(['time', 'metric', 'value']);
    expect(rows.every(({ time }) => time instanceof Date)).toBe(true);
  });

  it('places its panels side by side, without overlaps', () => {
    const cells = dashboard.panels.flatMap(({ gridPos: { h, w, x, y } }) =>
      Array.from({ length: h * w }, (_, n) => `${x + (n % w)},${y + Math.floor(n / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });
});

describe('docs/shop.md', () => {
  it('shows live items of the tables that a feed fills, which have the columns of the views', async () => {
    const mirror = await Mirror.open();
    onTestFinished(() => mirror.close());
    await fillStore(mirror);
    const shown = await mirror.rows(sqlOf('shop', 'shop').replace(' items ', ' reporting.items '));
    const live = await mirror.rows(`SELECT FROM reporting.items WHERE state = 'live'`);
    expect(shown.length).toBe(live.length);
    expect(live.length).toBeGreaterThan(0);
  });
});

describe('docs/uninstall.md', () => {
  it('leaves nothing of the program in a database, and other tables as they are', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const name = new URL(database.url).pathname.slice(1);
    const admin = new pg.Client(databaseAt(testServer.adminUrl, name));
    await admin.connect();
    onTestFinished(() => admin.end());
    // Roles are the whole server's: another name than that of other tests.
    const reader = `reader_of_${name}`;
    await admin.query(`CREATE TABLE public.own (n int); CREATE ROLE ${reader};
      GRANT USAGE ON SCHEMA reporting TO ${reader}`);
    await admin.query(sqlOf('uninstall', 'uninstall'));
    await admin.query(sqlOf('uninstall', 'uninstall-role').replaceAll('reporting_reader', reader));
    const { rows } = await admin.query(
      `SELECT nspname FROM pg_namespace WHERE nspname IN ('mirror', 'reporting', 'bullmq')
       UNION ALL SELECT rolname FROM pg_roles WHERE rolname = $1
       UNION ALL SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'`,
      [reader],
    );
    expect(rows).toEqual([{ nspname: 'own' }]);
  });
});
