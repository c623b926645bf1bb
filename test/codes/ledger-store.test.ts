import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { mergePurchase, type PurchaseReading } from '../../src/codes/known-code.js';
import { decodeItem } from '../../src/marketplace/decode.js';
import type { PurchasedItem } from '../../src/domain/item.js';
import type { CodeResult } from '../../src/codes/ledger.js';
import { useMirror } from '../support/mirror.js';
import {
  getAudit,
  cancelAudit,
  resumeAudit,
  failAudit,
  readAuditList,
} from '../../src/codes/audits-store.js';
import { readCodeState, readCodeChecks } from '../../src/codes/codes-store.js';
import { openDb } from '../../src/db/db.js';
import {
  at,
  enterSeller,
  invalid,
  ITEM,
  load,
  loadPending,
  pending,
  purchaseOf,
  recordResults,
  SELLER,
  type PendingCode,
  unproven,
  valid,
} from './store-support.js';

const mirror = useMirror();

const decoded = decodeItem({ id: ITEM.id, name: ITEM.name });
const FULL = decoded.ok ? decoded.decoded.value : expect.unreachable();

const ledger = (): Promise<Record<string, unknown>[]> =>
  mirror().rows(
    `SELECT c.code, k.verdict::text, k.reason, k.proof, k.http_status, k.message, k.checked_at,
            k.raw_hash IS NOT NULL AS hashed, k.audit_id, k.seller_id
       FROM mirror.code_checks k JOIN mirror.purchase_codes c USING (code_id) ORDER BY k.check_id`,
  );

const transitions = (): Promise<Record<string, unknown>[]> =>
  mirror().rows(
    `SELECT c.code, t.kind, t.old_value, t.new_value, t.happened_at
       FROM mirror.code_transitions t JOIN mirror.purchase_codes c USING (code_id) ORDER BY t.seq`,
  );

function withMessage(result: CodeResult, message: string): CodeResult {
  return { ...result, check: result.check && { ...result.check, message } };
}

