import { describe, expect, it } from 'vitest';
import { syncAccount } from '../../src/catalogue/account.js';
import { syncItem } from '../../src/catalogue/sync-item.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import { seededCatalogue, type Simulator } from '../../src/simulator/index.js';
import {
  keepsEverything,
  planRetention,
  PruneBusyError,
  type RetentionPlan,
  prune,
  RUN_COLUMNS,
} from '../../src/db/prune.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { lockSeller, tryLock } from '../../src/db/locks.js';
import { begin, discard } from '../../src/catalogue/merge-store.js';
import { saveCounts } from '../../src/catalogue/runs-store.js';
import { enterAudit } from '../../src/codes/enter-store.js';
import { cancelAudit, failAudit, getAudit, readAuditList } from '../../src/codes/audits-store.js';
import { readCodeState } from '../../src/codes/codes-store.js';
import { KEY, never, useMirror } from '../support/mirror.js';

const mirror = useMirror();

/** So late that every row is old. */
const LATER = new Date('2100-01-01T00:00:00Z');
const ALL: RetentionPlan = { raw: LATER, runs: LATER, versions: LATER, audits: LATER };
const NONE: RetentionPlan = { raw: null, runs: null, versions: null, audits: null };

async function market(count = 12): Promise<Simulator> {
  const catalogue = seededCatalogue({ seed: 3, count });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
}

/** A marketplace whose items were mirrored once. */
async function mirrored(count?: number) {
  const sim = await market(count);
  const deps = mirror().deps(sim.url);
  await syncItems(deps, never);
  return { sim, deps };
}

/** Prunes and returns the number of pruned rows of one kind. */
async function rowsOf(what: string, plan = ALL): Promise<number> {
  const pruned = await prune(mirror().db, plan, { signal: never });
  return pruned.find((one) => one.what === what)?.rows ?? 0;
}

