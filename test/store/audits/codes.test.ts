import { describe, expect, it } from 'vitest';
import type { Store } from '../../../src/store/store.js';
import { type Mirror, useMirror } from '../../support/mirror.js';
import {
  at,
  checkpointsAround,
  denialAt,
  denied,
  enterSeller,
  invalid,
  ITEM,
  load,
  loadPending,
  pending,
  purchaseOf,
  resultsOf,
  SELLER,
  unproven,
  valid,
} from './support.js';

const mirror = useMirror();

async function itemIn(mirrored: Mirror, itemId: number, state: string): Promise<void> {
  await mirrored.rows(
    `INSERT INTO mirror.items (seller_id, item_id, name, options, tags, screenshots, state, first_seen_at,
       changed_at, synced_run_id, valid_from, content_hash, extra_hash, wire_hash, extra, raw)
     VALUES ($1, $2, 'item', '{}', '{}', '{}', $3::mirror.item_state, now(), now(), 1, now(), '', '', '',
             '{}', '{}')`,
    [SELLER, itemId, state],
  );
}

async function checked(
  audits: Store['audits'],
  code: string,
  minute: number,
  verdict: 'valid' | 'invalid',
  itemId = ITEM.id,
): Promise<void> {
  const { auditId, codes } = await loadPending(audits, code);
  const [place] = codes;
  const result =
    verdict === 'valid'
      ? valid(place, at(minute), purchaseOf(code, { ...ITEM, id: itemId }))
      : invalid(place, at(minute));
  await audits.record(auditId, [result], 1);
}

const deniedCanary = (code: string, minute: number) => ({
  code,
  proof: 'canary',
  httpStatus: 404,
  message: 'no',
  checkedAt: at(minute),
  checkpoints: checkpointsAround(at(minute)),
});

describe('codes of a seller', () => {
  it('are canaries in this order: live items first, then different items, then the latest check', async () => {
    const audits = await enterSeller(mirror());
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
    for (const [code, item, minute] of sold) await checked(audits, code, minute, 'valid', item);
    await checked(audits, 'refunded', 8, 'valid');
    await checked(audits, 'refunded', 10, 'invalid');
    expect(await audits.canariesOf(SELLER, 9)).toEqual(['b', 'e', 'a', 'f', 'd', 'c']);
    await audits.recordDeniedCanaries(SELLER, [deniedCanary('b', 20)], [], 60_000);
    expect(await audits.canariesOf(SELLER, 2)).toEqual(['a', 'e']);
  });

  it('share the budget of their marketplace: running audits are counted over its sellers', async () => {
    const { store } = mirror();
    const audits = await enterSeller(mirror());
    const host = 'https://shared.example';
    for (const seller of ['one', 'two']) await store.sellers.ensure(seller, host);
    expect(await audits.countRunning(host)).toBe(0);
    const { auditId } = await load(audits, ['a'], { sellerId: 'one' });
    for (const sellerId of ['one', 'two', SELLER]) await load(audits, ['a'], { sellerId });
    expect(await audits.countRunning(host)).toBe(3);
    await audits.cancel(auditId);
    expect(await audits.countRunning(host)).toBe(2);
  });

  it('have checks, the newest first', async () => {
    const audits = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(audits, 'A');
    const [a] = codes;
    await audits.record(auditId, [unproven(a, at(1)), unproven(a, at(2))], 2);
    const found = valid(a, at(3), purchaseOf('A'));
    await audits.record(auditId, [found], 1);
    const untimed = { checkpointBefore: null, checkpointAfter: null };
    const row = { checkId: expect.any(BigInt) as bigint, auditId, message: null, ...untimed };
    const answered = { verdict: 'valid', reason: 'answered', proof: 'purchase', httpStatus: 200 };
    const failed = { verdict: 'unproven', reason: 'unavailable', proof: 'none', httpStatus: 503 };
    expect(await audits.checksOf(a.codeId, 2)).toEqual([
      { ...row, ...answered, checkedAt: at(3), rawHash: found.rawHash },
      { ...row, ...failed, checkedAt: at(2), rawHash: null },
    ]);
    expect(await audits.checksOf(4_711n, 2)).toEqual([]);
  });

  it('can’t be deleted while there are checks of them', async () => {
    const audits = await enterSeller(mirror());
    const { auditId, codes } = await loadPending(audits, 'A', 'B');
    await audits.record(auditId, [unproven(codes[0], at(1))], 1);
    const forget = (code: string): Promise<unknown> =>
      mirror().pool.query('DELETE FROM mirror.purchase_codes WHERE code = $1', [code]);
    await expect(forget('A')).rejects.toThrow(/has rows in mirror.code_checks/);
    await forget('B');
    expect(await mirror().rows('SELECT code FROM mirror.purchase_codes')).toEqual([{ code: 'A' }]);
  });

  it('are rechecked in this order: support ends soon or ended since the check, then by age of the check', async () => {
    const audits = await enterSeller(mirror());
    await loadPending(audits, 'never checked');
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
    const all = await audits.codesToRecheck(SELLER, filter, now);
    expect(all).toEqual([
      ...['ended', 'ends soon', 'oldest', 'ended before the check', 'ends later'],
      ...['invalid', 'recent'],
    ]);
    const few = { ...filter, validOnly: true, limit: 6 };
    expect(await audits.codesToRecheck(SELLER, few, now)).toEqual(all.toSpliced(5, 1));
  });
});

