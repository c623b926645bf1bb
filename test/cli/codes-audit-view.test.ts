import { describe, expect, it } from 'vitest';
import {
  auditDetails,
  auditsTable,
  exitCodeOf,
  summaryLines,
  unprovenLines,
} from '../../src/cli/codes/audit-view.js';
import type { AuditProgress } from '../../src/store/audits/types.js';

const look = { columns: null, colour: false };
const now = new Date('2026-11-21T13:00:00Z');
const finished: AuditProgress = {
  auditId: 12n,
  sellerId: 'main',
  state: 'finished',
  source: 'customers.csv',
  createdAt: new Date('2026-11-21T10:00:00Z'),
  finishedAt: new Date('2026-11-21T12:47:00Z'),
  lines: 10_012,
  rejected: 3,
  codes: 10_001,
  reused: 1,
  valid: 9_121,
  invalid: 871,
  unproven: 9,
  pending: 0,
  denied: 0,
  apiCalls: 10_104,
  chunkSize: 100,
  problem: null,
  result: null,
};
const running: AuditProgress = {
  ...finished,
  state: 'running',
  finishedAt: null,
  valid: 1,
  invalid: 0,
  unproven: 0,
  pending: 10_000,
};
const unproven = [
  { reason: 'refused', codes: 2 },
  { reason: 'unavailable', codes: 7 },
];

describe('the summary of an audit', () => {
  it('tells verdicts, effort, why some have none and where the result is', () => {
    expect(
      summaryLines(
        finished,
        {
          unproven,
          accountProven: 0,
          place: { path: 'result.csv', format: 'csv' },
          program: 'seller-mirror',
        },
        look,
      ),
    ).toBe(
      [
        '! audit 12 · main · customers.csv · 9,121 valid · 871 invalid · 9 unproven',
        '  10,104 requests in 2 h 47 min · 1 verdict known already · 3 lines rejected',
        '  7 codes: the marketplace was not available → ask again later',
        '  2 codes: the marketplace refused the API key → check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it',
        '  result: result.csv',
        '  → check the list again with --max-age 7d: only codes without a verdict are asked for',
        '',
      ].join('\n'),
    );
  });

  it('of one that has not ended says how to go on', () => {
    const notes = { unproven: [], accountProven: 0, place: null, program: 'seller-mirror' };
    const text = summaryLines(running, notes, look);
    expect(text).toContain('10,000 codes not asked yet');
    expect(text).toContain('→ seller-mirror audits resume 12\n');
    expect(text).toContain('→ seller-mirror audits export 12 --out result.csv\n');
  });

  it('is a good end only with a verdict on every code', () => {
    expect(exitCodeOf(finished)).toBe(4);
    expect(exitCodeOf({ ...finished, unproven: 0 })).toBe(0);
    expect(exitCodeOf({ ...finished, state: 'cancelled', unproven: 0 })).toBe(1);
    expect(exitCodeOf({ ...finished, state: 'failed', unproven: 0 })).toBe(1);
  });
});

describe('audits for a person', () => {
  it('are a table in which nothing is done before it is', () => {
    const almost = { ...running, pending: 1 };
    const text = auditsTable([finished, almost], look);
    expect(text.split('\n')[1]).toMatch(
      /^ +12 +main +customers\.csv +finished +\S+ \S+ +10001 +9121/,
    );
    expect(text.split('\n')[2]).toMatch(/unfinished, 99 %/);
  });

  it('are shown whole, one by one, with problems and how to go on', () => {
    const text = auditDetails(
      { ...running, problem: 'the marketplace refused the API key' },
      { unproven, reading: ['Read as csv.'], costLeft: '10 calls', next: ['audits resume 12'] },
      look,
      now,
    );
    expect(text).toMatch(/^audit 12 · main · customers\.csv · unfinished\n/);
    expect(text).toContain('begun          2026-11-21 10:00:00Z, 3 h ago\n');
    expect(text).toContain('lines          10,012 (3 rejected, 8 with a code listed before)\n');
    expect(text).toContain('codes          10,001 (1 checked lately enough)\n');
    expect(text).toContain('problem        the marketplace refused the API key\n');
    expect(text).toContain('how the list was read\n  Read as csv.\n');
    expect(text).toContain('to go on\n  audits resume 12\n');
    expect(text).not.toMatch(/^finished/m);
  });

  it('tell the most frequent reason first', () => {
    expect(unprovenLines(unproven).map((line) => line.split(':')[0])).toEqual([
      '7 codes',
      '2 codes',
    ]);
  });
});
