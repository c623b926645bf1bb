import { expect, it } from 'vitest';
import type { AuditResult } from '../../../src/store/audits/types.js';
import { useMirror } from '../../support/mirror.js';
import {
  at,
  enterSeller,
  invalid,
  load,
  loadPending,
  pending,
  purchaseOf,
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
