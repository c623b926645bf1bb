import { describe, expect, it } from 'vitest';
import { mergePurchase } from '../../src/codes/known-code.js';
import { useMirror } from '../support/mirror.js';
import type { Db } from '../../src/db/db.js';
import { getAudit, readAuditList, listAudits } from '../../src/codes/audits-store.js';
import { enterAudit, measureAudit } from '../../src/codes/enter-store.js';
import {
  at,
  AUDIT,
  enterSeller,
  load,
  loadPending,
  pending,
  purchaseOf,
  recordResults,
  resultsOf,
  rowsOf,
  SELLER,
  valid,
} from './store-support.js';

const mirror = useMirror();

/** Row counts of the tables that loading a list fills. */
async function rowCounts(): Promise<Record<string, unknown>> {
  const [counts] = await mirror().rows(
    `SELECT (SELECT count(*)::int FROM mirror.audits) AS audits,
            (SELECT count(*)::int FROM mirror.audit_entries) AS entries,
            (SELECT count(*)::int FROM mirror.audit_codes) AS codes,
            (SELECT count(*)::int FROM mirror.purchase_codes) AS known`,
  );
  return counts ?? {};
}

const NOTHING = { audits: 0, entries: 0, codes: 0, known: 0 };

/** Records a valid code with a check at the database's time plus `seconds`. */
async function prove(db: Db, code: string, seconds: number): Promise<void> {
  const { auditId, codes } = await loadPending(db, code);
  const [row] = await mirror().rows<{ at: Date }>(`SELECT now() + $1 * interval '1 second' AS at`, [
    seconds,
  ]);
  await recordResults(db, auditId, [valid(codes[0], row?.at as Date, purchaseOf(code))], 1);
}

