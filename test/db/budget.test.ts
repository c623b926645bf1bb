import { describe, expect, it } from 'vitest';
import {
  codesMarket,
  codesOf,
  fileWith,
  marketOf,
  run,
  start,
  twoSellers,
} from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';

const mirror = useMirror();

describe('the request budget of a marketplace', () => {
  it('is shared: two processes together send no faster than one may', async () => {
    const { sim } = await marketOf(mirror());
    const env = { ...twoSellers(mirror().databaseUrl, sim.url), REQUESTS_PER_MINUTE: '100' };
    const both = ['first', 'second'].map((name) => start(['sync', '--seller', name], env).ended);
    expect((await Promise.all(both)).map(({ code }) => code)).toEqual([0, 0]);
    const times = sim.log.map(({ at }) => at);
    expect(times.length).toBeGreaterThan(3);
    const spentMs = Math.max(...times) - Math.min(...times);
    // 600 ms between two requests. The first may have been on its way for a while.
    expect(spentMs).toBeGreaterThan((times.length - 1) * 600 - 300);
  });

  it.each([
    ['a slot', '60', `next_at = now() + interval '5 hours'`],
    ['a waiting run', '60', `urgent_until = now() + interval '5 hours'`],
    ...['60', '0'].map((limit) => [
      'a pause',
      limit,
      `paused_until = now() + interval '6 hours', paused_at = now() + interval '5 hours'`,
    ]),
    ['a pause of 30 days', '60', `paused_until = now() + interval '30 days'`],
  ])(
    'goes on at once after a clock was ahead during one request, which recorded %s (%s a minute)',
    async (_what, REQUESTS_PER_MINUTE, recorded = '') => {
      const { sim, env } = await marketOf(mirror(), 2);
      await mirror().rows(
        `INSERT INTO mirror.request_budgets (host, next_at, paused_until, urgent_until)
         VALUES ($1, now(), 'epoch', 'epoch')`,
        [new URL(sim.url).host],
      );
      await mirror().rows(`UPDATE mirror.request_budgets SET ${recorded}`);
      const ended = await run(['sync', 'account'], { ...env, REQUESTS_PER_MINUTE });
      expect(ended).toMatchObject({ code: 0, stderr: '' });
    },
  );

  it.each(['60', '0'])(
    'is paused for all processes when the marketplace asks one for a pause (%s a minute)',
    async (REQUESTS_PER_MINUTE) => {
      const { sim, env } = await marketOf(mirror(), 2);
      sim.faults.next('account', { kind: 'rate-limited', retryAfter: 3_600 });
      const settings = { ...env, REQUESTS_PER_MINUTE };
      await run(['sync', 'account'], settings);
      const sent = sim.log.length;
      const second = await run(['sync', 'account'], settings);
      expect(second.stdout + second.stderr).toContain('it takes requests again at');
      expect(second.code).toBe(1);
      expect(sim.log).toHaveLength(sent);
    },
  );

  it('serves a sync before a check of codes that has waited longer', async () => {
    const market = await codesMarket(mirror());
    const env = {
      DATABASE_URL: mirror().databaseUrl,
      MARKETPLACE_URL: market.url,
      MARKETPLACE_API_KEY: 'k3y-0123456789abcdef0123456789abcdef',
      // Two seconds between requests: on a busy machine, too, a sync asks again before the next slot.
      REQUESTS_PER_MINUTE: '30',
    };
    const list = fileWith(codesOf(market, 60).join('\n'), 'txt');
    const check = start(['codes', 'check', list, '--yes'], env);
    await until(() => market.log.filter(({ operation }) => operation === 'validate').length > 1);
    const before = market.log.length;
    expect((await start(['sync'], env).ended).code).toBe(0);
    check.process.kill('SIGKILL');
    const asked = market.log.slice(before).map(({ operation }) => operation);
    const isOfSync = (operation: string | null): boolean => operation !== 'validate';
    const between = asked.slice(asked.findIndex(isOfSync), asked.findLastIndex(isOfSync));
    expect(between.filter(isOfSync)).not.toEqual([]);
    // One request of the check may have taken its slot before.
    expect(between.filter((operation) => !isOfSync(operation)).length).toBeLessThan(2);
  });
});

describe('the count of requests', () => {
  it('is kept in slots of five minutes for a day', async () => {
    const { sim, env } = await marketOf(mirror(), 2);
    await run(['sync', 'account'], env);
    const counted = () =>
      mirror().rows(`SELECT sum(requests)::int AS n FROM mirror.request_counts`);
    await until(async () => (await counted())[0]?.['n'] === sim.log.length);
    await mirror().rows(
      `UPDATE mirror.request_counts SET slot = now() - interval '25 hours', requests = 99`,
    );
    sim.log.length = 0;
    await run(['sync', 'account'], env);
    await until(async () => (await counted())[0]?.['n'] === sim.log.length);
  });
});
