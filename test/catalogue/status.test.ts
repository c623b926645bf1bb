import { expect, it } from 'vitest';
import { printed } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';

const mirror = useMirror();

/** Stores a seller with runs of this kind, state and end, in the order of their ids. */
async function seller(name: string, runs: readonly (readonly string[])[]): Promise<void> {
  await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, 'm')`, [
    name,
  ]);
  for (const [kind, state, finishedAt] of runs) {
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
       VALUES ($1, $2, $3, 'a test', $4)`,
      [name, kind, state, finishedAt ?? null],
    );
  }
}

it('a held run makes a current copy, a failed or running one does not, and a run of one item says nothing', async () => {
  await seller('a', [
    ['account', 'succeeded', '2026-01-01T00:00:00Z'],
    ['items', 'succeeded', '2026-01-01T01:00:00Z'],
    ['items', 'held', '2026-01-02T01:00:00Z'],
    ['items', 'failed', '2026-01-03T01:00:00Z'],
    ['item', 'succeeded', '2026-01-04T01:00:00Z'],
    ['account', 'running'],
  ]);
  await seller('b', [['items', 'interrupted', '2026-01-05T01:00:00Z']]);
  await seller('c', []);
  const text = await printed(['status', '--json'], { DATABASE_URL: mirror().databaseUrl });
  expect(JSON.parse(text)).toMatchObject([
    {
      seller_id: 'a',
      account_mirrored_at: '2026-01-01T00:00:00.000Z',
      items_mirrored_at: '2026-01-02T01:00:00.000Z',
      // The process of the running run is gone: it holds no lock.
      last_problem: { kind: 'account', state: 'interrupted' },
      held: null,
    },
    { seller_id: 'b', items_mirrored_at: null, last_problem: { state: 'interrupted' } },
    { seller_id: 'c', verdict: 'never', last_problem: null },
  ]);
});
