import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseExposition, valueOf } from '../service/exposition.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { marketOf, printed, run, settings, start, twoSellers } from './support.js';

const mirror = useMirror();

/** Number of rows of a seller in each table, without empty ones. */
async function rowsOf(seller: string): Promise<Record<string, number>> {
  const tables = await mirror().rows<{ name: string }>(
    `SELECT c.table_name AS name FROM information_schema.columns c JOIN information_schema.tables t
         USING (table_schema, table_name)
      WHERE c.table_schema = 'mirror' AND c.column_name = 'seller_id' AND t.table_type = 'BASE TABLE'`,
  );
  const counts: Record<string, number> = {};
  for (const { name } of tables) {
    const [row] = await mirror().rows<{ n: number }>(
      `SELECT count(*)::int AS n FROM mirror.${name} WHERE seller_id = $1`,
      [seller],
    );
    if (row !== undefined && row.n > 0) counts[name] = row.n;
  }
  return counts;
}

/** Two mirrored sellers: `first` with a change, a removal, an unreadable record and a checked list. */
async function twoCopies() {
  const { sim, catalogue } = await marketOf(mirror());
  const env = twoSellers(mirror().databaseUrl, sim.url);
  await printed(['sync'], env);
  catalogue.change(1001, { priceRegularCents: 100 });
  catalogue.remove(1002);
  catalogue.breakRecord(1003, '{"id":1003,"name":"\u0007"}');
  await printed(['sync'], env);
  await run(['codes', 'check', '--seller', 'first', 'an-unknown-code-12345'], env);
  return { sim, env };
}

it('the same account under two seller names is refused for the younger one, and doctor says so', async () => {
  const { sim, env } = await marketOf(mirror());
  await printed(['sync'], { ...env, SELLER_NAME: 'mian' });
  const main = { ...env, SELLER_NAME: 'main' };
  const both =
    /the key of seller "main" opens the account "ada", which is mirrored as seller "mian" already/;
  const refused = await run(['sync'], main);
  expect(refused.code).toBe(1);
  expect(refused.stdout).toMatch(both);
  expect(refused.stdout).toContain('seller-mirror sellers rename mian main');
  expect(await rowsOf('main')).not.toHaveProperty('items');
  const doctor = await run(['doctor'], main);
  expect(doctor.stdout).toMatch(both);
  expect(doctor.code).toBe(1);
  // The older one goes on.
  await printed(['sync'], { ...env, SELLER_NAME: 'mian' });
  await printed(['sellers', 'rename', 'mian', 'main'], main);
  expect(await printed(['sync'], main)).toContain('12 unchanged');
  expect(await rowsOf('mian')).toEqual({});
  expect(sim.log.length).toBeGreaterThan(0);
});

it('accounts of one name on two marketplaces are two accounts', async () => {
  const { env } = await marketOf(mirror());
  const other = await marketOf(mirror());
  await printed(['sync'], env);
  await printed(['sync'], settings(mirror().databaseUrl, other.sim.url, { SELLER_NAME: 'other' }));
});

it('sellers list shows those of the store and of the settings', async () => {
  const { env } = await twoCopies();
  const rows = JSON.parse(
    await printed(['sellers', '--json'], { ...env, SELLERS_FILE: '' }),
  ) as object[];
  expect(rows).toMatchObject([
    { seller_id: 'first', configured: false, account: 'ada', live: 11, removed: 1 },
    { seller_id: 'second', configured: false, account: 'bob', live: 12 },
  ]);
  expect(await printed(['sellers'], env)).toMatch(/^second +current +yes +bob /m);
  const fresh = {
    ...env,
    SELLERS_FILE: '',
    MARKETPLACE_URL: 'https://m.example',
    MARKETPLACE_API_KEY: KEY,
  };
  expect(await printed(['sellers'], fresh)).toMatch(/^main +never mirrored +yes +/m);
});

