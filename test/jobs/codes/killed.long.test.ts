import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { adding } from '../../../src/app/watches.js';
import { enqueueNext } from '../../../src/jobs/codes/perform-chunk.js';
import { diceOf } from '../../domain/codes/support.js';
import { SHORT } from '../../queue/support.js';
import { postgresTrialAt } from '../../queue/trial.js';
import { KEY, useMirror } from '../../support/mirror.js';
import { auditVerdicts, enter, progress } from './audit.js';
import { listOf, openShop, truthOf } from './support.js';

const mirror = useMirror();
const DIST = new URL('../../../dist/', import.meta.url).href;
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const CALLS = 4;
const CHUNKS = 2;

/** A worker of chunks as the product wires it, but for pauses, which it cuts short. */
const SCRIPT = `
  const [dist, url, databaseUrl, key, tuning] = process.argv.slice(1);
  const from = (path) => import(dist + path);
  const { openQueues } = await from('queue/queues.js');
  const { openStore } = await from('store/store.js');
  const { createMarketplace } = await from('marketplace/client.js');
  const { unlimitedBudget } = await from('marketplace/budget.js');
  const { Secret } = await from('domain/secret.js');
  const { performAuditChunk } = await from('jobs/codes/perform-chunk.js');
  const { adding } = await from('app/watches.js');
  const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
  const store = openStore(databaseUrl, 'a worker');
  const queues = await openQueues({
    target: null, databaseUrl, prefix: 'p', keepJobsDays: 1, applicationName: 'a worker', log,
    tuning: { ...JSON.parse(tuning), backoff: () => 20 },
  });
  const retry = { attempts: 2, baseMs: 1, maxMs: 20 };
  const marketplace = createMarketplace({
    baseUrl: new URL(url), key: new Secret(key), budget: unlimitedBudget, retry,
  });
  const deps = {
    store, marketplace, sellerId: 'main', callCount: () => 0, concurrency: ${CALLS}, spacingMs: 0,
    carried: new Map(), lookAfterMs: 0, enqueueChunk: adding(queues, 'main'),
  };
  queues.work('audits', async ({ auditId, chunk }, { signal }) => {
    const job = { auditId: BigInt(auditId), chunk, isLastAttempt: false };
    const outcome = await performAuditChunk(deps, job, signal);
    return outcome.kind === 'later' ? { ...outcome, delayMs: 20 } : outcome;
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

it('workers killed at any moment lose no code, settle none twice, and have little asked again', async () => {
  const shop = await openShop();
  const codes = listOf(shop, 1_200, 6);
  const auditId = await enter(mirror(), shop.marketplace.host, codes, { chunkSize: 100 });
  const queues = await postgresTrialAt(mirror().databaseUrl).open();
  await enqueueNext(mirror().store, auditId, adding(queues, 'main'));
  // As slow as over a network, so that there is something to kill.
  shop.sim.faults.always('any', { kind: 'stall', ms: 50 });
  const dice = diceOf(4);
  let kills = 0;
  while ((await progress(mirror(), auditId)).state === 'running') {
    const worker = startWorker(shop.sim.url);
    await once(worker.stdout ?? worker, 'data');
    const asked = shop.sim.requestCount;
    const least = 20 + Math.floor(dice() * 200);
    const isDone = async (): Promise<boolean> =>
      shop.sim.requestCount - asked > least ||
      (await progress(mirror(), auditId)).state !== 'running';
    while (!(await isDone())) await sleep(10);
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
      .reduce((sum, code) => sum + Math.max(0, shop.timesAsked(code) - 1), 0);
  // Those under way, and the answers of some tenth of a second that were still to be written.
  expect(again('valid')).toBeLessThanOrEqual(kills * CHUNKS * CALLS * 5);
  // Those whose proof was still to come, too.
  expect(again('invalid')).toBeLessThanOrEqual(kills * CHUNKS * 50);
});
