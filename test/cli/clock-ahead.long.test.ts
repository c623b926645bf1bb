import { describe, expect, it } from 'vitest';
import { createClock, startServerWith } from '../support/faked-clock.js';
import { useMirror } from '../support/mirror.js';
import { query } from '../support/query.js';
import { until } from '../support/until.js';
import { stop, worldOf } from './clock-support.js';
import { codesOf, run, start } from './support.js';

const HOUR_MS = 3_600_000;
const MONTH_MS = 30 * 24 * HOUR_MS;

/** Programs see a new time within a second. */
async function untilRight(url: string): Promise<void> {
  await until(async () => {
    const [row] = await query(url, 'SELECT now() AS now');
    return Math.abs(Number(row?.['now']) - Date.now()) < 10_000;
  });
}

describe('a clock that was a month ahead for a while', () => {
  it.each(['is restarted', 'goes on'])(
    'costs no night: a service that %s mirrors as soon as the clock is right',
    async (how) => {
      const clock = await createClock();
      const url = await startServerWith(clock);
      const { env, alerts, mirrored } = await worldOf(url);
      const wrong = { ...env, ...clock.env, SYNC_CRON: '*/10 * * * * *' };
      await clock.set(MONTH_MS);
      let service = start(['run'], wrong);
      await until(async () => (await mirrored(Date.now() + MONTH_MS / 2)).length >= 3);
      if (how === 'is restarted') await stop(service);
      await clock.set(0);
      const rightAt = Date.now();
      await untilRight(url);
      if (how === 'is restarted') {
        const status = await run(['status', '--check'], env);
        expect(status.code).toBe(1);
        expect(status.stdout).toMatch(/in the future, so it is not believed/);
        const doctor = await run(['doctor'], env);
        expect(doctor.stdout).toMatch(/in the future, so it is not believed/);
        service = start(['run'], wrong);
      }
      await until(async () => {
        return new Set(await mirrored(rightAt - 5_000, rightAt + HOUR_MS)).size >= 3;
      });
      // A run at the right time comes first where the service goes on, so there is nothing to tell.
      if (how === 'is restarted') await until(() => alerts().includes('clock.ahead'));
      await stop(service);
      const after = await run(['status', '--check'], env);
      expect(after.code, after.stdout).toBe(0);
    },
  );

  it('keeps no request waiting: neither slots nor pauses of that time are believed', async () => {
    const clock = await createClock();
    const url = await startServerWith(clock);
    const { sim, env } = await worldOf(url);
    const limited = { ...env, REQUESTS_PER_MINUTE: '600' };
    await clock.set(5 * HOUR_MS);
    const wrong = { ...limited, ...clock.env };
    expect((await run(['sync'], wrong, { spawned: true })).code).toBe(0);
    sim.faults.next('account', { kind: 'rate-limited', retryAfter: 7_200 });
    expect((await run(['sync', 'account'], wrong, { spawned: true })).code).toBe(1);
    await clock.set(0);
    await untilRight(url);
    sim.faults.clear();
    for (const args of [['sync'], ['codes', 'check', codesOf(sim, 1)[0] ?? ''], ['doctor']]) {
      const { code, stdout, stderr } = await run(args, limited);
      expect(code, `${args.join(' ')}: ${stdout}${stderr}`).toBe(0);
    }
  });
});

const mirror = useMirror();

describe('a machine whose clock is a month ahead of the database’s', () => {
  it('goes by the database’s: retries are soon, and receivers accept the signatures of alerts', async () => {
    const clock = await createClock();
    await clock.set(MONTH_MS);
    const { sim, env, alerts } = await worldOf(mirror().databaseUrl);
    sim.faults.next('account', { kind: 'rate-limited', retryAfter: 1_200 });
    const service = start(['run'], { ...env, ...clock.env, SYNC_CRON: '0 2 * * *' });
    const lastRun = async () => {
      const [last] = await mirror().rows(
        `SELECT state, extract(epoch FROM retry_at - now())::int AS again, started_at <= now() AS is_past
           FROM mirror.runs ORDER BY run_id DESC LIMIT 1`,
      );
      return last;
    };
    await until(async () => (await lastRun())?.['state'] === 'failed');
    const run = await lastRun();
    expect(run).toMatchObject({ is_past: true });
    expect(run?.['again']).toBeGreaterThan(1_100);
    expect(run?.['again']).toBeLessThan(1_500);
    expect(service.stdout()).toMatch(/clock is 30 d.* ahead of the database/);
    sim.faults.always('account', { kind: 'key-refused' });
    await mirror().rows('TRUNCATE mirror.request_budgets, bullmq.job CASCADE');
    await mirror().rows('UPDATE mirror.runs SET retry_at = now()');
    await until(() => alerts().includes('seller.parked'));
    await stop(service);
  });
});
