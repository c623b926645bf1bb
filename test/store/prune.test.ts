import { describe, expect, it } from 'vitest';
import { keepsEverything, planRetention, type RetentionPlan } from '../../src/store/prune.js';
import { syncAccount } from '../../src/jobs/account.js';
import { syncCatalogue } from '../../src/jobs/sync-catalogue.js';
import { syncItem } from '../../src/jobs/sync-item.js';
import { seededCatalogue, type Simulator } from '../../src/simulator/index.js';
import { PRUNE_STEPS, PruneBusyError } from '../../src/store/prune.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

/** Far in the future, so that all there is is old. */
const LATER = new Date('2100-01-01T00:00:00Z');
const ALL: RetentionPlan = { raw: LATER, runs: LATER, versions: LATER, audits: LATER };
const NONE: RetentionPlan = { raw: null, runs: null, versions: null, audits: null };

async function market(count = 12): Promise<Simulator> {
  const catalogue = seededCatalogue({ seed: 3, count });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
}

async function rowsOf(what: string, plan = ALL): Promise<number> {
  const pruned = await mirror().store.prune(plan, { signal: never });
  return pruned.find((one) => one.what === what)?.rows ?? 0;
}

describe('records as received', () => {
  it('can go without an item that comes by itself, its media left out, seeming to have changed', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await syncAccount(deps, never);
    await syncCatalogue(deps, never);
    const before = await mirror().rows('SELECT * FROM reporting.items ORDER BY item_id');
    expect(await rowsOf('items as received')).toBe(12);
    expect(await rowsOf('items as received')).toBe(0);
    const { rows } = await mirror().pool.query<{ raw: object }>('SELECT raw FROM mirror.items');
    expect(rows.flatMap(({ raw }) => Object.keys(raw)).every((key) => key === 'media')).toBe(true);

    for (const item of before.slice(0, 4)) {
      expect((await syncItem(deps, Number(item['item_id']), never)).state).toBe('succeeded');
    }
    await syncAccount(deps, never);
    await syncCatalogue(deps, never);
    expect(await mirror().rows('SELECT * FROM mirror.item_changes')).toEqual([]);
    expect(await mirror().rows('SELECT * FROM mirror.account_versions')).toEqual([]);
    expect(await mirror().rows('SELECT * FROM reporting.items ORDER BY item_id')).toEqual(before);
  });

  it('that could not be read go when later lists no longer have them', async () => {
    const catalogue = seededCatalogue({ seed: 3, count: 12 });
    const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    const deps = mirror().deps(sim.url);
    catalogue.breakRecord(1003, '{"id":1003,"name":"x","price":"x"}');
    await syncCatalogue(deps, never);
    expect(await rowsOf('records that could not be read')).toBe(0);
    await mirror().pool.query(`UPDATE mirror.quarantine SET last_run_id = 0`);
    expect(await rowsOf('records that could not be read')).toBe(1);
  });

  it('of purchases can go without a follower of the feed being told of a change', async () => {
    const { store } = mirror();
    await store.sellers.ensure('main', 'example.com');
    await mirror().pool.query(
      `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, purchase_seen_at, raw)
       VALUES ('main', 'a', 'valid', now(), '{"x": 1}')`,
    );
    const rows = (): Promise<unknown[]> =>
      mirror().rows('SELECT code, verdict, changed_seq FROM mirror.purchase_codes');
    const before = await rows();
    expect(await rowsOf('purchases as received')).toBe(1);
    expect(await rows()).toEqual(before);
    const [left] = await mirror().rows('SELECT raw FROM mirror.purchase_codes');
    expect(left).toEqual({ raw: null });
  });

  it('are left for the next time while a run writes items, and the run loses nothing', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await syncCatalogue(deps, never);
    const { store } = mirror();
    const lock = await store.sellers.lock('main');
    const stamp = { sellerId: 'main', runId: 1n, at: new Date().toISOString() };
    const session = await store.items.begin(lock, stamp);
    const options = { signal: never, lockWaitMs: 0 };
    const during = await store.prune(ALL, options);
    await session.rollback();
    await lock.release();
    const items = { what: 'items as received', rows: 0, left: ['main'] };
    expect(during).toContainEqual(expect.objectContaining(items));
    expect(await rowsOf('items as received')).toBe(12);
  });
});

describe('runs', () => {
  it('stay that a row names, that are the newest of their kind, or that were held', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    for (let night = 0; night < 4; night++) await syncCatalogue(deps, never);
    sim.faults.always('any', { kind: 'key-refused' });
    await syncCatalogue(deps, never).catch(() => undefined);
    await syncCatalogue(deps, never).catch(() => undefined);
    await mirror().pool.query(`UPDATE mirror.runs SET state = 'held' WHERE run_id = (
      SELECT run_id FROM mirror.runs ORDER BY run_id OFFSET 1 LIMIT 1)`);
    const runs = (): Promise<{ run_id: string; state: string }[]> =>
      mirror().rows('SELECT run_id, state FROM mirror.runs ORDER BY run_id');
    const all = await runs();
    expect(all.map(({ state }) => state)).toEqual([
      ...['succeeded', 'held', 'succeeded', 'succeeded', 'failed', 'failed'],
    ]);
    expect(await rowsOf('runs')).toBe(2);
    const stay = [0, 1, 3, 5].map((place) => all[place]);
    expect(await runs()).toEqual(stay);
    expect(await rowsOf('runs')).toBe(0);
  });

  it('that go are missed by no report but the count of runs of a day, whose column says so', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    for (let night = 0; night < 3; night++) await syncCatalogue(deps, never);
    await mirror().pool.query(
      `UPDATE mirror.runs SET started_at = started_at - run_id * interval '1 day'`,
    );
    const reports = (): Promise<unknown[]> =>
      mirror().rows(`
        SELECT to_jsonb(d) - 'runs' AS row FROM reporting.items_daily d
         UNION ALL SELECT to_jsonb(f) - 'account_age_seconds' - 'items_age_seconds' FROM reporting.freshness f
         UNION ALL SELECT to_jsonb(h) FROM reporting.item_history h`);
    const before = await reports();
    expect(await rowsOf('runs', { ...NONE, runs: LATER })).toBe(1);
    expect(await reports()).toEqual(before);
    const [column] = await mirror().rows<{ comment: string }>(`
      SELECT col_description(attrelid, attnum) AS comment FROM pg_attribute
       WHERE attrelid = 'reporting.items_daily'::regclass AND attname = 'runs'`);
    expect(column?.comment).toContain('KEEP_RUNS_DAYS');
  });
});