describe('a list', () => {
  it('has each code once, and a result for each line', async () => {
    const db = await enterSeller(mirror());
    const { auditId, ...size } = await load(db, ['B', null, 'A', 'B', 'a', 'C']);
    expect(size).toEqual({ lines: 6, rejected: 1, codes: 4, reused: 0 });
    expect(await getAudit(db, auditId)).toMatchObject({
      ...{ auditId, sellerId: SELLER, state: 'running', source: 'customers.csv' },
      ...{ lines: 6, rejected: 1, codes: 4, reused: 0, pending: 4, valid: 0, apiCalls: 0 },
      ...{ problem: null, finishedAt: null },
    });
    const { layout, columns } = AUDIT;
    expect(await readAuditList(db, auditId)).toEqual({ layout, columns, prunedAt: null });
    const left = await pending(db, auditId);
    expect(left.map(({ code }) => code)).toEqual(['B', 'A', 'a', 'C']);
    const [b] = left;
    if (b !== undefined) await recordResults(db, auditId, [valid(b, at(1), purchaseOf('B'))], 1);
    const reply = { httpStatus: null, message: null };
    const unchecked = { checkedAt: null, reason: null, proof: null, ...reply, purchase: null };
    const open = {
      rejected: null,
      verdict: null,
      reused: false,
      denials: null,
      hasUnknownItem: false,
      ...unchecked,
    };
    const check = { checkedAt: at(1), reason: 'answered', proof: 'purchase', httpStatus: 200 };
    const found = {
      ...open,
      verdict: 'valid',
      ...check,
      purchase: mergePurchase(null, purchaseOf('B')),
    };
    const rejected = 'the code is empty';
    expect(await resultsOf(db, auditId)).toEqual([
      { line: 2, position: 0, code: 'B', columns: ['B', 'customer 0'], ...found },
      { line: 3, position: null, code: null, columns: ['', 'customer 1'], ...open, rejected },
      { line: 4, position: 1, code: 'A', columns: ['A', 'customer 2'], ...open },
      { line: 5, position: 0, code: 'B', columns: ['B', 'customer 3'], ...found },
      { line: 6, position: 2, code: 'a', columns: ['a', 'customer 4'], ...open },
      { line: 7, position: 3, code: 'C', columns: ['C', 'customer 5'], ...open },
    ]);
  });

  it('may have many records on one line, and is sent in several batches', async () => {
    const db = await enterSeller(mirror());
    const filler = 'ü'.repeat(300);
    const rows = Array.from({ length: 5_000 }, (_, n) => ({
      line: 1,
      code: `code ${n % 3_000}`,
      columns: [String(n), filler],
    }));
    const { auditId, ...size } = await enterAudit(db, AUDIT, rows);
    expect(size).toEqual({ lines: 5_000, rejected: 0, codes: 3_000, reused: 0 });
    const results = await resultsOf(db, auditId);
    expect(results.map(({ columns: [n], line, code }) => [n, line, code])).toEqual(
      rows.map(({ columns: [n], line, code }) => [n, line, code]),
    );
    expect((await pending(db, auditId)).map(({ code }) => code)).toEqual(
      rows.slice(0, 3_000).map(({ code }) => code),
    );
  });

  it('without codes to check is finished at once', async () => {
    const db = await enterSeller(mirror());
    for (const codes of [[], [null, null]]) {
      const { auditId, ...size } = await load(db, codes);
      expect(size).toMatchObject({ lines: codes.length, rejected: codes.length });
      expect(await getAudit(db, auditId)).toMatchObject({
        state: 'finished',
        pending: 0,
        finishedAt: expect.any(Date) as Date,
      });
      expect(await pending(db, auditId)).toEqual([]);
    }
  });

  it('reuses fresh verdicts, also of a clock that is ahead, and puts the rest first', async () => {
    const db = await enterSeller(mirror());
    const checks = { young: -50, old: -70, ahead: 50, 'far ahead': 70 };
    for (const [code, seconds] of Object.entries(checks)) await prove(db, code, seconds);
    const codes = ['young', 'new', 'ahead', 'old', 'far ahead', 'newer'];
    const { auditId, ...size } = await load(db, codes, { maxAgeSeconds: 60 });
    expect(size).toEqual({ lines: 6, rejected: 0, codes: 6, reused: 2 });
    const counts = { valid: 2, invalid: 0, pending: 4, reused: 2, state: 'running' };
    expect(await getAudit(db, auditId)).toMatchObject(counts);
    expect(await pending(db, auditId)).toMatchObject([
      { code: 'new', position: 0, known: null },
      { code: 'old', position: 1, known: 'valid' },
      { code: 'far ahead', position: 2 },
      { code: 'newer', position: 3 },
    ]);
    const [young] = await resultsOf(db, auditId);
    expect(young).toMatchObject({ verdict: 'valid', reused: true, proof: 'purchase' });
  });

  it('with only fresh codes is finished at once, and without a maximum age checks all', async () => {
    const db = await enterSeller(mirror());
    await prove(db, 'A', 0);
    const all = await load(db, ['A'], { maxAgeSeconds: 3_600 });
    expect(all).toMatchObject({ codes: 1, reused: 1 });
    expect(await getAudit(db, all.auditId)).toMatchObject({
      state: 'finished',
      valid: 1,
      reused: 1,
    });
    for (const maxAgeSeconds of [0, null]) {
      expect(await load(db, ['A'], { maxAgeSeconds })).toMatchObject({ reused: 0 });
    }
  });

  it('never sees the codes of another seller', async () => {
    const db = await enterSeller(mirror());
    await prove(db, 'A', 0);
    await enterSeller(mirror(), 'other');
    const size = await load(db, ['A'], { sellerId: 'other', maxAgeSeconds: 3_600 });
    expect(size).toMatchObject({ codes: 1, reused: 0 });
    expect((await pending(db, size.auditId))[0]?.known).toBeNull();
  });

  it('can be measured before it is entered', async () => {
    const db = await enterSeller(mirror());
    await prove(db, 'A', 0);
    const before = await rowCounts();
    const rows = rowsOf(['A', 'B', null, 'C', 'D', 'B']);
    const size = { lines: 6, rejected: 1, codes: 4, reused: 1 };
    expect(await measureAudit(db, { ...AUDIT, maxAgeSeconds: 60 }, rows)).toEqual(size);
    expect(await rowCounts()).toEqual(before);
  });
});

