import { describe, expect, it } from 'vitest';
import { KEY, useMirror } from '../support/mirror.js';
import { marketOf, run, start, twoSellers, until } from './support.js';

const mirror = useMirror();

const market = (count = 40) => marketOf(mirror(), count);

const counted = (sql: string) => mirror().rows<{ number: string }>(sql);

describe('sync', () => {
  it('goes on with the other sellers when one is already being mirrored', async () => {
    const { sim } = await market();
    const env = twoSellers(mirror().databaseUrl, sim.url);
    const lock = await mirror().store.sellers.lock('first');
    try {
      const { code, stdout, stderr } = await run(['sync', '--json'], env);
      expect(stderr).toMatch(
        /^error: first: seller "first" is already being mirrored by .*\n {2}→ /,
      );
      expect(code).toBe(1);
      const told = JSON.parse(stdout) as {
        runs: { seller_id: string; state: string }[];
        problems: { seller_id: string }[];
      };
      expect(told.runs.map((one) => [one.seller_id, one.state])).toEqual([
        ['second', 'succeeded'],
        ['second', 'succeeded'],
      ]);
      expect(told.problems.map((one) => one.seller_id)).toEqual(['first']);
    } finally {
      await lock.release();
    }
  });

  it('is turned away while another process works, whose Ctrl-C ends it with 130 and changes nothing', async () => {
    const { sim, env } = await market();
    sim.faults.always('list', { kind: 'slow', chunkBytes: 100, pauseMs: 50 });
    const first = start(['sync'], env);
    await until(() =>
      sim.log.some(({ operation, bytesSent }) => operation === 'list' && bytesSent > 0),
    );

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
    'that is ended by %s while it checks missing items goes on with the others when it is run again',
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
      // 25 at a time, twice each, with an item between that is there.
      await until(() => asked().length > 53);
      first.process.kill(signal);
      const ended = await first.ended;
      if (signal === 'SIGINT') {
        expect(ended.stderr).toBe(
          "main · 25 of 30 missing items are checked; runs within an hour don't check them again\n" +
            'interrupted; nothing is left half done; run it again to continue\n',
        );
      }
      sim.faults.clear();
      const again = await run(['sync', 'items'], env);
      expect(again.stdout).toMatch(/the marketplace denies each of them/);
      for (let id = 1001; id <= 1025; id++) {
        expect(asked().filter((one) => one === String(id))).toHaveLength(2);
      }
    },
  );

  it('says how many missing items it checks, and about how long that takes', async () => {
    const { sim, env } = await market();
    expect((await run(['sync'], env)).code).toBe(0);
    for (let id = 1001; id <= 1012; id++) sim.seller(KEY).catalogue.remove(id);
    const limited = start(['sync', 'items'], { ...env, REQUESTS_PER_MINUTE: '60' });
    // Each is probably denied, and asked for twice; two more requests prove it.
    await until(() => limited.stderr().includes('main · checking 12 missing items, about 26 s\n'));
    limited.process.kill('SIGINT');
    expect((await limited.ended).code).toBe(130);
  });

  it('says in two lines what is wrong with the key or the address, and ends with 1', async () => {
    const { env } = await market();
    const refused = await run(['sync'], { ...env, MARKETPLACE_API_KEY: 'a wrong key' });
    expect(refused.code).toBe(1);
    expect(refused.stdout).toMatch(
      /^✗ main · account failed: .*refused the API key.*\n {2}→ .*\n$/,
    );
    const lost = await run(['sync'], { ...env, MARKETPLACE_URL: 'http://127.0.0.1:9' });
    expect(lost.code).toBe(1);
    expect(lost.stdout).toMatch(
      /^✗ main · account failed: 127\.0\.0\.1:9 can't be reached.*\n {2}→ .*\n$/,
    );
  });
});

describe('wrong usage', () => {
  it('of the database address ends with 1, and never shows its password', async () => {
    const ended = await run(['status'], { DATABASE_URL: 'postgres://ada:pa55word@127.0.0.1:9/x' });
    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'error: database x at 127.0.0.1:9: the connection was refused\n  → Check host and port in DATABASE_URL, and that the server runs and accepts connections from this machine.\n',
    });
  });
});