it('results have the verdicts of their audit, not of a later one, and the purchase as known now', async () => {
  const audits = await enterSeller(mirror());
  const first = await loadPending(audits, 'A', 'B', 'C');
  const [a, b, c] = first.codes;
  const old = purchaseOf('A');
  await audits.record(
    first.auditId,
    [valid(a, at(1), old), invalid(b, at(1)), unproven(c, at(1), true)],
    3,
  );
  const second = await loadPending(audits, 'A', 'B', 'C');
  const [a2, b2, c2] = second.codes;
  const newer = { ...old, value: { ...old.value, licenseType: 'Extended' } };
  await audits.record(
    second.auditId,
    [valid(b2, at(2), purchaseOf('B')), valid(a2, at(2), newer), unproven(c2, at(2))],
    3,
  );
  const results = await resultsOf(audits, first.auditId);
  expect(results).toMatchObject([
    { code: 'A', verdict: 'valid', checkedAt: at(1), purchase: { licenseType: 'Extended' } },
    { code: 'B', verdict: 'invalid', checkedAt: at(1), proof: 'canary', reason: 'denied' },
    { code: 'C', verdict: 'unproven', proof: 'none', reason: 'unavailable', purchase: null },
  ]);
  expect(await audits.unprovenCounts(first.auditId)).toEqual([{ reason: 'unavailable', codes: 1 }]);
  expect(await audits.unprovenCounts(second.auditId)).toEqual([
    { reason: 'unavailable', codes: 1 },
  ]);
});

it('results have the denials of an invalid code, also in an audit that reused the verdict', async () => {
  const audits = await enterSeller(mirror());
  const first = await loadPending(audits, 'A', 'B');
  const [a, b] = first.codes;
  await audits.record(first.auditId, [denied(a, at(1)), invalid(b, at(1))], 2);
  await audits.record(first.auditId, [unproven(a, at(2))], 1);
  await audits.record(first.auditId, [denied(a, at(3))], 1);
  await audits.settleDenied(first.auditId, 'invalid');
  const second = await load(audits, ['A', 'B'], { maxAgeSeconds: 1_000_000_000 });
  const twice = { times: 2, first: denialAt(at(1)), last: denialAt(at(3)) };
  const once = { times: 1, first: denialAt(at(1)), last: denialAt(at(1)) };
  for (const auditId of [first.auditId, second.auditId]) {
    const results = await resultsOf(audits, auditId);
    expect(results.map(({ verdict, denials }) => [verdict, denials])).toEqual([
      ['invalid', twice],
      ['invalid', once],
    ]);
  }
  const known = await audits.knownCodes(SELLER, ['A', 'B']);
  expect(known.get('A')?.denials).toEqual(twice);
  expect(known.get('B')?.denials).toEqual(once);
  // Older versions did not record checkpoints.
  await mirror().pool.query(
    `UPDATE mirror.code_checks SET checkpoint_before = NULL, checkpoint_after = NULL
      WHERE checked_at = $1`,
    [at(1)],
  );
  expect((await audits.knownCodes(SELLER, ['A'])).get('A')?.denials).toEqual({
    times: 2,
    first: { at: at(1).getTime(), checkpoints: null },
    last: { at: at(3).getTime(), checkpoints: null },
  });
});

it('a canary that became invalid has the two denials that made it so', async () => {
  const audits = await enterSeller(mirror());
  await checked(audits, 'A', 1, 'valid');
  // Found again after the first denial, which therefore no longer counts.
  await audits.recordDeniedCanaries(SELLER, [deniedCanary('A', 2)], [], 60_000);
  await audits.recordDeniedCanaries(SELLER, [], ['A'], 60_000);
  for (const minute of [10, 12]) {
    await audits.recordDeniedCanaries(SELLER, [deniedCanary('A', minute)], [], 60_000);
  }
  const state = (await audits.knownCodes(SELLER, ['A'])).get('A');
  expect(state?.known?.verdict).toBe('invalid');
  expect(state?.denials).toEqual({ times: 2, first: denialAt(at(10)), last: denialAt(at(12)) });
});

it('results are a snapshot, and need not be read to the end', async () => {
  const audits = await enterSeller(mirror());
  const names = Array.from({ length: 4_500 }, (_, n) => `code ${n}`);
  const { auditId } = await load(audits, names, { chunkSize: 5_000 });
  const denials = (await pending(audits, auditId)).map((code) => invalid(code, at(1)));
  let read = 0;
  for await (const { verdict, code } of audits.results(auditId)) {
    if (read === 0) await audits.record(auditId, denials, denials.length);
    expect([code, verdict]).toEqual([`code ${read++}`, null]);
  }
  expect(read).toBe(4_500);
  for await (const { verdict } of audits.results(auditId)) {
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
  const audits = await enterSeller(mirror());
  const names = Array.from({ length: 9_000 }, (_, n) => `code ${n}`);
  const { auditId } = await load(audits, names);
  const readAll = async (): Promise<void> => {
    let isCut = false;
    for await (const _ of audits.results(auditId)) {
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