describe('a hostile list', () => {
  it('has long cells cut, and characters replaced that PostgreSQL can’t hold', async () => {
    const db = await enterSeller(mirror());
    const cells = ['a\0b', '\ud800 and \udc00', '🐘'.repeat(40_000), '', "'; DROP TABLE x; --\\"];
    const audit = {
      ...AUDIT,
      source: `list\0.csv${'x'.repeat(10_000)}`,
      layout: { delimiter: '\0', '\ud800': 1 },
      columns: ['code', 'bad\0name'],
    };
    const { auditId } = await enterAudit(db, audit, [
      { line: 1, code: 'A', columns: cells },
      { line: 2, rejected: 'the code \0 is broken', columns: [] },
    ]);
    const [first, second] = await resultsOf(db, auditId);
    const [nul, half, long, ...rest] = first?.columns ?? [];
    expect([nul, half, ...rest]).toEqual(['a\ufffdb', '\ufffd and \ufffd', ...cells.slice(3)]);
    expect(long).toMatch(/^🐘+…$/u);
    expect(long?.length).toBeLessThanOrEqual(32_767);
    expect(second).toMatchObject({
      columns: [],
      code: null,
      rejected: 'the code \ufffd is broken',
    });
    expect(await readAuditList(db, auditId)).toEqual({
      layout: { delimiter: '\ufffd', '\ufffd': 1 },
      columns: ['code', 'bad\ufffdname'],
      prunedAt: null,
    });
    expect((await getAudit(db, auditId))?.source).toMatch(/^list\ufffd\.csvx+…$/u);
  });

  it('is refused if a code could only be stored changed', async () => {
    const db = await enterSeller(mirror());
    for (const code of ['', 'a\0', '\ud800']) {
      const entering = enterAudit(db, AUDIT, [{ line: 1, code, columns: [] }]);
      await expect(entering).rejects.toThrow(RangeError);
    }
    expect(await rowCounts()).toEqual(NOTHING);
  });
});

describe('a list that is loading', () => {
  const many = rowsOf(Array.from({ length: 20_000 }, (_, n) => `code ${n}`));

  it('leaves nothing when reading it fails, and when its counts are refused', async () => {
    const db = await enterSeller(mirror());
    function* failing() {
      yield* many;
      throw new Error('cut off');
    }
    await expect(enterAudit(db, AUDIT, failing())).rejects.toThrow('cut off');
    const refused = enterAudit(db, AUDIT, rowsOf(['A', 'B']), async (size) => {
      expect(await listAudits(db, { limit: 10 })).toEqual([]);
      throw new Error(`${(await size()).codes} codes`);
    });
    await expect(refused).rejects.toThrow('2 codes');
    expect(await rowCounts()).toEqual(NOTHING);
  });

  it('leaves nothing when its connection is killed before it is entered, and the next list loads', async () => {
    const db = await enterSeller(mirror());
    const kill = async (): Promise<void> => {
      await mirror().rows(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'test' AND pid <> pg_backend_pid()
            AND query LIKE '%incoming_entries%'`,
      );
    };
    await expect(enterAudit(db, AUDIT, many, kill)).rejects.toThrow();
    expect(await rowCounts()).toEqual(NOTHING);
    expect(await load(db, ['A'])).toMatchObject({ codes: 1 });
  });

  it('takes the next audit number only when it is entered: a dry run takes none', async () => {
    const db = await enterSeller(mirror());
    const { auditId: before } = await load(db, ['A']);
    let next = 0n;
    const last = await enterAudit(db, AUDIT, rowsOf(['A', 'B']), async () => {
      expect(await measureAudit(db, AUDIT, rowsOf(['A', 'B']))).toMatchObject({ codes: 2 });
      next = (await load(db, ['A', 'C'])).auditId;
    });
    expect([next, last.auditId]).toEqual([before + 1n, before + 2n]);
  });

  it('leaves nothing when it can’t be entered, for example for an unknown seller', async () => {
    const { db } = mirror();
    await expect(load(db, ['A'], { sellerId: 'nobody' })).rejects.toThrow(/foreign key/);
    expect(await rowCounts()).toEqual(NOTHING);
  });

  it('may be entered together with others that share its codes; each code is stored once', async () => {
    const db = await enterSeller(mirror());
    const codes = Array.from({ length: 500 }, (_, n) => `code ${n}`);
    const lists = [codes, [...codes].reverse(), codes.slice(250), ['other', ...codes]];
    const sizes = await Promise.all(lists.map((list) => load(db, list)));
    expect(sizes.map((size) => size.codes)).toEqual([500, 500, 250, 501]);
    expect(await rowCounts()).toMatchObject({ audits: 4, entries: 1_751, known: 501 });
    const first = await pending(db, sizes[1]?.auditId ?? 0n);
    expect(first.map(({ code }) => code)).toEqual([...codes].reverse());
  });
});
