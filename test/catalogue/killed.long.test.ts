import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { seededCatalogue } from '../../src/simulator/index.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';

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
  for (const part of [0.2, 0.5, 0.8]) {
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
