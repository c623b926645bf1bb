import { describe, expect, it } from 'vitest';
import { readSellerStatuses } from '../../src/catalogue/status-store.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { openDb, assertWritable } from '../../src/db/db.js';
import { useMirror } from '../support/mirror.js';

describe('the status of sellers', () => {
  const mirror = useMirror();

  /** Inserts runs with this kind, state and end, in the order of their ids. */
  async function insertRuns(sellerId: string, runs: readonly (readonly string[])[]): Promise<void> {
    for (const [kind, state, finishedAt] of runs) {
      await mirror().pool.query(
        `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
         VALUES ($1, $2, $3, 'a test', $4)`,
        [sellerId, kind, state, finishedAt ?? null],
      );
    }
  }

  it('includes sellers that were never mirrored', async () => {
    expect(await readSellerStatuses(mirror().db)).toEqual([]);
    await ensureSeller(mirror().db, 'main', 'market.example');
    const [fresh] = await readSellerStatuses(mirror().db);
    expect(fresh).toEqual({
      sellerId: 'main',
      marketplace: 'market.example',
      knownSince: expect.any(Date) as Date,
      account: null,
      items: { live: 0, missing: 0, removed: 0 },
      quarantined: 0,
      accountMirroredAt: null,
      itemsMirroredAt: null,
      parked: null,
      running: null,
      lastProblem: null,
      held: null,
      unreadable: 0,
      lastWide: null,
    });
  });

  it('counts held runs as current copies, but not failed or running ones', async () => {
    const { db } = mirror();
    for (const name of ['b', 'a']) await ensureSeller(db, name, 'market.example');
    await insertRuns('a', [
      ['account', 'succeeded', '2026-01-01T00:00:00Z'],
      ['items', 'succeeded', '2026-01-01T01:00:00Z'],
      ['items', 'held', '2026-01-02T01:00:00Z'],
      ['items', 'failed', '2026-01-03T01:00:00Z'],
      ['item', 'succeeded', '2026-01-04T01:00:00Z'],
      ['account', 'running'],
    ]);
    await insertRuns('b', [['items', 'interrupted', '2026-01-05T01:00:00Z']]);
    await mirror().pool.query(`UPDATE mirror.sellers SET parked_at = now() WHERE seller_id = 'b'`);
    expect(await readSellerStatuses(db)).toMatchObject([
      {
        sellerId: 'a',
        accountMirroredAt: new Date('2026-01-01T00:00:00Z'),
        itemsMirroredAt: new Date('2026-01-02T01:00:00Z'),
        parked: null,
        lastProblem: { kind: 'account', state: 'interrupted' },
      },
      {
        sellerId: 'b',
        accountMirroredAt: null,
        itemsMirroredAt: null,
        parked: { since: expect.any(Date) as Date },
      },
    ]);
  });

  it('is preceded by a ping that refuses a read-only database, such as a standby', async () => {
    await expect(assertWritable(mirror().db)).resolves.toBeUndefined();
    const url = new URL(mirror().databaseUrl);
    url.searchParams.set('options', '-c default_transaction_read_only=on');
    const db = openDb(url.href, 'test');
    await expect(assertWritable(db)).rejects.toMatchObject({ code: 'STORE_READ_ONLY' });
    await db.close();
  });
});
