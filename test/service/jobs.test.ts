import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { seededCatalogue } from '../../src/simulator/index.js';
import { folder, marketOf, run } from '../cli/support.js';
import { startServer, type Answer } from '../support/http-server.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { dailyCron, runsOf, startJobs, untilRuns, useServices } from './support.js';

const mirror = useMirror();
// After `useMirror`, because what is registered last is called first.
useServices();
const market = () => marketOf(mirror(), 5);

/** Asks for runs, as a person does: the request is a row, and nothing tells a worker of it. */
async function ask(env: Readonly<Record<string, string>>, ...what: string[]): Promise<void> {
  expect((await run(['sync', ...what, '--queue'], env)).code).toBe(0);
  await mirror().rows('TRUNCATE bullmq.job CASCADE');
}

/** Pauses the seller, as people do on its page. */
async function pause(): Promise<void> {
  await mirror().rows(
    `UPDATE mirror.sellers SET parked_at = now(), parked_code = 'paused', parked_reason = 'paused by ada'`,
  );
}

/** Moves what was done into the past or the future, as if it had been recorded by such a clock. */
async function moveRuns(by: string): Promise<void> {
  await mirror().rows(
    `UPDATE mirror.runs SET started_at = started_at + $1::interval, finished_at = finished_at + $1::interval,
            due_at = due_at + $1::interval, retry_at = retry_at + $1::interval`,
    [by],
  );
  await mirror().rows(
    `UPDATE mirror.sellers SET created_at = least(created_at, created_at + $1::interval)`,
    [by],
  );
}

const DONE = ['account succeeded', 'items succeeded'];

const SECRET = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;

/** A receiver of alerts. */
async function receiver(script: (index: number) => Answer = () => ({ status: 204 })) {
  const server = await startServer((_, index) => script(index));
  const env = {
    ALERT_WEBHOOK_URL: server.url.href,
    ALERT_WEBHOOK_SECRET: SECRET,
    ALLOW_PLAIN_HTTP: 'true',
  };
  const received = () =>
    server.requests.map(({ body, headers }) => {
      return new Verifier(SECRET).verify(body, headers) as {
        readonly type: string;
        readonly data: Record<string, unknown>;
      };
    });
  return { env, received, server };
}

describe('schedules', () => {
  it('mirror a new seller at once, nothing more after a restart, and catch up with downtime by one run', async () => {
    const { sim, env } = await market();
    const first = await startJobs(mirror(), sim.url);
    const [account, items] = await untilRuns(mirror(), ...DONE);
    expect(items?.['due_at']).toEqual(account?.['due_at']);
    await first.stop();
    // The look that finds what a person asked for finds nothing else that is due.
    await ask(env, 'account');
    const second = await startJobs(mirror(), sim.url);
    const asked = await untilRuns(mirror(), ...DONE, 'account succeeded');
    expect(asked[2]?.['asked_by']).not.toBeNull();
    await second.stop();
    await moveRuns('-5 days');
    await startJobs(mirror(), sim.url);
    const runs = await untilRuns(mirror(), ...DONE, 'account succeeded', ...DONE);
    const [earlier, later] = [runs[1]?.['due_at'], runs[4]?.['due_at']] as Date[];
    expect(later?.getTime()).toBe((earlier?.getTime() ?? 0) + 5 * 86_400_000);
  });

  it('go on after a clock was a month ahead: what was recorded then is not believed, which is told once', async () => {
    const { sim, env } = await market();
    const alerts = await receiver();
    const first = await startJobs(mirror(), sim.url);
    await untilRuns(mirror(), ...DONE);
    await first.stop();
    await moveRuns('30 days');
    const before = await run(['status', '--check'], env);
    expect(before.code).toBe(1);
    expect(before.stdout).toMatch(/in the future, so it is not believed/);
    await startJobs(mirror(), sim.url, alerts.env);
    await untilRuns(mirror(), ...DONE, ...DONE);
    const after = await run(['status', '--check'], env);
    expect(after.code, after.stdout).toBe(0);
    await until(() => alerts.received().length > 0);
    expect(alerts.received()).toMatchObject([{ type: 'clock.ahead', data: { seller: 'main' } }]);
  });
});

describe('a marketplace whose answers take for ever', () => {
  it('has half of a worker’s slots, so that sellers of another one are mirrored meanwhile', async () => {
    const catalogue = seededCatalogue({ seed: 7, count: 5 });
    const sellers = [{ key: KEY, username: 'ada', catalogue }];
    const [slow, quick] = [
      await mirror().simulate({ sellers }),
      await mirror().simulate({ sellers }),
    ];
    slow.faults.always('account', { kind: 'stall', ms: 600_000 });
    const names = ['s1', 's2', 's3', 's4', 's5', 'quick'];
    const file = join(folder(), 'sellers.json');
    const entries = names.map((name) => {
      return { name, url: (name === 'quick' ? quick : slow).url, keyEnv: 'KEY' };
    });
    writeFileSync(file, JSON.stringify({ sellers: entries }));
    const env = { SELLERS_FILE: file, KEY, MARKETPLACE_URL: '', MARKETPLACE_API_KEY: '' };
    const more = { ...env, SYNC_CRON: 'off', WORKER_CONCURRENCY: '4', SHUTDOWN_TIMEOUT: '0' };
    const { queues } = await startJobs(mirror(), slow.url, more, { scheduler: false });
    const own = { ...more, DATABASE_URL: mirror().databaseUrl };
    const ask = async (seller: string): Promise<void> => {
      expect((await run(['sync', 'account', '--seller', seller, '--queue'], own)).code).toBe(0);
    };
    const stateOf = async (state: string): Promise<number> =>
      (await runsOf(mirror())).filter((run) => run.state === state).length;
    for (const name of names.slice(0, -1)) await ask(name);
    await until(async () => (await queues.counts()).mirror.delayed === 3);
    await ask('quick');
    await until(async () => (await stateOf('succeeded')) === 1);
    expect(await stateOf('running')).toBe(2);
  });
});

