import { describe, expect, it } from 'vitest';
import type { CodeResult } from '../../src/codes/ledger.js';
import { useMirror } from '../support/mirror.js';
import type { Db } from '../../src/db/db.js';
import {
  readCanaries,
  countRunningAudits,
  readCodeChecks,
  findCodesToRecheck,
  readCodeState,
} from '../../src/codes/codes-store.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { cancelAudit, getAudit } from '../../src/codes/audits-store.js';
import { countUnproven, readAuditResults } from '../../src/codes/results-store.js';
import {
  at,
  denialsAt,
  denied,
  enterSeller,
  invalid,
  itemIn,
  ITEM,
  load,
  loadPending,
  pending,
  purchaseOf,
  recordResults,
  resultsOf,
  SELLER,
  settled,
  unproven,
  valid,
} from './store-support.js';

const mirror = useMirror();

async function checked(
  db: Db,
  code: string,
  minute: number,
  verdict: 'valid' | 'invalid',
  itemId = ITEM.id,
): Promise<void> {
  const { auditId, codes } = await loadPending(db, code);
  const [place] = codes;
  const result =
    verdict === 'valid'
      ? valid(place, at(minute), purchaseOf(code, { ...ITEM, id: itemId }))
      : invalid(place, at(minute));
  await recordResults(db, auditId, [result], 1);
}

/** A code that served as a proof and was denied. */
function deniedCanary(code: string, minute: number): CodeResult {
  return { ...denied({ position: 0, code }, at(minute), false), position: null };
}

describe('codes of a seller', () => {
  it('are canaries in this order: live items first, then different items, then the latest check', async () => {
    const db = await enterSeller(mirror());
    const states = { 1: 'live', 2: 'removed', 3: 'missing', 4: 'live' };
    for (const [id, state] of Object.entries(states)) await itemIn(mirror(), Number(id), state);
    const sold = [
      ['a', 1, 1],
      ['b', 1, 2],
      ['c', 2, 3],
      ['d', 3, 4],
      ['e', 4, 0],
      ['f', 9, 5],
    ] as const;
    for (const [code, item, minute] of sold) await checked(db, code, minute, 'valid', item);
    await checked(db, 'refunded', 8, 'valid');
    await checked(db, 'refunded', 10, 'invalid');
    expect(await readCanaries(db, SELLER, 9)).toEqual(['b', 'e', 'a', 'f', 'd', 'c']);
  });

  it('share the budget of their marketplace: running audits are counted over its sellers', async () => {
    const db = await enterSeller(mirror());
    const host = 'https://shared.example';
    for (const seller of ['one', 'two']) await ensureSeller(db, seller, host);
    expect(await countRunningAudits(db, host)).toBe(0);
    const { auditId } = await load(db, ['a'], { sellerId: 'one' });
    for (const sellerId of ['one', 'two', SELLER]) await load(db, ['a'], { sellerId });
    expect(await countRunningAudits(db, host)).toBe(3);
    await cancelAudit(db, auditId);
    expect(await countRunningAudits(db, host)).toBe(2);
  });

  it('have checks, the newest first', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A');
    const [a] = codes;
    for (const n of [1, 2]) await recordResults(db, auditId, [unproven(a, at(n))], 1);
    const found = valid(a, at(3), purchaseOf('A'));
    await recordResults(db, auditId, [found], 1);
    const untimed = { provenBefore: null, provenAfter: null };
    const row = { checkId: expect.any(BigInt) as bigint, auditId, message: null, ...untimed };
    const answered = { verdict: 'valid', reason: 'answered', proof: 'purchase', httpStatus: 200 };
    const failed = { verdict: 'unproven', reason: 'unavailable', proof: 'none', httpStatus: 503 };
    expect(await readCodeChecks(db, a.codeId, 2)).toEqual([
      { ...row, ...answered, checkedAt: at(3), rawHash: expect.any(String) as string },
      { ...row, ...failed, checkedAt: at(2), rawHash: null },
    ]);
    expect(await readCodeChecks(db, 4_711n, 2)).toEqual([]);
  });

  it('can’t be deleted while there are checks of them', async () => {
    const db = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(db, 'A', 'B');
    await recordResults(db, auditId, [unproven(codes[0], at(1))], 1);
    const forget = (code: string): Promise<unknown> =>
      mirror().pool.query('DELETE FROM mirror.purchase_codes WHERE code = $1', [code]);
    await expect(forget('A')).rejects.toThrow(/has rows in mirror.code_checks/);
    await forget('B');
    expect(await mirror().rows('SELECT code FROM mirror.purchase_codes')).toEqual([{ code: 'A' }]);
  });

  it('are rechecked in this order: support ends soon or ended since the check, then by age of the check', async () => {
    const db = await enterSeller(mirror());
    await loadPending(db, 'never checked');
    const now = Date.parse('2026-05-01T00:00:00Z');
    const day = (days: number): Date => new Date(now + days * 86_400_000);
    // Code, verdict, and days from now to the check and to the end of support.
    for (const [code, verdict, checked, ends] of [
      ['recent', 'valid', -31, null],
      ['oldest', 'valid', -90, null],
      ['ends later', 'valid', -60, 14.1],
      ['ends soon', 'valid', -60, 1],
      ['ended', 'valid', -60, -1],
      ['ended before the check', 'valid', -60, -70],
      ['invalid', 'invalid', -59, 1],
      ['checked lately', 'valid', -29, 1],
    ] as const) {
      await mirror().rows(
        `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, last_checked_at, supported_until)
         VALUES ($1, $2, $3::mirror.code_verdict, $4, $5)`,
        [SELLER, code, verdict, day(checked), ends === null ? null : day(ends)],
      );
    }
    const filter = { olderThan: 30 * 86_400_000, validOnly: false, limit: 10 };
    const all = await findCodesToRecheck(db, SELLER, filter, now);
    expect(all).toEqual([
      ...['ended', 'ends soon', 'oldest', 'ended before the check', 'ends later'],
      ...['invalid', 'recent'],
    ]);
    const few = { ...filter, validOnly: true, limit: 6 };
    expect(await findCodesToRecheck(db, SELLER, few, now)).toEqual(all.toSpliced(5, 1));
  });
});