describe('recording results', () => {
  it('writes checks, codes, transitions, audit and counts together', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A', 'B', 'C');
    const [a, b, c] = codes;
    const first = [valid(a, at(1), purchaseOf('A')), invalid(b, at(2)), unproven(c, at(3))];
    expect(await recordResults(db, auditId, first, 5)).toBe('running');
    expect(await getAudit(db, auditId)).toMatchObject({
      ...{ valid: 1, invalid: 1, unproven: 0, pending: 1 },
      ...{ apiCalls: 5, state: 'running' },
    });
    expect(await pending(db, auditId)).toMatchObject([{ code: 'C', attempts: 1, known: null }]);
    const last = [unproven(c, at(4), true)];
    expect(await recordResults(db, auditId, last, 1)).toBe('finished');
    expect(await recordResults(db, auditId, last, 0), 'repeated').toBe('finished');
    expect(await getAudit(db, auditId)).toMatchObject({
      ...{ valid: 1, invalid: 1, unproven: 1, pending: 0 },
      ...{ apiCalls: 6, state: 'finished', finishedAt: expect.any(Date) as Date },
    });
    const row = { audit_id: String(auditId), seller_id: SELLER, message: null, hashed: false };
    const answered = { verdict: 'valid', reason: 'answered', proof: 'purchase', http_status: 200 };
    const denied = { verdict: 'invalid', reason: 'denied', proof: 'known-valid', http_status: 404 };
    const message = 'Invalid purchase code';
    const failed = { verdict: 'unproven', reason: 'unavailable', proof: 'none', http_status: 503 };
    expect(await ledger()).toEqual([
      { ...row, code: 'A', ...answered, checked_at: at(1), hashed: true },
      { ...row, code: 'B', ...denied, checked_at: at(2), message },
      { ...row, code: 'C', ...failed, checked_at: at(3) },
      { ...row, code: 'C', ...failed, checked_at: at(4) },
    ]);
    expect(await transitions()).toEqual([]);
    expect(await pending(db, auditId)).toEqual([]);
  });

  it('returns a purchase exactly as recorded, to the microsecond', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A');
    const [code] = codes;
    const purchase: PurchaseReading = {
      value: {
        ...purchaseOf('A').value,
        purchaseCode: 'a',
        price: '1234567890.05',
        downloaded: false,
        supportedUntil: '2026-03-04T05:06:07.123456Z',
        purchasedAt: '1999-12-31T23:59:59Z',
        item: { id: 9, name: 'Ünïcode', url: 'https://x/9', previewImageUrl: '', full: null },
      },
      raw: { purchase_code: 'a' },
    };
    await recordResults(db, auditId, [valid(code, at(1), purchase)], 1);
    const state = await readCodeState(db, SELLER, 'A');
    expect(state).toEqual({
      codeId: code.codeId,
      code: 'A',
      proof: 'purchase',
      denials: null,
      hasUnknownItem: false,
      lastCheckId: expect.any(BigInt) as bigint,
      verdictSince: at(1),
      firstCheckedAt: at(1),
      known: {
        verdict: 'valid',
        purchase: mergePurchase(null, purchase),
        checkedAt: at(1).getTime(),
      },
    });
  });

  it.each([
    { ...ITEM, id: null },
    { ...ITEM, name: null },
    { ...ITEM, id: null, name: null },
    { ...ITEM, full: FULL },
  ])('returns an item as recorded: %j', async (item) => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A');
    await recordResults(db, auditId, [valid(codes[0], at(1), purchaseOf('A', item))], 1);
    const known = (await readCodeState(db, SELLER, 'A'))?.known;
    expect(known?.purchase?.item).toEqual({ ...item, full: item.full !== null });
  });

  it('keeps the purchase of a code that became invalid, and records since when', async () => {
    const db = await enterSeller(mirror());
    const turns = [true, false, false, true];
    const since = [0, 1, 1, 3].map(at);
    for (const [n, isValid] of turns.entries()) {
      const { auditId, codes } = await loadPending(db, 'A');
      const [code] = codes;
      const result = isValid ? valid(code, at(n), purchaseOf('A')) : invalid(code, at(n));
      await recordResults(db, auditId, [result], 1);
      const state = await readCodeState(db, SELLER, 'A');
      expect(state).toMatchObject({
        firstCheckedAt: at(0),
        verdictSince: since[n],
        known: { purchase: mergePurchase(null, purchaseOf('A')), checkedAt: at(n).getTime() },
      });
    }
    const [was, is] = ['valid', 'no_longer_valid'];
    expect(await transitions()).toEqual([
      { code: 'A', kind: 'became-invalid', old_value: was, new_value: is, happened_at: at(1) },
      { code: 'A', kind: 'became-valid', old_value: is, new_value: was, happened_at: at(3) },
    ]);
  });

  it('merges a reduced answer into a full one without losing fields', async () => {
    const db = await enterSeller(mirror());
    const full = purchaseOf('A');
    const item: PurchasedItem = { ...ITEM, full: FULL };
    const reduced: PurchaseReading = {
      value: {
        purchaseCode: null,
        licenseType: null,
        price: null,
        currency: null,
        supportedUntil: null,
        downloaded: null,
        purchasedAt: null,
        item: { id: 7, name: 'New name', url: null, previewImageUrl: null, full: null },
      },
      raw: { item: { id: 7, name: 'New name' } },
    };
    const readings = [{ ...full, value: { ...full.value, item } }, reduced];
    for (const [n, reading] of readings.entries()) {
      const { auditId, codes } = await loadPending(db, 'A');
      const [code] = codes;
      await recordResults(db, auditId, [valid(code, at(n), reading)], 1);
    }
    const known = (await readCodeState(db, SELLER, 'A'))?.known;
    expect(known?.purchase).toEqual({
      ...full.value,
      item: {
        ...full.value.item,
        name: 'New name',
        full: true,
      },
    });
  });

  it('stores the raw answer without an item that the mirror has, and no answer that is too large', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A', 'B', 'C');
    const [a, b, c] = codes;
    const value = { ...purchaseOf('A').value, purchaseCode: null };
    const raw = { a: '\0\ud800', 'k\0': 1e308, item: { id: 7 } };
    await recordResults(
      db,
      auditId,
      [
        valid(a, at(1), { value, raw }),
        valid(b, at(1), { value: { ...value, item: null }, raw: { item: 'unreadable' } }),
        valid(c, at(1), { value, raw: { note: 'x'.repeat(1_000_000) } }),
      ],
      3,
    );
    expect(await mirror().rows('SELECT raw FROM mirror.purchase_codes ORDER BY code')).toEqual([
      { raw: { a: '\ufffd\ufffd', 'k\ufffd': 1e308 } },
      { raw: { item: 'unreadable' } },
      { raw: null },
    ]);
  });

  it('cuts a long server message, and replaces characters that PostgreSQL can’t hold', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A');
    const [code] = codes;
    const message = `no\0 such \udfff${'🐘'.repeat(3_000)}`;
    await recordResults(db, auditId, [withMessage(invalid(code, at(1)), message)], 1);
    const [check] = await readCodeChecks(db, code.codeId, 1);
    expect(check?.message).toMatch(/^no\ufffd such \ufffd🐘+…$/u);
    expect(check?.message?.length).toBeLessThanOrEqual(2_000);
  });

  it('writes nothing for an audit that does not exist', async () => {
    const db = await enterSeller(mirror());
    await expect(recordResults(db, 999_999n, [], 1)).rejects.toThrow('there is no audit 999999');
    expect(await ledger()).toEqual([]);
  });

  it('records every verdict once while connections are killed', async () => {
    const db = await enterSeller(mirror());
    const names = Array.from({ length: 60 }, (_, n) => `code ${n}`);
    const { auditId } = await load(db, names);
    const codes = await pending(db, auditId);
    const doomed = openDb(mirror().databaseUrl, 'doomed');
    let recorded = 0;
    const recordAll = async (pendingCodes: readonly PendingCode[]): Promise<void> => {
      for (const code of pendingCodes) {
        const record = () =>
          recordResults(doomed, auditId, [invalid(code, at(1))], 1).catch(() => null);
        while ((await record()) === null);
        recorded++;
      }
    };
    let isOver = false;
    const killer = (async () => {
      for (let before = -1; !isOver; await sleep(Math.random() * 10)) {
        // Wait for progress: on a busy machine no connection would live long enough otherwise.
        if (recorded === before) continue;
        before = recorded;
        await mirror().rows(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'doomed'
            ORDER BY random() LIMIT 1`,
        );
      }
    })();
    // Two writers record the same codes in opposite order.
    await Promise.all([recordAll(codes), recordAll([...codes].reverse())]);
    isOver = true;
    await killer;
    await doomed.close();
    const proven = (await ledger()).map(({ code }) => code);
    expect(proven).toHaveLength(names.length);
    expect(new Set(proven)).toEqual(new Set(names));
    expect(await getAudit(db, auditId)).toMatchObject({
      invalid: 60,
      pending: 0,
      state: 'finished',
    });
  });
});

describe('a stopped audit', () => {
  it('keeps its pending codes, counts late results, and continues after a resume', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A', 'B');
    const [a, b] = codes;
    expect(await cancelAudit(db, auditId)).toBe('cancelled');
    expect(await cancelAudit(db, auditId)).toBe('cancelled');
    expect(await recordResults(db, auditId, [invalid(a, at(1))], 1)).toBe('cancelled');
    expect(await getAudit(db, auditId)).toMatchObject({ state: 'cancelled', pending: 1 });
    expect(await resumeAudit(db, auditId)).toBe('running');
    expect(await recordResults(db, auditId, [invalid(b, at(1))], 1)).toBe('finished');
    expect(await resumeAudit(db, auditId)).toBe('finished');
    expect(await cancelAudit(db, auditId)).toBe('finished');
    expect(await failAudit(db, auditId, 'too late')).toBe('finished');
  });

  it('is finished by a resume if its last code was settled meanwhile', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A');
    const [code] = codes;
    expect(await failAudit(db, auditId, 'the key was refused')).toBe('failed');
    expect(await getAudit(db, auditId)).toMatchObject({ problem: 'the key was refused' });
    await recordResults(db, auditId, [invalid(code, at(1))], 1);
    expect(await resumeAudit(db, auditId)).toBe('finished');
    expect(await getAudit(db, auditId)).toMatchObject({
      state: 'finished',
      problem: null,
      finishedAt: expect.any(Date) as Date,
    });
  });

  it('returns null for an audit that does not exist', async () => {
    const db = await enterSeller(mirror());
    expect(await getAudit(db, 4711n)).toBeNull();
    expect(await cancelAudit(db, 4711n)).toBeNull();
    expect(await resumeAudit(db, 4711n)).toBeNull();
    expect(await readAuditList(db, 4711n)).toBeNull();
  });
});
