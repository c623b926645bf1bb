import { expect, it } from 'vitest';
import type { AuditResult } from '../../../src/store/audits/types.js';
import { useMirror } from '../../support/mirror.js';
import {
  at,
  denied,
  enterSeller,
  invalid,
  load,
  loadPending,
  pending,
  purchaseOf,
  SELLER,
  unproven,
  valid,
} from './support.js';

const mirror = useMirror();

it('results tell what this audit found, whatever a later one found, and the purchase as known now', async () => {
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
  const results: AuditResult[] = [];
  for await (const row of audits.results(first.auditId)) results.push(row);
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

it('results tell how often and when an invalid code was denied, also in an audit that took the verdict over', async () => {
  const audits = await enterSeller(mirror());
  const first = await loadPending(audits, 'A', 'B');
  const [a, b] = first.codes;
  await audits.record(first.auditId, [denied(a, at(1)), invalid(b, at(1))], 2);
  await audits.record(first.auditId, [unproven(a, at(2))], 1);
  await audits.record(first.auditId, [denied(a, at(3))], 1);
  await audits.settleDenied(first.auditId, 'invalid');
  const second = await load(audits, ['A', 'B'], { maxAgeSeconds: 1_000_000_000 });
  for (const auditId of [first.auditId, second.auditId]) {
    const results: AuditResult[] = [];
    for await (const row of audits.results(auditId)) results.push(row);
    expect(results.map(({ verdict, denials }) => [verdict, denials])).toEqual([
      ['invalid', { times: 2, firstAt: at(1), lastAt: at(3) }],
      ['invalid', { times: 1, firstAt: at(1), lastAt: at(1) }],
    ]);
  }
  const known = await audits.knownCodes(SELLER, ['A', 'B']);
  expect(known.get('A')?.denials).toEqual({ times: 2, firstAt: at(1), lastAt: at(3) });
  expect(known.get('B')?.denials).toEqual({ times: 1, firstAt: at(1), lastAt: at(1) });
});

it('of a code that was denied as a canary the two denials count that made it invalid', async () => {
  const audits = await enterSeller(mirror());
  const { auditId, codes } = await loadPending(audits, 'A');
  await audits.record(auditId, [valid(codes[0], at(1), purchaseOf('A'))], 1);
  const canary = { code: 'A', proof: 'canary', httpStatus: 404, message: 'no' };
  // Found again after the first, which therefore says nothing.
  await audits.recordDeniedCanaries(SELLER, [{ ...canary, checkedAt: at(2) }], [], 60_000);
  await audits.recordDeniedCanaries(SELLER, [], ['A'], 60_000);
  for (const minute of [10, 12]) {
    await audits.recordDeniedCanaries(SELLER, [{ ...canary, checkedAt: at(minute) }], [], 60_000);
  }
  const state = (await audits.knownCodes(SELLER, ['A'])).get('A');
  expect(state?.known?.verdict).toBe('invalid');
  expect(state?.denials).toEqual({ times: 2, firstAt: at(10), lastAt: at(12) });
});

it('results are those of one moment, however long the reading takes, and need not be read to the end', async () => {
  const audits = await enterSeller(mirror());
  const { auditId } = await load(
    audits,
    Array.from({ length: 4_500 }, (_, n) => `code ${n}`),
    { chunkSize: 5_000 },
  );
  const codes = await pending(audits, auditId);
  let read = 0;
  for await (const { verdict, code } of audits.results(auditId)) {
    if (read === 0) {
      await audits.record(
        auditId,
        codes.map((one) => invalid(one, at(1))),
        4_500,
      );
    }
    expect([code, verdict]).toEqual([`code ${read++}`, null]);
  }
  expect(read).toBe(4_500);
  for await (const { verdict } of audits.results(auditId)) {
    expect(verdict).toBe('invalid');
    break;
  }
  // What nobody reads any more holds no transaction open; the server takes a moment to end it.
  const open = (): Promise<unknown> =>
    mirror().rows(
      `SELECT count(*)::int AS open FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE '%in transaction%'`,
    );
  await expect.poll(open, { timeout: 30_000 }).toEqual([{ open: 0 }]);
});

it('results fail when their connection is lost, instead of ending early', async () => {
  const audits = await enterSeller(mirror());
  const { auditId } = await load(
    audits,
    Array.from({ length: 9_000 }, (_, n) => `code ${n}`),
  );
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

it('results of an audit that is not there are none', async () => {
  const audits = await enterSeller(mirror());
  const rows: AuditResult[] = [];
  for await (const row of audits.results(4_711n)) rows.push(row);
  expect(rows).toEqual([]);
});
