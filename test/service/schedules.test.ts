import { describe, expect, it } from 'vitest';
import { listSchedules, schedulesWithoutRun, takeTurn } from '../../src/service/schedules-store.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { useMirror } from '../support/mirror.js';

const mirror = useMirror();

const schedule = { kind: 'sync', name: 'acme', cron: '0 2 * * *', timeZone: 'UTC' } as const;

describe('a turn', () => {
  it('writes and removes schedules, and rolls back if it fails', async () => {
    const { db } = mirror();
    const stored = { ...schedule, nextAt: new Date('2026-11-21T02:00:00Z'), lastAt: null };
    await takeTurn(db, () => Promise.resolve({ put: [stored], remove: [] }));
    expect(await listSchedules(db)).toEqual([stored]);
    const failing = takeTurn(db, () => Promise.reject(new Error('the queue is down')));
    await expect(failing).rejects.toThrow('the queue is down');
    await takeTurn(db, (stored) => Promise.resolve({ put: [], remove: stored }));
    expect(await listSchedules(db)).toEqual([]);
  });

  it('is one process’s at a time', async () => {
    const { db } = mirror();
    const nothing = { put: [], remove: [] };
    const turns: boolean[] = [];
    const hadTurn = await takeTurn(db, async () => {
      turns.push(await takeTurn(db, () => Promise.resolve(nothing)));
      return nothing;
    });
    expect([hadTurn, ...turns]).toEqual([true, false]);
    expect(await takeTurn(db, () => Promise.resolve(nothing))).toBe(true);
  });
});

describe('a job without a run', () => {
  it.each([
    ['none', 'succeeded', '2 hours', false],
    ['a good run before it', 'succeeded', '2 hours', true],
    ['a failed run after it', 'failed', '1 minute', true],
  ] as const)('is one that was followed by no good run: %s', async (_, state, ago, hasRun) => {
    const { db } = mirror();
    await ensureSeller(db, 'acme', 'market.example');
    const lastAt = new Date(Date.now() - 3_600_000);
    const put = [{ ...schedule, nextAt: new Date(), lastAt }];
    await takeTurn(db, () => Promise.resolve({ put, remove: [] }));
    const insert = (state: string, ago: string) =>
      mirror().rows(
        `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at)
         VALUES ('acme', 'items', $1::mirror.run_state, 'a test', now() - $2::interval)`,
        [state, ago],
      );
    if (hasRun) await insert(state, ago);
    expect(await schedulesWithoutRun(db, 7)).toHaveLength(1);
    expect(await schedulesWithoutRun(db, 0)).toHaveLength(0);
    await insert('held', '1 minute');
    expect(await schedulesWithoutRun(db, 7)).toHaveLength(0);
  });
});
