import type { Db } from '../db/db.js';
import { money } from '../domain/text.js';
import type { Listing } from '../listing/listing.js';
import { factsOf } from './audit-result.js';
import { DENIALS } from './codes-store.js';
import { describeVerdict, shortReason, describeCheck, isDenial } from './evidence.js';
import { supportAt, type KnownPurchase, type Support } from './known-code.js';
import { FINDING } from './results-store.js';
import type { AuditResult, StoredCheck } from './types.js';

/** What a check found about a code of its list, most urgent first. `waiting`: nothing yet. */
export const OUTCOMES = [
  'no longer valid',
  'invalid',
  'unproven',
  'rejected',
  'waiting',
  'valid',
] as const;

export type Outcome = (typeof OUTCOMES)[number];

/** A code of a list, or a rejected line, with its result. */
export interface OutcomeRow extends Omit<AuditResult, 'position' | 'reused'> {
  /** Where the next page starts. */
  readonly position: number;
  /** The line where the code stands first. */
  readonly line: number;
  /** How many lines of the list have the code. */
  readonly listed: number;
  /** Null for a rejected line. */
  readonly codeId: bigint | null;
}

/** Which codes of `mirror.audit_codes` have an outcome. */
const CONDITIONS: Readonly<Record<Exclude<Outcome, 'rejected'>, string>> = {
  'no longer valid': `c.verdict = 'no_longer_valid'`,
  invalid: `c.verdict = 'invalid'`,
  unproven: `c.verdict = 'unproven'`,
  waiting: 'c.verdict IS NULL',
  valid: `c.verdict = 'valid'`,
};

/**
 * Chooses the codes first, then looks up the lines, checks and purchases of these few. The lines are one scan of the
 * list: no index finds the lines of a code.
 */
const codesWith = (condition: string): string => `
  WITH chosen AS MATERIALIZED (
         SELECT * FROM mirror.audit_codes c
          WHERE audit_id = $1 AND position > $2 AND ${condition} ORDER BY position LIMIT $3),
       lines AS MATERIALIZED (
         SELECT position, min(line) AS line, count(*)::int AS listed
           FROM mirror.audit_entries
          WHERE audit_id = $1 AND position = ANY(ARRAY(SELECT position FROM chosen)) GROUP BY position)
  SELECT c.position, l.line, l.listed, c.code_id AS "codeId",
         coalesce(c.spelling, p.code) AS code, NULL AS rejected, '{}'::text[] AS columns,
         ${FINDING}
    FROM chosen c
    JOIN lines l ON l.position = c.position
    JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (${DENIALS}) n ON c.verdict IN ('invalid', 'no_longer_valid')
   ORDER BY c.position`;

const REJECTED = `
  SELECT entry AS position, line, 1 AS listed, NULL::bigint AS "codeId", NULL AS code, rejected, columns,
         NULL AS verdict, NULL AS "checkedAt", NULL AS proof, NULL AS reason, NULL AS "httpStatus",
         NULL AS message, NULL AS denials, NULL AS purchase, false AS "hasUnknownItem"
    FROM mirror.audit_entries
   WHERE audit_id = $1 AND entry > $2 AND position IS NULL ORDER BY entry LIMIT $3`;

/** Codes of a check with one outcome, in list order; codes that were not asked again come last. */
export const CODES: Listing<OutcomeRow, Db> = {
  name: 'codes',
  about: 'The codes of a list and what a check found about them.',
  none: 'No more codes.',
  columns: [
    {
      name: 'line',
      type: 'word',
      value: ({ line, listed }) => (listed > 1 ? `${line} and ${listed - 1} more` : line),
    },
    {
      name: 'code',
      type: 'secret',
      // A rejected line has no code, only text.
      value: ({ code, columns }) => code ?? columns.join(' · '),
      link: ({ codeId }) => (codeId === null ? null : `/codes/${codeId}`),
    },
    { name: 'why', type: 'text', value: (row) => shortReason(factsOf(row)) },
    { name: 'item', type: 'text', value: ({ purchase }) => purchase?.item?.name ?? null },
    {
      name: 'support',
      type: 'word',
      value: ({ verdict, purchase }) =>
        verdict === 'valid' && purchase !== null ? supportAt(purchase, Date.now()) : null,
    },
    {
      name: 'proof',
      type: 'proof',
      value: (row) => (row.verdict === null ? null : describeVerdict(factsOf(row))),
    },
  ],
  filters: [
    { name: 'audit', about: 'codes of this audit', type: 'number' },
    { name: 'outcome', about: 'codes with this outcome', type: 'choice', choices: OUTCOMES },
  ],
  next: ({ position }) => BigInt(position),
  async read({ pool }, { audit, outcome }, { from, limit }) {
    const sql =
      outcome === 'rejected'
        ? REJECTED
        : codesWith(CONDITIONS[(outcome ?? 'valid') as keyof typeof CONDITIONS]);
    // A known valid code that was denied as a proof has a negative position: it stands in no line.
    return (await pool.query<OutcomeRow>(sql, [audit, from ?? -1n, limit])).rows;
  },
};

/** A purchase with its seller and the verdict on its code. */
interface ShownPurchase extends KnownPurchase {
  readonly sellerId: string;
  /** Null for an invalid code, whose support has ended with it. */
  readonly support: Support | null;
}

/** A purchase, as `codes check` and `codes show` print it and the page of a code shows it. */
export const PURCHASE_COLUMNS: Listing<ShownPurchase, Db>['columns'] = [
  { name: 'licence', type: 'text', value: ({ licenseType }) => licenseType },
  {
    name: 'item',
    type: 'text',
    value: ({ item }) =>
      item === null
        ? null
        : [item.id, item.name].filter((part) => part !== null).join(' · ') || item.url,
    link: ({ sellerId, item }) =>
      item === null || item.id === null
        ? null
        : `/items/${encodeURIComponent(sellerId)}/${item.id}`,
  },
  { name: 'price', type: 'money', value: (one) => one.price && money(one.price, one.currency) },
  { name: 'purchased', type: 'moment', value: ({ purchasedAt }) => momentOf(purchasedAt) },
  { name: 'support', type: 'word', value: ({ support }) => support },
  {
    name: 'until',
    type: 'moment',
    value: ({ support, supportedUntil }) => (support === null ? null : momentOf(supportedUntil)),
  },
  {
    name: 'downloaded',
    type: 'word',
    value: ({ downloaded }) => (downloaded === null ? null : downloaded ? 'yes' : 'no'),
  },
];

function momentOf(text: string | null): Date | null {
  return text === null ? null : new Date(text);
}

/** The checks of a code, as `codes show` and the page of the code show them. */
export const CHECKS: Pick<Listing<StoredCheck, Db>, 'name' | 'none' | 'columns'> = {
  name: 'checks',
  none: 'Not checked yet.',
  columns: [
    { name: 'checked', type: 'moment', value: ({ checkedAt }) => checkedAt },
    {
      name: 'verdict',
      type: 'state',
      value: (check) => (isDenial(check) ? 'denied' : check.verdict),
    },
    {
      name: 'response',
      type: 'text',
      value: ({ httpStatus, message }) =>
        [httpStatus, message].filter((one) => one !== null && one !== '').join(' '),
    },
    {
      name: 'audit',
      type: 'number',
      value: ({ auditId }) => auditId,
      link: ({ auditId }) => (auditId === null ? null : `/audits/${auditId}`),
    },
    { name: 'proof', type: 'long text', value: describeCheck },
  ],
};
