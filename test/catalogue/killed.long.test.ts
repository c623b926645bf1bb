import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { seededCatalogue } from '../../src/simulator/index.js';
import { diceOf } from '../codes/dice.js';
import { SHORT, testQueue } from '../service/queue/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { auditVerdicts, enter, listOf, openShop, progress, truthOf } from '../codes/support.js';

const mirror = useMirror();
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

function startSync(url: string): ChildProcess {
  return spawn(process.execPath, [MAIN, 'sync', 'items'], {
    // A folder without .env.
    cwd: tmpdir(),
    stdio: 'ignore',
    env: {
      PATH: process.env['PATH'],
      MARKETPLACE_URL: url,
      MARKETPLACE_API_KEY: KEY,
      DATABASE_URL: mirror().databaseUrl,
      REQUESTS_PER_MINUTE: '0',
    },
  });
}

it('kill -9 at any moment leaves the old catalogue or the new one, and the next run finishes', async () => {
  const catalogue = seededCatalogue({ seed: 7, count: 2_000 });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  sim.faults.always('list', { kind: 'slow', chunkBytes: 64 * 1024, pauseMs: 5 });
  const prices = async (): Promise<string> =>
    (
      await mirror().rows<{ md5: string }>(
        `SELECT coalesce(md5(string_agg(item_id || ':' || price_regular, ',' ORDER BY item_id)), 'none') AS md5 FROM mirror.items`,
      )
    )[0]?.md5 ?? '';
  const finish = async (): Promise<string> => {
    // The killed run's lock ends with its connection, which the server may notice a little later.
    for (;;) {
      const [code] = (await once(startSync(sim.url), 'exit')) as [number | null];
      if (code === 0) return prices();
    }
  };
  let before = await prices();
  for (const part of [0.1, 0.3, 0.5, 0.7, 0.9]) {
    catalogue.touchShare(100, 'price');
    const requests = sim.log.length;
    const sync = startSync(sim.url);
    await until(() => sim.log.length >= requests + 2);
    // The list takes about 35 pauses of 5 ms; writing takes longer.
    await sleep(part * 400);
    sync.kill('SIGKILL');
    await once(sync, 'exit');
    const left = await prices();
    const after = await finish();
    expect([before, after]).toContain(left);
    expect(after).not.toBe(before);
    before = after;
  }
  const [item] = [...catalogue.truth()];
  const [row] = await mirror().rows(
    `SELECT price_regular FROM mirror.items WHERE item_id = ${item?.id ?? 0}`,
  );
  expect(row).toEqual({ price_regular: ((item?.priceRegularCents ?? 0) / 100).toFixed(2) });
});

const DIST = new URL('../../dist/', import.meta.url).href;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const CALLS = 4;
const CHUNKS = 2;

/** A worker for audits, wired as in the product but with short pauses. */
const SCRIPT = `
  const [dist, url, databaseUrl, key, times] = process.argv.slice(1);
  const from = (path) => import(dist + path);
  const { openQueues } = await from('service/queue/queues.js');
  const { openDb } = await from('db/db.js');
  const { createMarketplace } = await from('marketplace/client.js');
  const { unlimitedBudget } = await from('marketplace/budget.js');
  const { Secret } = await from('domain/secret.js');
  const { performCheck } = await from('codes/check.js');
  const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
  const db = openDb(databaseUrl, 'a worker');
  const queues = await openQueues({
    target: null, databaseUrl, prefix: 'p', keepJobsDays: 1, applicationName: 'a worker', log,
    times: JSON.parse(times),
  });
  const retry = { attempts: 2, baseMs: 1, maxMs: 20 };
  const marketplace = createMarketplace({
    baseUrl: new URL(url), key: new Secret(key), budget: unlimitedBudget, retry,
  });
  const deps = {
    db, marketplace, sellerId: 'main', callCount: () => 0, concurrency: ${CALLS}, spacingMs: 0,
  };
  queues.work('audits', async ({ auditId }, { signal }) => {
    const job = { auditId: BigInt(auditId), isLastAttempt: false };
    const outcome = await performCheck(deps, job, signal);
    if (outcome.kind === 'retry') return { kind: 'later', reason: outcome.problem, delayMs: 20 };
    return outcome.kind === 'later' ? { ...outcome, delayMs: Math.min(20, outcome.delayMs) } : outcome;
  }, { concurrency: ${CHUNKS} });
  console.log('works');
`;

function startWorker(url: string): ChildProcess {
  const { databaseUrl } = mirror();
  const given = [DIST, url, databaseUrl, KEY, JSON.stringify(SHORT)];
  const args = ['--input-type=module', '-e', SCRIPT, '--', ...given];
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

it('workers killed at any moment lose no code, settle none twice and repeat few calls', async () => {
  const shop = await openShop();
  const codes = listOf(shop, 1_200, 6);
  const auditId = await enter(mirror(), shop.marketplace.host, codes);
  const queues = await testQueue(null, mirror().databaseUrl).open();
  await queues.addAudit('main', auditId);
  // As slow as over a network, so that there is something to kill.
  shop.sim.faults.always('any', { kind: 'stall', ms: 50 });
  const dice = diceOf(4);
  let kills = 0;
  while ((await progress(mirror(), auditId)).state === 'running') {
    const worker = startWorker(shop.sim.url);
    await once(worker.stdout ?? worker, 'data');
    const asked = shop.sim.requestCount;
    const least = 20 + Math.floor(dice() * 200);
    await until(
      async () =>
        shop.sim.requestCount - asked > least ||
        (await progress(mirror(), auditId)).state !== 'running',
    );
    worker.kill('SIGKILL');
    await once(worker, 'exit');
    kills++;
  }
  expect(kills).toBeGreaterThan(5);
  expect(await auditVerdicts(mirror(), auditId)).toEqual(truthOf(shop, codes));
  const twice = await mirror().rows(
    `SELECT code_id FROM mirror.code_checks WHERE verdict <> 'unproven' GROUP BY 1 HAVING count(*) > 1`,
  );
  expect(twice).toEqual([]);
  const again = (verdict: string): number =>
    codes
      .filter((code) => shop.truth(code) === verdict)
      .reduce((sum, code) => sum + Math.max(0, shop.timesValidated(code) - 1), 0);
  // Calls under way, purchases since the last look at account details, and codes that prove the key.
  expect(again('valid')).toBeLessThanOrEqual(kills * CHUNKS * (CALLS + 50 + 10));
  // Also denials without a checkpoint after them yet.
  expect(again('invalid')).toBeLessThanOrEqual(kills * CHUNKS * 50);
});