it('results have the verdicts of their audit, not of a later one, and the purchase as known now', async () => {
  const db = await enterSeller(mirror());
  const first = await loadPending(db, 'A', 'B', 'C');
  const [a, b, c] = first.codes;
  const old = purchaseOf('A');
  await recordResults(
    db,
    first.auditId,
    [valid(a, at(1), old), invalid(b, at(1)), unproven(c, at(1), true)],
    3,
  );
  const second = await loadPending(db, 'A', 'B', 'C');
  const [a2, b2, c2] = second.codes;
  const newer = { ...old, value: { ...old.value, licenseType: 'Extended' } };
  await recordResults(
    db,
    second.auditId,
    [valid(b2, at(2), purchaseOf('B')), valid(a2, at(2), newer), unproven(c2, at(2))],
    3,
  );
  const results = await resultsOf(db, first.auditId);
  expect(results).toMatchObject([
    { code: 'A', verdict: 'valid', checkedAt: at(1), purchase: { licenseType: 'Extended' } },
    { code: 'B', verdict: 'invalid', checkedAt: at(1), proof: 'known-valid', reason: 'denied' },
    { code: 'C', verdict: 'unproven', proof: 'none', reason: 'unavailable', purchase: null },
  ]);
  expect(await countUnproven(db, first.auditId)).toEqual([{ reason: 'unavailable', codes: 1 }]);
  expect(await countUnproven(db, second.auditId)).toEqual([{ reason: 'unavailable', codes: 1 }]);
});

it('results have the denials of an invalid code, also in an audit that reused the verdict', async () => {
  const db = await enterSeller(mirror());
  const first = await loadPending(db, 'A', 'B');
  const [a, b] = first.codes;
  for (const code of [a, b]) await recordResults(db, first.auditId, [denied(code, at(1), false)]);
  await recordResults(db, first.auditId, [unproven(a, at(2)), denied(b, at(2))]);
  await recordResults(db, first.auditId, [denied(a, at(3))]);
  await recordResults(db, first.auditId, [settled(a, 'invalid'), settled(b, 'invalid')]);
  const second = await load(db, ['A', 'B'], { maxAgeSeconds: 1_000_000_000 });
  const [ofA, ofB] = [denialsAt(at(1), at(3)), denialsAt(at(1), at(2))];
  for (const auditId of [first.auditId, second.auditId]) {
    const results = await resultsOf(db, auditId);
    expect(results.map(({ verdict, proof, denials }) => [verdict, proof, denials])).toEqual([
      ['invalid', 'known-valid', ofA],
      ['invalid', 'known-valid', ofB],
    ]);
  }
  expect((await readCodeState(db, SELLER, 'A'))?.denials).toEqual(ofA);
  expect((await readCodeState(db, SELLER, 'B'))?.denials).toEqual(ofB);
});

