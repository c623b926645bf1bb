import { describe, expect, it } from 'vitest';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { fileWith, marketOf, run, start, startSync, twoSellers } from './support.js';

const mirror = useMirror();

const market = (count = 40) => marketOf(mirror(), count);

const counted = (sql: string) => mirror().rows<{ number: string }>(sql);

describe('sync', () => {
  it('mirrors the other sellers when another process already mirrors one', async () => {
    const { sim } = await market();
    const env = twoSellers(mirror().databaseUrl, sim.url);
    const running = await startSync(sim, env, '--seller', 'first');
    sim.faults.clear();
    const { code, stdout, stderr } = await run(['sync', '--json'], env);
    running.process.kill('SIGKILL');
    expect(stderr).toMatch(/^error: first: seller "first" is already being mirrored by .*\n {2}→ /);
    expect(code).toBe(1);
    const report = JSON.parse(stdout) as {
      runs: { seller_id: string; state: string }[];
      problems: { seller_id: string }[];
    };
    expect(report.runs.map((one) => [one.seller_id, one.state])).toEqual([
      ['second', 'succeeded'],
      ['second', 'succeeded'],
    ]);
    expect(report.problems.map((one) => one.seller_id)).toEqual(['first']);
  });

  it('refuses a list that says it is one page of several, and changes nothing; LIST_MARKS=ignore takes it for whole', async () => {
    const { sim, env } = await market(3);
    expect((await run(['sync'], env)).code).toBe(0);
    const { items } = (await (await fetch(`${sim.url}/api/items/all?api_key=${KEY}`)).json()) as {
      items: readonly object[];
    };
    const body = JSON.stringify({
      status: 'success',
      data: { items: items.slice(1) },
      meta: { current_page: 1, last_page: 2 },
    });
    sim.faults.always('list', { kind: 'reply', status: 200, body });
    const live = `SELECT count(*) AS number FROM mirror.items WHERE state = 'live'`;
    const refused = await run(['sync', 'items'], env);
    expect(refused.stdout + refused.stderr).toMatch(
      /the list of 2 items says that it is only a part of all \(last_page: 2\).*\n.*the copy is unchanged.*LIST_MARKS=ignore/,
    );
    expect(refused.code).toBe(1);
    expect(await counted(live)).toEqual([{ number: '3' }]);
    expect((await run(['sync', 'items'], { ...env, LIST_MARKS: 'ignore' })).code).toBe(0);
  });

  it.each([['sync'], ['doctor'], ['codes', 'check', 'A-CODE-1'], ['codes', 'check', 'LIST']])(
    'says what is waited for, so that nobody takes it for a hang: %s',
    async (...args) => {
      const { sim, env } = await market(3);
      await mirror().rows(
        `INSERT INTO mirror.request_budgets (host, next_at, paused_until, urgent_until)
         VALUES ($1, now() + interval '50 s', 'epoch', 'epoch')`,
        [new URL(sim.url).host],
      );
      const list = fileWith('code\nA-CODE-1\nB-CODE-2');
      const command = start(
        args.map((arg) => (arg === 'LIST' ? list : arg)),
        { ...env, REQUESTS_PER_MINUTE: '60' },
      );
      await until(() => /waiting for the request budget, \d+ s/.test(command.stderr()));
      expect(sim.log).toEqual([]);
    },
  );

  it('continues with the other sellers when the reader of stdout goes away', async () => {
    const { sim } = await market();
    const running = start(['sync'], twoSellers(mirror().databaseUrl, sim.url));
    running.process.stdout.destroy();
    expect(await running.ended).toMatchObject({ code: 0, stderr: '' });
    expect(await counted('SELECT count(*) AS number FROM mirror.items')).toEqual([
      { number: '80' },
    ]);
  });

  it('refuses while another process mirrors the seller; Ctrl-C there exits with 130 and changes nothing', async () => {
    const { sim, env } = await market();
    const first = await startSync(sim, env);

    const second = await run(['sync', 'items'], env);
    expect(second.code).toBe(1);
    expect(second.stderr).toContain(
      `is already being mirrored by sync (process ${first.process.pid}`,
    );
    expect((await run(['status'], env)).stdout).toMatch(/^… main · running \(items/);

    first.process.kill('SIGINT');
    const ended = await first.ended;
    expect(ended.code).toBe(130);
    expect(ended.stderr).toBe('interrupted; nothing is left half done; run it again to continue\n');
    expect(await counted('SELECT count(*) AS number FROM mirror.items')).toEqual([{ number: '0' }]);
    expect(await mirror().rows(`SELECT state FROM mirror.runs WHERE kind = 'items'`)).toEqual([
      { state: 'interrupted' },
    ]);
  });

  it.each(['SIGINT', 'SIGKILL'] as const)(
    'continues with the remaining missing items after %s',
    async (signal) => {
      const { sim, env } = await market(60);
      expect((await run(['sync'], env)).code).toBe(0);
      for (let id = 1001; id <= 1030; id++) sim.seller(KEY).catalogue.remove(id);
      sim.faults.always('item', { kind: 'stall', ms: 20 });
      const asked = (): string[] =>
        sim.log.flatMap(({ operation, parameters }) =>
          operation === 'item' ? [parameters['item_id'] ?? ''] : [],
        );
      const first = start(['sync', 'items'], env);
      // Items are checked 25 at a time, with a present item before and after.
      await until(() => asked().length > 29);
      first.process.kill(signal);
      const ended = await first.ended;
      if (signal === 'SIGINT') {
        expect(ended.stderr).toBe(
          'main · 25 of 30 missing items are checked; runs within an hour don’t check them again\n' +
            'interrupted; nothing is left half done; run it again to continue\n',
        );
      }
      sim.faults.clear();
      const again = await run(['sync', 'items'], env);
      expect(again.stdout).toMatch(/the marketplace denies each of them/);
      for (let id = 1001; id <= 1025; id++) {
        expect(asked().filter((one) => one === String(id))).toHaveLength(1);
      }
    },
  );

  it('announces how many missing items it checks, and how long that takes', async () => {
    const { sim, env } = await market();
    expect((await run(['sync'], env)).code).toBe(0);
    for (let id = 1001; id <= 1012; id++) sim.seller(KEY).catalogue.remove(id);
    const limited = start(['sync', 'items'], { ...env, REQUESTS_PER_MINUTE: '60' });
    // Four more requests prove that the key is good, before and after.
    await until(() => limited.stderr().includes('main · checking 12 missing items, about 16 s\n'));
    limited.process.kill('SIGINT');
    expect((await limited.ended).code).toBe(130);
  });

  it.each([
    ['key', { MARKETPLACE_API_KEY: 'a wrong key' }, /refused the API key/],
    ['address', { MARKETPLACE_URL: 'http://127.0.0.1:9' }, /127\.0\.0\.1:9 can’t be reached/],
  ])('explains a wrong %s in two lines, and exits with 1', async (_, wrong, why) => {
    const { code, stdout } = await run(['sync'], { ...(await market()).env, ...wrong });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^✗ main · account failed: .*\n {2}→ .*\n$/);
    expect(stdout).toMatch(why);
  });
});
