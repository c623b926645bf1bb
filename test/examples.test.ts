import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { defaultOf } from '../src/config/index.js';
import { fillStore } from './reporting/data.js';
import { Mirror } from './support/mirror.js';

const example = (name: string): string =>
  readFileSync(new URL(`../examples/${name}`, import.meta.url), 'utf8');

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