describe('pruning', () => {
  it('goes on after the last row of a portion, and reads none again: what it walks by tells every row from all others', async () => {
    const unique = await mirror().rows<{ table: string; columns: string[] }>(`
      SELECT i.indrelid::regclass::text AS table,
             ARRAY(SELECT a.attname::text FROM pg_attribute a
                    WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) AS columns
        FROM pg_index i WHERE i.indisunique AND i.indpred IS NULL`);
    for (const { table, key } of PRUNE_STEPS) {
      const walked = new Set(['seller_id', ...Object.keys(key)]);
      const keys = unique.filter((index) => index.table === table);
      expect(
        keys.some(({ columns }) => columns.every((one) => walked.has(one))),
        table,
      ).toBe(true);
    }
  });

  it('deletes nothing of what nobody limited', async () => {
    const sim = await market();
    await syncCatalogue(mirror().deps(sim.url), never);
    expect(await mirror().store.prune(NONE, { signal: never })).toEqual([]);
  });

  it('is done by one process at a time', async () => {
    const sim = await market();
    await syncCatalogue(mirror().deps(sim.url), never);
    const { store } = mirror();
    const others: Promise<unknown>[] = [];
    const onProgress = (): void => {
      if (others.length === 0) others.push(store.prune(ALL, { signal: never }));
      others[0]?.catch(() => undefined);
    };
    await store.prune(ALL, { signal: never, onProgress });
    await expect(others[0]).rejects.toBeInstanceOf(PruneBusyError);
  });

  it('that was interrupted has done what it did, and goes on when it is repeated', async () => {
    const { store, pool } = mirror();
    const sim = await market(1);
    await syncCatalogue(mirror().deps(sim.url), never);
    await pool.query(`INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
      SELECT 'main', 'account', 'succeeded', now(), now(), 'a test' FROM generate_series(1, 5000)`);
    const stopping = new AbortController();
    const onProgress = (rows: number): void => {
      if (rows > 0) stopping.abort(new Error('stop'));
    };
    const plan = { ...NONE, runs: LATER };
    await expect(store.prune(plan, { signal: stopping.signal, onProgress })).rejects.toThrow(
      'stop',
    );
    const [left] = await mirror().rows<{ runs: number }>(
      `SELECT count(*)::int AS runs FROM mirror.runs WHERE kind = 'account'`,
    );
    expect(left?.runs).toBeGreaterThan(1);
    expect(left?.runs).toBeLessThan(5000);
    expect(await rowsOf('runs', plan)).toBe((left?.runs ?? 0) - 1);
  });

  it('leaves of a finished audit its figures, its codes and their checks, and of a running one all', async () => {
    const sim = await market(1);
    await syncCatalogue(mirror().deps(sim.url), never);
    const { audits } = mirror().store;
    const load = async (codes: readonly string[]): Promise<bigint> => {
      const loader = await audits.begin({
        sellerId: 'main',
        source: 'a test',
        layout: {},
        columns: ['code'],
        maxAgeSeconds: null,
        canary: null,
        chunkSize: 10,
      });
      await loader.add(
        codes.map((code, line) => ({ line, code, rejected: null, columns: [code] })),
      );
      return (await loader.finish()).auditId;
    };
    const done = await load(['a', 'b', 'c']);
    const running = await load(['a', 'd']);
    await mirror().pool.query(
      `UPDATE mirror.audits SET state = 'finished', finished_at = now() WHERE audit_id = $1`,
      [done],
    );
    const figures = await audits.get(done);
    expect(await rowsOf('lists of finished audits')).toBe(3);
    expect(await audits.get(done)).toEqual(figures);
    expect((await audits.listOf(done))?.prunedAt).toBeInstanceOf(Date);
    expect((await audits.listOf(running))?.prunedAt).toBeNull();
    const left = await mirror().rows<{ audit_id: string }>(
      `SELECT audit_id FROM mirror.audit_entries UNION ALL SELECT audit_id FROM mirror.audit_codes`,
    );
    expect(left.map(({ audit_id }) => BigInt(audit_id))).toEqual(Array(4).fill(running));
    expect((await audits.knownCodes('main', ['a', 'b', 'c', 'd'])).size).toBe(4);
  });
});

it('a part that nobody limited is kept for ever, and the others for just as many days as were said', () => {
  const days = { raw: 1, runs: null, versions: 365, audits: 90 };
  expect(planRetention(days, new Date('2026-11-23T10:00:00Z'))).toEqual({
    raw: new Date('2026-11-22T10:00:00Z'),
    runs: null,
    versions: new Date('2025-11-23T10:00:00Z'),
    audits: new Date('2026-08-25T10:00:00Z'),
  });
  expect(keepsEverything(days)).toBe(false);
  expect(keepsEverything({ raw: null, runs: null, versions: null, audits: null })).toBe(true);
});
