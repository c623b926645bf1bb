import { readFileSync } from 'node:fs';
import { createConnection } from 'mysql2/promise';
import pg from 'pg';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { hasMariaDb, startMariaDb } from '../../support/mariadb.js';
import { createTestDatabase, databaseAt, testServer } from '../../support/postgres.js';
import { World } from './world.js';

let world: World;
beforeAll(async () => {
  world = await World.open(5);
  world.feeds({ name: 'none', folder: 'none', views: ['items'] });
  await world.sync('ada');
});
afterAll(() => world.close());

const PAGE = readFileSync(new URL('../../../docs/bi-feeds.md', import.meta.url), 'utf8');

/** Returns the statements of a block of the page. */
function statements(block: string, password = 'word'): string[] {
  const [, text = ''] = new RegExp(`\`\`\`sql ${block}\n([^]*?)\`\`\``).exec(PAGE) ?? [];
  const all = text.replaceAll('…', password).split(/;\s*\n/);
  const found = all.map((one) => one.trim()).filter((one) => one !== '');
  expect(found, `docs/bi-feeds.md has a block "sql ${block}"`).not.toEqual([]);
  return found;
}

/** Expects `feed check` to report that the user may not create tables, which also an existing table needs. */
async function expectNoRightToCreate(target: object): Promise<void> {
  world.feeds({ name: 'x', ...target, views: ['price_changes', 'items'] });
  const { code, stdout } = await world.cli('feed', 'check', 'x');
  expect(code).toBe(1);
  expect(stdout).toMatch(/denied.*: .*grant the user/);
}

it.skipIf(!hasMariaDb)(
  'Metabase has the rights and the answer that the page promises, and the feed needs no other rights',
  async () => {
    await world.rows(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, proof, verdict_since, first_checked_at,
         last_checked_at, last_check_id, purchase_seen_at, answered_code, license_type, price, currency,
         item_id, item_name, purchased_at, raw)
       SELECT 'ada', code, 'valid', 'purchase', now(), now(), now(), n, now(), code, 'Regular', 10.5 * n, 'USD',
              n, 'Item', '2026-03-01T00:00:00Z'::timestamptz + n * interval '20 days', '{}'
         FROM generate_series(1, 3) AS n, LATERAL (SELECT md5(n::text)::uuid::text AS code) AS c`,
    );
    const server = await startMariaDb();
    onTestFinished(() => server.close());
    const url = new URL(await server.database());
    const socketPath = url.searchParams.get('socketPath') ?? '';
    const admin = await createConnection({ socketPath, user: 'root' });
    for (const sql of statements('metabase-setup')) await admin.query(sql);
    await admin.end();
    url.username = 'reports';
    url.password = 'word';
    url.pathname = '/marketplace';
    const views = ['items', 'purchases', 'item_changes'];
    world.feeds({ name: 'warehouse', target: url.href, views });
    await world.printed('feed', 'run');
    const login = { user: 'metabase', password: 'word', database: 'marketplace' };
    const reader = await createConnection({ socketPath, ...login });
    const [sql = ''] = statements('metabase');
    const [rows] = await reader.query(sql);
    expect(rows).toEqual([
      { month: '2026-03', currency: 'USD', sales: 1, revenue: '10.50' },
      { month: '2026-04', currency: 'USD', sales: 2, revenue: '52.50' },
    ]);
    await expect(reader.query('DELETE FROM purchases')).rejects.toThrow('denied');
    await expectNoRightToCreate({ target: Object.assign(url, { username: 'metabase' }).href });
    await reader.end();
  },
);

it('the Grafana example works as documented, also for a view that is added later', async () => {
  const database = await createTestDatabase({ empty: true });
  const name = new URL(database.url).pathname.slice(1);
  const admin = new pg.Client(databaseAt(testServer.adminUrl, name));
  await admin.connect();
  // Users belong to the whole server, so the page's users get names unique to this test.
  const [bi, grafana] = [`bi_${process.pid}`, `grafana_${process.pid}`];
  const named = (sql: string): string =>
    sql.replaceAll(/\bbi\b/g, bi).replaceAll(/\bgrafana\b/g, grafana);
  onTestFinished(async () => {
    await admin.end();
    await database.drop();
    const last = new pg.Client(testServer.adminUrl);
    await last.connect();
    await last.query(`DROP USER IF EXISTS ${bi}, ${grafana}`);
    await last.end();
  });
  await admin.query(`CREATE USER ${bi} PASSWORD 'word'`);
  for (const sql of statements('grafana-setup')) await admin.query(named(sql));
  const as = (user: string): URL =>
    Object.assign(new URL(database.url), { username: user, password: 'word' });
  const feed = (user: string) => ({ target: as(user).href, schema: 'marketplace' });
  world.feeds({ name: 'bi', ...feed(bi), views: ['items', 'item_history'] });
  await world.printed('feed', 'run');
  const reader = new pg.Client(as(grafana).href);
  await reader.connect();
  const [sql = ''] = statements('grafana');
  const { rows } = await reader.query(
    sql.replace(
      /\$__timeFilter\((\w+)\)/,
      `$1 BETWEEN '2000-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'`,
    ),
  );
  expect(rows).toHaveLength(5);
  await expect(reader.query('DELETE FROM marketplace.items')).rejects.toThrow('denied');
  await expectNoRightToCreate(feed(grafana));
  await reader.end();
});