it('sellers are paused, resumed and asked for by command as on their page', async () => {
  const { env } = await twoCopies();
  expect(await printed(['sellers', 'pause', 'first'], env)).toContain('schedules skip it');
  expect((await run(['sellers', 'pause', 'first'], env)).stderr).toMatch(/there is nothing to do/);
  expect(await printed(['sellers', 'show', 'first'], env)).toMatch(
    /^seller first · first · paused · [^]*\n– paused by .*; schedules skip this seller\n[^]*sellers resume first {2}to let/,
  );
  expect(await printed(['sellers', '--state', 'paused', '--format', 'ndjson'], env)).toMatch(
    /^\{"seller_id":"first"[^\n]*\n$/,
  );
  await printed(['sellers', 'resume', 'first'], env);
  await mirror().rows(
    `INSERT INTO mirror.sellers (seller_id, marketplace)
       SELECT 'shop-' || n, 'm.example' FROM generate_series(1, 30) n`,
  );
  const all = JSON.parse(await printed(['sellers', '--json'], env)) as object[];
  expect(all, 'few rows are shown whole').toHaveLength(32);
  await printed(['sellers', 'sync', 'first'], env);
  const [asked] = await mirror().rows(`SELECT seller_id FROM mirror.runs WHERE state = 'asked'`);
  expect(asked).toEqual({ seller_id: 'first' });
  const { stderr } = await run(['sellers', 'pause', 'nobody'], env);
  expect(stderr).toMatch(
    /^error: there is no seller "nobody"\n {2}→ `seller-mirror sellers` lists/,
  );
});

it('sellers rename keeps copy, history and checks', async () => {
  const { env } = await twoCopies();
  const before = await rowsOf('first');
  expect(Object.keys(before)).toEqual(
    expect.arrayContaining(['items', 'item_changes', 'item_versions', 'quarantine', 'audits']),
  );
  await printed(['sellers', 'rename', 'first', 'third'], env);
  expect(await rowsOf('third')).toEqual(before);
  expect(await rowsOf('first')).toEqual({});
  const taken = await run(['sellers', 'rename', 'third', 'second'], env);
  expect(taken.stderr).toMatch(/seller "second" has a copy or checks of its own\n/);
  expect((await run(['sellers', 'rename', 'third', 'third'], env)).stderr).toMatch(
    /seller "third" would keep its name/,
  );
  expect((await run(['sellers', 'rename', 'nobody', 'somebody'], env)).stderr).toMatch(
    /there is no seller "nobody" in the store/,
  );
});

it('sellers remove deletes every row and job of the seller, and none of others', async () => {
  const { env } = await twoCopies();
  await printed(['sync', '--queue'], env);
  const [first, second] = [await rowsOf('first'), await rowsOf('second')];
  const asked = await run(['sellers', 'remove', 'first'], env);
  expect(asked.stderr).toMatch(/the name does not match: nothing was removed\n.*--yes first/);
  expect((await run(['sellers', 'remove', 'first', '--yes', 'frist'], env)).code).toBe(2);
  const unreachable = { ...env, REDIS_URL: 'redis://127.0.0.1:1' };
  const refused = await run(['sellers', 'remove', 'first', '--yes', 'first'], unreachable);
  expect(refused.code, refused.stderr).toBe(1);
  expect(await rowsOf('first')).toMatchObject(first);
  expect(await printed(['sellers', 'remove', 'first', '--yes', 'first'], env)).toBe(
    '✓ first is removed, with 12 items\n  the settings still name it: the next run mirrors it again\n',
  );
  expect(await rowsOf('first')).toEqual({});
  expect(await rowsOf('second')).toMatchObject(second);
  const jobs = await mirror().rows<{ task: string }>(`SELECT data::text AS task FROM bullmq.job`);
  expect(jobs.map(({ task }) => /seller": ?"(\w+)"/.exec(task)?.[1])).toEqual(['second']);
});

/** For a process whose intervals of a minute take a tenth of a second. */
const SHORT_MINUTES = `const set = setInterval;
  globalThis.setInterval = (work, ms, ...more) => set(work, ms === 60_000 ? 100 : ms, ...more);`;

it('SELLERS_FILE is read again each minute: a new seller needs no restart, and a fault is told once', async () => {
  const { sim } = await marketOf(mirror());
  const env = twoSellers(mirror().databaseUrl, sim.url);
  const path = env['SELLERS_FILE'] ?? '';
  const both = readFileSync(path, 'utf8');
  const { sellers } = JSON.parse(both) as { sellers: object[] };
  writeFileSync(path, JSON.stringify({ sellers: sellers.slice(0, 1) }));
  const service = start(['run'], {
    ...env,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(SHORT_MINUTES)}`,
    DASHBOARD_LISTEN: 'off',
    SYNC_CRON: '0 0 29 2 *',
    CATCH_UP: 'false',
  });
  const logged = (msg: RegExp): Record<string, unknown>[] =>
    service
      .stdout()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((line) => msg.test(String(line['msg'])));
  const ended = (seller: string): number =>
    logged(/^run succeeded$/).filter((line) => line['seller'] === seller).length;
  await until(() => logged(/^service started$/).length > 0);
  const mirrored = async (seller: string): Promise<void> => {
    await printed(['sync', '--queue', '--seller', seller], env);
    await until(() => ended(seller) === 2);
  };
  await mirrored('first');
  const metrics = async () => {
    const health = String(logged(/^service started$/)[0]?.['health']);
    return parseExposition(await (await fetch(new URL('/metrics', health))).text());
  };
  const runs = async (seller: string) =>
    valueOf(await metrics(), 'seller_mirror_runs_total', {
      ...{ seller, kind: 'items', state: 'succeeded' },
    });
  expect([await runs('first'), await runs('second')]).toEqual([1, undefined]);
  writeFileSync(path, both.slice(0, -1));
  await until(() => logged(/^SELLERS_FILE was not read again/).length > 0);
  writeFileSync(path, both);
  await until(() => logged(/^SELLERS_FILE has changed$/).length > 0);
  await mirrored('second');
  expect(logged(/^SELLERS_FILE was not read again/)).toHaveLength(1);
  expect(logged(/^SELLERS_FILE has changed$/)).toMatchObject([{ added: ['second'], removed: [] }]);
  // Metrics are reused for some seconds.
  await until(async () => (await runs('second')) === 1);
  expect(await runs('first')).toBe(1);
  service.process.kill('SIGTERM');
  expect((await service.ended).code).toBe(0);
});
