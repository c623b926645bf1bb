import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json } from '../../../src/domain/item.js';
import { syncAccount } from '../../../src/catalogue/account.js';
import { syncItems } from '../../../src/catalogue/sync-items.js';
import { seededCatalogue } from '../../../src/simulator/index.js';
import { BackupError } from '../../../src/db/backup/format.js';
import { KEY, never, useMirror } from '../../support/mirror.js';
import { query } from '../../support/postgres.js';
import {
  at,
  invalid,
  load,
  pending,
  recordResults,
  purchaseOf,
  unproven,
  valid,
} from '../../codes/store-support.js';
import { prepared } from '../../catalogue/history-book.js';
import { ensureSeller } from '../../../src/catalogue/sellers-store.js';
import { lockSeller } from '../../../src/db/locks.js';
import { startRun } from '../../../src/catalogue/runs-store.js';
import { ItemSession } from '../../../src/catalogue/session-store.js';
import { openDb } from '../../../src/db/db.js';
import { getAudit } from '../../../src/codes/audits-store.js';
import { readSellerStatuses } from '../../../src/catalogue/status-store.js';
import { backupOf, database, restoreInto, rowsIn } from './support.js';

const mirror = useMirror();

describe('a backup', () => {
  it('restores every value unchanged, whatever its characters', async () => {
    const target = await database();
    const text = fc.string({ unit: 'binary', maxLength: 30 }).map((one) => `x${one}`);
    const records = fc.uniqueArray(
      fc.record({
        id: fc.integer({ min: 1, max: 1_000_000 }),
        name: text,
        description: fc.option(text),
        tags: fc.array(fc.constantFrom('', 'NULL', '{"a\\', 'a,b', '\n\t\\N\\.\r', 'ü', '🙂')),
        price: fc.record({ regular: fc.constantFrom(null, 0.1, 19.99, 999_999_999_999.99) }),
        more: fc.jsonValue() as fc.Arbitrary<Json>,
      }),
      { selector: ({ id }) => id, minLength: 1, maxLength: 20 },
    );
    await fc.assert(
      fc.asyncProperty(records, async (list) => {
        await mirror().reset();
        const { db, databaseUrl } = mirror();
        await ensureSeller(db, 'main', 'example.com');
        const lock = await lockSeller(db, 'main');
        const { runId, at: began } = await startRun(lock, 'items', 'a test', null);
        const session = new ItemSession(lock, { sellerId: 'main', runId, at: began });
        await session.stageItems(list.map((record) => prepared(record)));
        await session.apply();
        await session.commit();
        await lock.release();
        await restoreInto(target.url, await backupOf(databaseUrl), { replace: true });
        expect(await rowsIn(target.url)).toEqual(await rowsIn(databaseUrl));
      }),
      // Shrinking would take minutes, and the test would time out without a reason.
      { numRuns: 6, endOnFailure: true },
    );
  }, 120_000);

  it('is a snapshot, even during syncs and an audit, from which both can continue', async () => {
    const catalogue = seededCatalogue({ seed: 3, count: 60 });
    const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    const deps = mirror().deps(sim.url);
    await syncAccount(deps, never);
    await syncItems(deps, never);
    const { db, databaseUrl } = mirror();
    const names = Array.from({ length: 400 }, (_, n) => `code-${n}`);
    const { auditId } = await load(db, names);
    const codes = await pending(db, auditId);
    let isOver = false;
    const nights = (async () => {
      for (let night = 1; !isOver; night++) {
        for (let id = 1001; id <= 1030; id++) catalogue.change(id, { name: `${id}, ${night}` });
        await syncItems(deps, never);
      }
    })();
    const recording = (async () => {
      for (const [n, code] of codes.entries()) {
        if (isOver) return;
        const results = [
          valid(code, at(n), purchaseOf(code.code)),
          invalid(code, at(n)),
          unproven(code, at(n), true),
        ];
        await recordResults(db, auditId, results.slice(n % 3, (n % 3) + 1), 1);
      }
    })();
    const backups: Buffer[] = [];
    for (let n = 0; n < 4; n++) backups.push(await backupOf(databaseUrl));
    isOver = true;
    await Promise.all([nights, recording]);

    const target = await database();
    for (const bytes of backups) {
      expect(gunzipSync(bytes).includes(KEY)).toBe(false);
      await restoreInto(target.url, bytes, { replace: true });
      expect(await query(target.url, INCONSISTENCIES)).toEqual([]);
    }
    const restored = openDb(target.url, 'test');
    try {
      const settled = async (): Promise<number> => {
        const audit = await getAudit(restored, auditId);
        return (audit?.codes ?? 0) - (audit?.pending ?? 0);
      };
      const before = await settled();
      const left = await pending(restored, auditId);
      expect(left).toHaveLength(names.length - before);
      const [first] = left;
      if (first !== undefined) {
        await recordResults(restored, auditId, [invalid(first, at(9999))], 1);
        expect(await settled()).toBe(before + 1);
      }
      const again = { ...mirror().deps(sim.url), db: restored };
      expect((await syncItems(again, never)).state).toBe('succeeded');
      const once = await query(target.url, 'SELECT * FROM mirror.item_changes ORDER BY seq');
      await syncItems(again, never);
      const twice = await query(target.url, 'SELECT * FROM mirror.item_changes ORDER BY seq');
      expect(twice).toEqual(once);
      expect((await readSellerStatuses(restored))[0]?.items.live).toBe(60);
    } finally {
      await restored.close();
    }
  });

  it('repeats no number of the store that it replaced', async () => {
    const target = await database();
    await query(
      target.url,
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'x')`,
      `SELECT setval('mirror.item_changes_seq_seq', 5000)`,
    );
    await ensureSeller(mirror().db, 'main', 'example.com');
    await restoreInto(target.url, await backupOf(mirror().databaseUrl), { replace: true });
    const next = `SELECT nextval('mirror.item_changes_seq_seq') AS next`;
    expect(await query(target.url, next)).toEqual([{ next: '5001' }]);
  });

  it('can’t be made of a database without a mirror', async () => {
    const { url } = await database({ empty: true });
    await expect(backupOf(url)).rejects.toThrow(BackupError);
  });
});

/**
 * Audits whose counts don't match their codes, gaps between states of items, items that differ from their last change,
 * and references to missing rows.
 */
const INCONSISTENCIES = `
  SELECT 'audit' AS what, a.audit_id::text AS which FROM mirror.audits a
    LEFT JOIN LATERAL (
      SELECT count(*) FILTER (WHERE verdict = 'valid') AS valid,
             count(*) FILTER (WHERE verdict = 'invalid') AS invalid,
             count(*) FILTER (WHERE verdict = 'unproven') AS unproven,
             count(*) FILTER (WHERE verdict IS NULL) AS pending, count(*) AS codes
        FROM mirror.audit_codes c WHERE c.audit_id = a.audit_id) AS c ON true
   WHERE (a.codes, a.valid, a.invalid, a.unproven, a.pending)
         IS DISTINCT FROM (c.codes, c.valid, c.invalid, c.unproven, c.pending)
  UNION ALL
  SELECT 'version', v.item_id::text FROM mirror.item_versions v
   WHERE NOT EXISTS (
     SELECT FROM reporting.item_history h
      WHERE h.seller_id = v.seller_id AND h.item_id = v.item_id AND h.valid_from = v.valid_to)
  UNION ALL
  SELECT 'change', i.item_id::text FROM mirror.items i
    JOIN LATERAL (SELECT new_value FROM mirror.item_changes c
                   WHERE c.seller_id = i.seller_id AND c.item_id = i.item_id AND field = 'name'
                   ORDER BY seq DESC LIMIT 1) AS c ON true
   WHERE c.new_value #>> '{}' <> i.name
  UNION ALL
  SELECT 'run', i.item_id::text FROM mirror.items i
   WHERE NOT EXISTS (SELECT FROM mirror.runs r WHERE r.run_id = i.synced_run_id)
  UNION ALL
  SELECT 'check', p.code FROM mirror.purchase_codes p
   WHERE p.last_check_id IS NOT NULL
     AND NOT EXISTS (SELECT FROM mirror.code_checks c WHERE c.check_id = p.last_check_id)`;