describe('a run that failed temporarily', () => {
  it('says when it is tried again, and is then, even if the queue has lost its job', async () => {
    const { sim } = await market();
    sim.faults.always('account', { kind: 'rate-limited', retryAfter: 1_200 });
    const first = await startJobs(mirror(), sim.url);
    const [run] = await untilRuns(mirror(), 'account failed');
    const retryAt = run?.['retry_at'] as Date;
    expect(retryAt.getTime() - Date.now()).toBeGreaterThan(1_100_000);
    await first.stop();
    sim.faults.clear();
    await mirror().rows('TRUNCATE mirror.request_budgets');
    await mirror().rows('TRUNCATE bullmq.job CASCADE');
    const early = await startJobs(mirror(), sim.url);
    await until(async () => (await early.queues.counts()).mirror.waiting === 0);
    await early.stop();
    expect(await runsOf(mirror())).toHaveLength(1);
    await mirror().rows(`UPDATE mirror.runs SET retry_at = now()`);
    await startJobs(mirror(), sim.url);
    const runs = await untilRuns(mirror(), 'account failed', ...DONE);
    expect(runs[1]?.['due_at']).toEqual(run?.['due_at']);
  });
});

describe('a run that a person asks for', () => {
  it('stands in the store, so that a worker performs it without a hint, and says who asked', async () => {
    const { sim, env } = await market();
    await ask(env);
    // Asked again before anybody has begun, it is the same request.
    await ask(env);
    expect((await runsOf(mirror())).map(({ state }) => state)).toEqual(['asked', 'asked']);
    const first = await startJobs(mirror(), sim.url, {}, { scheduler: false });
    const runs = await untilRuns(mirror(), ...DONE);
    const [who] = runs.map((one) => one['asked_by']);
    expect(who).toMatch(/\w/);
    expect(runs.map((one) => one['asked_by'])).toEqual([who, who]);
    // Also one item of a seller that schedules leave alone.
    await first.stop();
    await pause();
    await ask(env, 'item', '1002');
    await startJobs(mirror(), sim.url, {}, { scheduler: false });
    await untilRuns(mirror(), ...DONE, 'item succeeded');
  });

  it('is dropped with what an earlier part could not do for good', async () => {
    const { sim, env } = await market();
    sim.faults.always('account', { kind: 'key-refused' });
    await ask(env);
    await startJobs(mirror(), sim.url, { SYNC_CRON: 'off' });
    await untilRuns(mirror(), 'account failed');
  });
});

describe('an alert', () => {
  it('tells each change of the balance with the amounts of that change, however late it is sent', async () => {
    const { sim, env: marketEnv } = await market();
    let isDown = true;
    const { env, received } = await receiver(() => ({ status: isDown ? 500 : 204 }));
    const watched = { ...env, ACCOUNT_CRON: dailyCron(40) };
    const balanceAlerts = () =>
      mirror().rows(`SELECT outcome FROM mirror.alerts WHERE type = 'balance.changed'`);
    const cents = [160_000, 170_000, 165_000];
    for (const [n, balanceCents] of cents.entries()) {
      Object.assign(sim.seller(KEY).account, { balanceCents });
      if (n > 0) await moveRuns('-10 minutes');
      await ask(marketEnv, 'account');
      const service = await startJobs(mirror(), sim.url, watched, { scheduler: false });
      await untilRuns(mirror(), ...cents.slice(0, n + 1).map(() => 'account succeeded'));
      await until(async () => (await balanceAlerts()).length >= n);
      await service.stop();
    }
    isDown = false;
    await mirror().rows('UPDATE mirror.alerts SET retry_at = NULL; TRUNCATE bullmq.job CASCADE');
    await startJobs(mirror(), sim.url, { ...watched, SYNC_CRON: 'off' });
    await until(async () => (await balanceAlerts()).every(({ outcome }) => outcome === 'sent'));
    const told = received().map(
      ({ data }) => `${String(data['oldBalance'])} ${String(data['balance'])}`,
    );
    expect(new Set(told)).toEqual(new Set(['1600.00 1700.00', '1700.00 1650.00']));
  });

  it('names a field that items did not have before, once', async () => {
    const { sim, catalogue } = await market();
    const { env, received } = await receiver();
    const sync = async (nights: number): Promise<void> => {
      await moveRuns('-1 day');
      const service = await startJobs(mirror(), sim.url, env);
      await untilRuns(mirror(), ...Array.from({ length: nights }, () => DONE).flat());
      await until(async () => (await service.queues.counts()).mirror.active === 0);
      await service.stop();
    };
    await sync(1);
    for (const { id } of [...catalogue.truth()].slice(0, 3)) {
      catalogue.change(id, { extra: { sale_badge: true } });
    }
    await sync(2);
    await sync(3);
    await startJobs(mirror(), sim.url, env);
    await until(() => received().length > 0);
    expect(received()).toMatchObject([{ type: 'fields.new', data: { field: 'sale_badge' } }]);
  });
});