describe('records as received', () => {
  it('are pruned without making a single synced item, whose reply lacks media, look changed', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    await syncAccount(deps, never);
    await syncItems(deps, never);
    const before = await mirror().rows('SELECT * FROM reporting.items ORDER BY item_id');
    expect(await rowsOf('items as received')).toBe(12);
    expect(await rowsOf('items as received')).toBe(0);
    const { rows } = await mirror().pool.query<{ raw: object }>('SELECT raw FROM mirror.items');
    expect(rows.flatMap(({ raw }) => Object.keys(raw)).every((key) => key === 'media')).toBe(true);

    for (const item of before.slice(0, 4)) {
      expect((await syncItem(deps, Number(item['item_id']), never)).state).toBe('succeeded');
    }
    await syncAccount(deps, never);
    await syncItems(deps, never);
    expect(await mirror().rows('SELECT * FROM mirror.item_changes')).toEqual([]);
    expect(await mirror().rows('SELECT * FROM mirror.account_versions')).toEqual([]);
    expect(await mirror().rows('SELECT * FROM reporting.items ORDER BY item_id')).toEqual(before);
  });

  it('that could not be read are pruned once later lists lack them', async () => {
    const catalogue = seededCatalogue({ seed: 3, count: 12 });
    const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    const deps = mirror().deps(sim.url);
    catalogue.breakRecord(1003, '{"id":1003,"name":"x","price":"x"}');
    await syncItems(deps, never);
    expect(await rowsOf('records that could not be read')).toBe(0);
    await mirror().pool.query(`UPDATE mirror.quarantine SET last_run_id = 0`);
    expect(await rowsOf('records that could not be read')).toBe(1);
  });

  it('of purchases are pruned without a row in item_changes', async () => {
    const { db } = mirror();
    await ensureSeller(db, 'main', 'example.com');
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

  it('are skipped while a run writes items, and the run loses nothing', async () => {
    await mirrored();
    const { db } = mirror();
    const lock = await lockSeller(db, 'main');
    await begin(lock);
    await saveCounts(lock.client, 1n, { listed: 1 });
    const during = await prune(db, ALL, { signal: never });
    await discard(lock);
    await lock.release();
    const items = { what: 'items as received', rows: 0, left: ['main'] };
    expect(during).toContainEqual(expect.objectContaining(items));
    expect(await rowsOf('items as received')).toBe(12);
  });
});

describe('runs', () => {
  it('are kept if a row refers to them, if they are the newest of their kind, or if they were held', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    for (let night = 0; night < 4; night++) await syncItems(deps, never);
    sim.faults.always('any', { kind: 'key-refused' });
    await syncItems(deps, never).catch(() => undefined);
    await syncItems(deps, never).catch(() => undefined);
    await mirror().pool.query(`UPDATE mirror.runs SET state = 'held' WHERE run_id = (
      SELECT run_id FROM mirror.runs ORDER BY run_id OFFSET 1 LIMIT 1)`);
    const runs = (): Promise<{ run_id: string; state: string }[]> =>
      mirror().rows('SELECT run_id, state FROM mirror.runs ORDER BY run_id');
    const all = await runs();
    expect(all.map(({ state }) => state)).toEqual([
      ...['succeeded', 'held', 'succeeded', 'succeeded', 'failed', 'failed'],
    ]);
    expect(await rowsOf('runs')).toBe(2);
    expect(await runs()).toEqual([0, 1, 3, 5].map((n) => all[n]));
    expect(await rowsOf('runs')).toBe(0);
  });

  it('are kept for every column that refers to one, also of tables that were added later', async () => {
    const columns = await mirror().rows<{ name: string }>(`
      SELECT c.relname || '.' || a.attname AS name
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       WHERE c.relnamespace = 'mirror'::regnamespace AND c.relkind IN ('r', 'p')
         AND a.attname LIKE '%run\\_id' AND a.atttypid = 'bigint'::regtype`);
    const own = ['runs.run_id', 'run_progress.run_id'];
    expect(columns.map(({ name }) => name).toSorted()).toEqual([...RUN_COLUMNS, ...own].toSorted());
  });

  it('that are pruned affect no report but the daily count of runs, whose comment says so', async () => {
    const sim = await market();
    const deps = mirror().deps(sim.url);
    for (let night = 0; night < 3; night++) await syncItems(deps, never);
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
  it('deletes nothing without a limit', async () => {
    await mirrored();
    expect(await prune(mirror().db, NONE, { signal: never })).toEqual([]);
  });

  it('is done by one process at a time', async () => {
    await mirrored();
    const { db } = mirror();
    const lock = await tryLock(db, 'seller-mirror/prune', () => new Error('nobody prunes yet'));
    await expect(prune(db, ALL, { signal: never })).rejects.toBeInstanceOf(PruneBusyError);
    await lock.release();
    await expect(prune(db, ALL, { signal: never })).resolves.not.toEqual([]);
  });

  it('keeps its progress when interrupted, and continues the next time', async () => {
    const { db, pool } = mirror();
    await mirrored(1);
    await pool.query(`INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder)
      SELECT 'main', 'account', 'succeeded', now(), now(), 'a test' FROM generate_series(1, 60000)`);
    const stopping = new AbortController();
    const onProgress = (rows: number): void => {
      if (rows > 0) stopping.abort(new Error('stop'));
    };
    const plan = { ...NONE, runs: LATER };
    await expect(prune(db, plan, { signal: stopping.signal, onProgress })).rejects.toThrow('stop');
    const [left] = await mirror().rows<{ runs: number }>(
      `SELECT count(*)::int AS runs FROM mirror.runs WHERE kind = 'account'`,
    );
    expect(left?.runs).toBeGreaterThan(1);
    expect(left?.runs).toBeLessThan(60_000);
    expect(await rowsOf('runs', plan)).toBe((left?.runs ?? 0) - 1);
  });

  it('keeps figures, codes and checks of finished audits, and everything of those that run or can be resumed', async () => {
    await mirrored(1);
    const { db } = mirror();
    const load = async (codes: readonly string[]): Promise<bigint> => {
      const audit = {
        sellerId: 'main',
        source: 'a test',
        layout: {},
        columns: ['code'],
        maxAgeSeconds: null,
        knownValid: null,
        confirmAfterMs: 60_000,
      };
      const rows = codes.map((code, line) => ({ line, code, columns: [code] }));
      return (await enterAudit(db, audit, rows)).auditId;
    };
    const done = await load(['a', 'b', 'c']);
    const running = await load(['a', 'd']);
    const stopped = [await load(['e']), await load(['f'])] as const;
    await cancelAudit(db, stopped[0]);
    await failAudit(db, stopped[1], 'the key was refused');
    await mirror().pool.query(
      `UPDATE mirror.audits SET state = 'finished', finished_at = now() WHERE audit_id = $1`,
      [done],
    );
    const figures = await getAudit(db, done);
    expect(await rowsOf('lists of finished audits')).toBe(3);
    expect(await getAudit(db, done)).toEqual(figures);
    expect((await readAuditList(db, done))?.prunedAt).toBeInstanceOf(Date);
    expect((await readAuditList(db, running))?.prunedAt).toBeNull();
    const left = await mirror().rows<{ audit_id: string }>(
      `SELECT audit_id FROM mirror.audit_entries UNION ALL SELECT audit_id FROM mirror.audit_codes`,
    );
    // Two rows for each code of the audits that are running, or can be resumed.
    const kept = [running, running, ...stopped].flatMap((id) => [id, id]).map(String);
    expect(left.map(({ audit_id }) => audit_id).toSorted()).toEqual(kept.toSorted());
    for (const code of ['a', 'b', 'c', 'd'])
      expect(await readCodeState(db, 'main', code)).not.toBeNull();
  });
});

it('keeps a part without a limit for ever, and the others for exactly their days', () => {
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