it('a purchase of an item that the catalogue never had is marked, once there is a catalogue', async () => {
  const db = await enterSeller(mirror());
  const { auditId, codes } = await loadPending(db, 'sold', 'withdrawn', 'foreign', 'bad');
  const [sold, withdrawn, foreign, bad] = codes;
  const itemOf = (id: number) => ({ ...ITEM, id });
  await recordResults(db, auditId, [
    valid(sold, at(1), purchaseOf('sold', itemOf(1))),
    valid(withdrawn, at(1), purchaseOf('withdrawn', itemOf(2))),
    valid(foreign, at(1), purchaseOf('foreign', itemOf(9))),
    invalid(bad, at(1)),
  ]);
  const marked = async (): Promise<(string | null)[]> =>
    (await resultsOf(db, auditId)).filter((row) => row.hasUnknownItem).map(({ code }) => code);
  expect(await marked()).toEqual([]);
  await itemIn(mirror(), 1, 'live');
  await itemIn(mirror(), 2, 'removed');
  expect(await marked()).toEqual(['foreign']);
  expect((await readCodeState(db, SELLER, 'sold'))?.hasUnknownItem).toBe(false);
  expect((await readCodeState(db, SELLER, 'foreign'))?.hasUnknownItem).toBe(true);
});

it('an invalid code that is denied once more keeps its proof', async () => {
  const db = await enterSeller(mirror());
  const first = await loadPending(db, 'A');
  await recordResults(db, first.auditId, [denied(first.codes[0], at(1), false)]);
  await recordResults(db, first.auditId, [denied(first.codes[0], at(2))]);
  await recordResults(db, first.auditId, [settled(first.codes[0], 'invalid')]);
  const second = await loadPending(db, 'A');
  const again = { ...denied(second.codes[0], at(9), false), verdict: 'invalid' } as const;
  await recordResults(db, second.auditId, [again]);
  const state = await readCodeState(db, SELLER, 'A');
  expect(state).toMatchObject({ proof: 'known-valid', denials: denialsAt(at(1), at(2)) });
  expect(state?.known?.checkedAt).toBe(at(9).getTime());
  const [result] = await resultsOf(db, second.auditId);
  expect(result).toMatchObject({ verdict: 'invalid', proof: 'known-valid', checkedAt: at(9) });
});

it('a valid code that was denied as a proof joins the audit, and keeps it running until it is settled', async () => {
  const db = await enterSeller(mirror());
  await checked(db, 'A', 1, 'valid');
  const { auditId, codes } = await loadPending(db, 'B');
  const [b] = codes;
  await recordResults(db, auditId, [deniedCanary('A', 2), deniedCanary('nobody’s', 2)]);
  await recordResults(db, auditId, [deniedCanary('A', 3)]);
  expect(await recordResults(db, auditId, [valid(b, at(4), purchaseOf('B'))])).toBe('running');
  const [a] = (await mirror().rows<{ position: number }>(
    'SELECT position FROM mirror.audit_codes WHERE audit_id = $1 AND position < 0',
    [auditId],
  )) as [{ position: number }];
  const place = { position: a.position, code: 'A' };
  await recordResults(db, auditId, [denied(place, at(5))]);
  expect(await recordResults(db, auditId, [settled(place, 'invalid')])).toBe('finished');
  expect(await getAudit(db, auditId)).toMatchObject({ codes: 1, valid: 1, invalid: 0, denied: 0 });
  const state = await readCodeState(db, SELLER, 'A');
  expect(state?.known?.verdict).toBe('no_longer_valid');
  expect(state?.denials).toEqual(denialsAt(at(2), at(5)));
});

it('results are a snapshot, and need not be read to the end', async () => {
  const db = await enterSeller(mirror());
  const names = Array.from({ length: 4_500 }, (_, n) => `code ${n}`);
  const { auditId } = await load(db, names);
  const denials = (await pending(db, auditId)).map((code) => invalid(code, at(1)));
  let read = 0;
  for await (const { verdict, code } of readAuditResults(db, auditId)) {
    if (read === 0) await recordResults(db, auditId, denials, denials.length);
    expect([code, verdict]).toEqual([`code ${read++}`, null]);
  }
  expect(read).toBe(4_500);
  for await (const { verdict } of readAuditResults(db, auditId)) {
    expect(verdict).toBe('invalid');
    break;
  }
  // An abandoned read closes its transaction, though the server takes a moment to notice.
  const open = (): Promise<unknown> =>
    mirror().rows(
      `SELECT count(*)::int AS open FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE '%in transaction%'`,
    );
  await expect.poll(open, { timeout: 30_000 }).toEqual([{ open: 0 }]);
});

it('reading results fails when the connection is lost, instead of ending early', async () => {
  const db = await enterSeller(mirror());
  const names = Array.from({ length: 9_000 }, (_, n) => `code ${n}`);
  const { auditId } = await load(db, names);
  const readAll = async (): Promise<void> => {
    let isCut = false;
    for await (const _ of readAuditResults(db, auditId)) {
      if (isCut) continue;
      isCut = true;
      await mirror().rows(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND query LIKE 'FETCH %'`,
      );
    }
  };
  await expect(readAll()).rejects.toThrow();
});
