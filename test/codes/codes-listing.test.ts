import { expect, it } from 'vitest';
import { CODES, OUTCOMES, type Outcome, type OutcomeRow } from '../../src/codes/codes-listing.js';
import { useMirror } from '../support/mirror.js';
import { enterSeller, load } from './store-support.js';

const mirror = useMirror();

/** A list of codes on nine lines, with every outcome. */
async function auditWithOutcomes(): Promise<bigint> {
  const db = await enterSeller(mirror());
  const { auditId } = await load(db, ['a', 'b', 'a', 'c', 'd', 'e', 'f', 'b', null]);
  const settle = (code: string, verdict: string, rest = ''): Promise<unknown> =>
    mirror().rows(`UPDATE mirror.audit_codes SET verdict = '${verdict}' WHERE audit_id = ${auditId}
        AND code_id = (SELECT code_id FROM mirror.purchase_codes WHERE code = '${code}');
      UPDATE mirror.purchase_codes SET verdict = '${verdict}' ${rest} WHERE code = '${code}'`);
  await settle('a', 'valid');
  await settle('b', 'no_longer_valid', ', purchase_seen_at = now()');
  await settle('c', 'invalid');
  await settle('d', 'invalid');
  await settle('e', 'unproven');
  return auditId;
}

function readCodes(
  auditId: bigint,
  outcome: Outcome,
  page: { from?: bigint; limit: number },
): Promise<readonly OutcomeRow[]> {
  const filters = { audit: String(auditId), outcome };
  return CODES.read(mirror().db, filters, { from: null, face: 'tables', ...page });
}

it('every code of a list has one outcome, so that no code is missing from the page of its check', async () => {
  const auditId = await auditWithOutcomes();
  const found: Partial<Record<Outcome, readonly unknown[]>> = {};
  for (const outcome of OUTCOMES) {
    const rows = await readCodes(auditId, outcome, { limit: 10 });
    found[outcome] = rows.map(({ code, line, listed }) => [code, line, listed]);
  }
  expect(found).toEqual({
    no_longer_valid: [['b', 3, 2]],
    invalid: [
      ['c', 5, 1],
      ['d', 6, 1],
    ],
    unproven: [['e', 7, 1]],
    rejected: [[null, 10, 1]],
    waiting: [['f', 8, 1]],
    valid: [['a', 2, 2]],
  });
});

it('codes of an outcome come page by page, so that a long list is never read whole', async () => {
  const auditId = await auditWithOutcomes();
  const [first] = await readCodes(auditId, 'invalid', { limit: 1 });
  const from = BigInt(first?.position ?? 0);
  const rest = await readCodes(auditId, 'invalid', { from, limit: 5 });
  expect([first?.code, ...rest.map(({ code }) => code)]).toEqual(['c', 'd']);
});
