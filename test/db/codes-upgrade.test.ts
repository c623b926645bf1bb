import { expect, it } from 'vitest';
import { query } from '../support/postgres.js';
import { upgraded } from './support.js';

const AUDIT = (id: number, valid: number, invalid: number) =>
  `INSERT INTO mirror.audits (audit_id, seller_id, state, source, layout, columns, lines, rejected, codes, reused,
                              valid, invalid, unproven, pending)
   VALUES (${id}, 'main', 'finished', 'customers.csv', '{"lists": []}', '{code,name}', 3, 0, 3, 0, ${valid}, ${invalid}, 0, 0);`;

const CODE = (id: number, code: string, verdict: string, at: string, answered: string | null) => {
  const seen = answered === null ? 'NULL' : `'${at}'`;
  const spelling = answered === null ? 'NULL' : `'${answered}'`;
  return `
  INSERT INTO mirror.purchase_codes (code_id, seller_id, code, verdict, proof, verdict_since, first_checked_at,
                                     last_checked_at, purchase_seen_at, answered_code, price, currency)
  VALUES (${id}, 'main', '${code}', '${verdict}', 'purchase', '${at}', '${at}', '${at}', ${seen}, ${spelling}, 19.90, 'USD');
  INSERT INTO mirror.code_checks (check_id, seller_id, code_id, audit_id, checked_at, verdict, reason, proof)
  VALUES (${id}, 'main', ${id}, 1, '${at}', '${verdict}', 'answered', 'purchase');
  INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, verdict, check_id, reused)
  VALUES (1, ${id}, 'main', ${id}, '${verdict}', ${id}, false);
  INSERT INTO mirror.audit_entries (audit_id, entry, seller_id, line, position, columns)
  VALUES (1, ${id}, 'main', ${id}, ${id}, '{${code},buyer ${id}}');`;
};

const SELLER = `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'market.example');`;

it('spellings of one code become one purchase in an upgrade, since their prices were summed three times', async () => {
  const url = await upgraded(`${SELLER}${AUDIT(1, 3, 0)}
    ${CODE(1, 'x-1', 'valid', '2026-01-01', 'X-1')}
    ${CODE(2, 'Purchase code: X-1', 'valid', '2026-03-01', 'X-1')}
    ${CODE(3, 'X-1', 'valid', '2026-02-01', null)}
    ${CODE(4, 'Y-1', 'valid', '2026-02-01', null)}`);
  expect(
    await query(
      url,
      'SELECT code_id::int, code, sum(price)::text FROM reporting.purchases GROUP BY 1, 2 ORDER BY 1',
    ),
  ).toEqual([
    { code_id: 1, code: 'x-1', sum: '19.90' },
    { code_id: 4, code: 'Y-1', sum: '19.90' },
  ]);
  // The newest verdict stays, the checks and the lists moved, and the proof is asked as it was found.
  expect(
    await query(
      url,
      `SELECT last_checked_at::date::text AS last, verdict_since::date::text AS since, found_form,
              (SELECT count(*)::int FROM mirror.code_checks c WHERE c.code_id = p.code_id) AS checks
         FROM mirror.purchase_codes p WHERE code_id = 1`,
    ),
  ).toEqual([{ last: '2026-03-01', since: '2026-01-01', found_form: 'X-1', checks: 3 }]);
  expect(
    await query(
      url,
      `SELECT line, columns FROM reporting.listed_codes WHERE code_id = 1 ORDER BY line`,
    ),
  ).toEqual([
    { line: 1, columns: { code: 'x-1', name: 'buyer 1' } },
    { line: 2, columns: { code: 'Purchase code: X-1', name: 'buyer 2' } },
    { line: 3, columns: { code: 'X-1', name: 'buyer 3' } },
  ]);
  expect(
    await query(
      url,
      'SELECT code_id::int, merged_into::int, verdict FROM mirror.purchase_codes WHERE code_id IN (2, 3) ORDER BY 1',
    ),
  ).toEqual([
    { code_id: 2, merged_into: 1, verdict: null },
    { code_id: 3, merged_into: 1, verdict: null },
  ]);
});

it('codes that were valid before are counted apart after an upgrade, also where spellings disagree', async () => {
  const url = await upgraded(`${SELLER}${AUDIT(1, 1, 3)}
    ${CODE(1, 'never', 'invalid', '2026-01-01', null)}
    ${CODE(2, 'refunded', 'invalid', '2026-01-01', 'refunded')}
    ${CODE(3, 'sold', 'valid', '2026-01-01', 'SOLD')}
    ${CODE(4, 'SOLD', 'invalid', '2026-02-01', null)}`);
  expect(
    await query(
      url,
      'SELECT code_id::int, verdict::text FROM mirror.purchase_codes WHERE merged_into IS NULL ORDER BY 1',
    ),
  ).toEqual([
    { code_id: 1, verdict: 'invalid' },
    { code_id: 2, verdict: 'no_longer_valid' },
    { code_id: 3, verdict: 'no_longer_valid' },
  ]);
  expect(await query(url, 'SELECT valid, invalid, no_longer_valid FROM mirror.audits')).toEqual([
    { valid: 1, invalid: 2, no_longer_valid: 1 },
  ]);
});
