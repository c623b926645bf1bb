import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/catalogue/account.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { never, useMirror } from '../support/mirror.js';
import { query } from '../support/postgres.js';
import { marketOf, run } from './support.js';

const mirror = useMirror();
const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

/** A mirror of a few items, and its settings. */
async function mirrored(): Promise<{ env: Readonly<Record<string, string>> }> {
  const { deps, sync, env } = await marketOf(mirror());
  await syncAccount(deps, never);
  await sync();
  return { env };
}

describe('prune', () => {
  it('shows what it would delete, then deletes it; without a setting it deletes nothing', async () => {
    const { env } = await mirrored();
    expect(await run(['prune'], env)).toMatchObject({
      code: 0,
      stdout: matching(/^Everything is kept forever/),
    });
    await query(
      mirror().databaseUrl,
      `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
       SELECT 'main', 'account', 'failed', '2020-01-01Z', '2020-01-01Z', 'a test' FROM generate_series(1, 3)`,
      `UPDATE mirror.runs SET run_id = -run_id WHERE state = 'failed'`,
    );
    const days = { ...env, KEEP_RUNS_DAYS: '90' };
    const dry = await run(['prune', '--dry-run'], days);
    expect(dry.stdout).toMatch(/^runs +\d{4}-.*Z +3 +\d+ B$/m);
    expect(dry.stdout).toMatch(/This would delete 3 rows, about \d+ B\. Nothing was deleted\.\n$/);
    expect((await run(['prune', '--json'], days)).stdout).toContain('"rows": 3');
    expect((await run(['prune'], days)).stdout).toBe('There is nothing to delete.\n');
  });

  it('with --seller deletes rows of that seller only, since others may keep theirs', async () => {
    const { env } = await mirrored();
    await ensureSeller(mirror().db, 'other', 'example.com');
    await query(
      mirror().databaseUrl,
      `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
       SELECT seller_id, 'account', 'failed', '2020-01-01Z', '2020-01-01Z', 'a test'
         FROM unnest(ARRAY['main', 'other']) AS s (seller_id), generate_series(1, 3)`,
      `UPDATE mirror.runs SET run_id = -run_id WHERE state = 'failed'`,
    );
    await run(['prune', '--seller', 'main'], { ...env, KEEP_RUNS_DAYS: '90' });
    const left = await mirror().rows(
      `SELECT seller_id, count(*)::int AS runs FROM mirror.runs WHERE run_id < 0 GROUP BY seller_id`,
    );
    // One of them is the other seller’s newest run, but two would be deleted without --seller.
    expect(left).toEqual([{ seller_id: 'other', runs: 3 }]);
  });
});
