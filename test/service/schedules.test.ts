import { describe, expect, it } from 'vitest';
import { type TickRecord, recordTicks, readSchedules } from '../../src/store/schedules.js';
import { ensureSeller } from '../../src/store/sellers.js';
import { useMirror } from '../support/mirror.js';

const mirror = useMirror();

const at = (iso: string): Date => new Date(iso);
const NOW = at('2026-11-21T12:00:00Z');

function done(seller: string, lastTick: string, more: Partial<TickRecord> = {}): TickRecord {
  return {
    seller,
    kind: 'sync',
    marketplace: 'market.example',
    cron: '0 2 * * *',
    timeZone: 'Europe/Berlin',
    lastTick: at(lastTick),
    enqueuedAt: NOW,
    ...more,
  };
}

const record = (...ticks: TickRecord[]): Promise<void> => recordTicks(mirror().db, ticks, NOW);

async function recorded(seller: string): Promise<string | undefined> {
  const [state] = await readSchedules(mirror().db, [{ seller, kind: 'sync' }]);
  return state?.record?.lastTick.toISOString();
}

async function addRun(kind: string, state: string, startedAt: string): Promise<void> {
  await ensureSeller(mirror().db, 'acme', 'market.example');
  await mirror().rows(
    `INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at)
     VALUES ('acme', $1::mirror.run_kind, $2::mirror.run_state, 'a test', $3)`,
    [kind, state, startedAt],
  );
}

describe('recorded schedules', () => {
  it('are returned together with unknown ones, in the requested order', async () => {
    await record(done('acme', '2026-11-21T01:00:00Z'));
    const [other, account, sync] = [
      { seller: 'other', kind: 'sync' },
      { seller: 'acme', kind: 'account' },
      { seller: 'acme', kind: 'sync' },
    ] as const;
    const nothing = { record: null, enqueuedAt: null, lastRunAt: null };
    const lastTick = at('2026-11-21T01:00:00Z');
    const stored = { cron: '0 2 * * *', timeZone: 'Europe/Berlin', lastTick };
    expect(await readSchedules(mirror().db, [other, account, sync])).toEqual([
      { ...other, ...nothing },
      { ...account, ...nothing },
      { ...sync, record: stored, enqueuedAt: NOW, lastRunAt: null },
    ]);
  });

  it('add new sellers, and leave known ones unchanged', async () => {
    await ensureSeller(mirror().db, 'known', 'first.example');
    const account = { kind: 'account' } as const;
    await record(
      done('known', '2026-11-21T01:00:00Z'),
      done('fresh', '2026-11-21T01:00:00Z'),
      done('fresh', '2026-11-21T01:00:00Z', account),
    );
    const sellers = await mirror().rows(
      'SELECT seller_id, marketplace FROM mirror.sellers ORDER BY seller_id',
    );
    expect(sellers).toEqual([
      { seller_id: 'fresh', marketplace: 'market.example' },
      { seller_id: 'known', marketplace: 'first.example' },
    ]);
  });

  it('never go back because of a late scheduler', async () => {
    await record(done('acme', '2026-11-21T01:00:00Z'));
    await record(done('acme', '2026-11-20T01:00:00Z', { cron: '0 3 * * *' }));
    expect(await recorded('acme')).toBe('2026-11-21T01:00:00.000Z');
    await record(done('acme', '2026-11-21T11:00:00Z'));
    expect(await recorded('acme')).toBe('2026-11-21T11:00:00.000Z');
  });

  it('go back from a time that only a wrong clock can have caused', async () => {
    await record(done('acme', '2036-01-01T01:00:00Z'));
    await record(done('acme', '2026-11-21T01:00:00Z'));
    expect(await recorded('acme')).toBe('2026-11-21T01:00:00.000Z');
  });

  it('have the time at which a tick was last enqueued, not skipped', async () => {
    const skipped = { enqueuedAt: null };
    const tick = '2026-11-20T01:00:00Z';
    await record(done('never', tick, skipped), done('acme', tick));
    await record(done('acme', '2026-11-21T01:00:00Z', skipped));
    const rows = await mirror().rows(
      'SELECT seller_id, enqueued_at FROM mirror.schedules ORDER BY seller_id',
    );
    expect(rows).toEqual([
      { seller_id: 'acme', enqueued_at: NOW },
      { seller_id: 'never', enqueued_at: new Date(0) },
    ]);
  });

  it('have the start of the newest successful or held run of their kind', async () => {
    const account = { seller: 'acme', kind: 'account' } as const;
    const sync = { seller: 'acme', kind: 'sync' } as const;
    await addRun('items', 'succeeded', '2026-11-19T01:00:00Z');
    await addRun('items', 'held', '2026-11-20T01:00:00Z');
    await addRun('items', 'failed', '2026-11-21T01:00:00Z');
    await addRun('account', 'succeeded', '2026-11-21T02:00:00Z');
    await addRun('account', 'running', '2026-11-21T03:00:00Z');
    await addRun('item', 'succeeded', '2026-11-21T04:00:00Z');
    const states = await readSchedules(mirror().db, [sync, account]);
    expect(states.map(({ lastRunAt }) => lastRunAt?.toISOString())).toEqual([
      '2026-11-20T01:00:00.000Z',
      '2026-11-21T02:00:00.000Z',
    ]);
  });

  it('can be written by many schedulers at once', async () => {
    const sellers = Array.from({ length: 200 }, (_, n) => `seller-${n}`);
    const rows = sellers.map((seller) => done(seller, '2026-11-21T01:00:00Z'));
    await Promise.all([rows, rows.toReversed(), rows].map((batch) => record(...batch)));
    expect(await mirror().rows('SELECT count(*)::int AS n FROM mirror.schedules')).toEqual([
      { n: 200 },
    ]);
  });
});
