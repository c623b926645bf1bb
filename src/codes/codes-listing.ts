import type { Db } from '../db/db.js';
import { maskCode } from '../domain/secret.js';
import { money } from '../domain/text.js';
import type { Listing } from '../listing/listing.js';
import { factsOf } from './audit-result.js';
import { DENIALS } from './codes-store.js';
import { describeVerdict, shortReason, describeCheck, isDenial } from './evidence.js';
import { supportAt, type KnownPurchase, type Support } from './known-code.js';
import { buyerCells } from './lists/buyer.js';
import { FINDING } from './results-store.js';
import type { AuditResult, StoredCheck } from './types.js';

/** What a check found about a code of its list, most urgent first. `waiting`: nothing yet. */
export const OUTCOMES = [
  'no_longer_valid',
  'invalid',
  'unproven',
  'rejected',
  'waiting',
  'valid',
] as const;

export type Outcome = (typeof OUTCOMES)[number];

/** A code of a list, or a rejected line, with its result. */
export interface OutcomeRow extends Omit<AuditResult, 'position' | 'reused' | 'columns'> {
  /** Where the next page starts. */
  readonly position: number;
  /** The line where the code stands first. */
  readonly line: number;
  /** How many lines of the list have the code. */
  readonly listed: number;
  /** Null for a rejected line. */
  readonly codeId: bigint | null;
  /** The names of the list's columns. */
  readonly names: readonly string[];
  /** The cells of the first lines that have the code: at most `SHOWN_LINES`. */
  readonly lines: readonly (readonly string[])[];
  /** What a rejected line has in the column of codes; null: no such column, or the line has a code. */
  readonly cell: string | null;
}

/** Lines of a code whose buyers are shown beside it; the page of the code has all. */
const SHOWN_LINES = 3;

/** Which codes of `mirror.audit_codes` have an outcome. */
const CONDITIONS: Readonly<Record<Exclude<Outcome, 'rejected'>, string>> = {
  no_longer_valid: `c.verdict = 'no_longer_valid'`,
  invalid: `c.verdict = 'invalid'`,
  unproven: `c.verdict = 'unproven'`,
  waiting: 'c.verdict IS NULL',
  valid: `c.verdict = 'valid'`,
};

/** Chooses the codes first, then looks up the lines, checks and purchases of these few. */
const codesWith = (condition: string): string => `
  WITH chosen AS MATERIALIZED (
         SELECT * FROM mirror.audit_codes c
          WHERE audit_id = $1 AND position > $2 AND ${condition} ORDER BY position LIMIT $3),
       lines AS MATERIALIZED (
         SELECT position, min(line) AS line, count(*)::int AS listed
           FROM mirror.audit_entries
          WHERE audit_id = $1 AND position = ANY(ARRAY(SELECT position FROM chosen)) GROUP BY position)
  SELECT c.position, l.line, l.listed, c.code_id AS "codeId",
         coalesce(c.spelling, p.code) AS code, NULL AS rejected, a.columns AS names, own.lines, NULL AS cell,
         ${FINDING}
    FROM chosen c
    JOIN mirror.audits a ON a.audit_id = c.audit_id
    JOIN lines l ON l.position = c.position
    CROSS JOIN LATERAL (
      SELECT json_agg(columns ORDER BY entry) AS lines
        FROM (SELECT entry, columns FROM mirror.audit_entries
               WHERE audit_id = c.audit_id AND position = c.position ORDER BY entry LIMIT ${SHOWN_LINES}) few) own
    JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN mirror.code_checks k ON k.check_id = c.check_id
    LEFT JOIN LATERAL (${DENIALS}) n ON c.verdict IN ('invalid', 'no_longer_valid')
   ORDER BY c.position`;

const REJECTED = `
  SELECT e.entry AS position, e.line, 1 AS listed, NULL::bigint AS "codeId", NULL AS code, e.rejected,
         a.columns AS names, json_build_array(e.columns) AS lines,
         e.columns[array_position(a.columns, a.layout #>> '{lists,0,column}')] AS cell,
         NULL AS verdict, NULL AS "checkedAt", NULL AS proof, NULL AS reason, NULL AS "httpStatus",
         NULL AS message, NULL AS denials, NULL AS purchase, false AS "hasUnknownItem"
    FROM mirror.audit_entries e JOIN mirror.audits a ON a.audit_id = e.audit_id
   WHERE e.audit_id = $1 AND e.entry > $2 AND e.position IS NULL ORDER BY e.entry LIMIT $3`;

/** Who has a code that needs somebody, by the list's own columns: a text for each buyer; null: nobody knows. */
function buyersOf({ names, lines, code, verdict }: OutcomeRow): readonly string[] | null {
  const isSettled = verdict === 'valid' || (verdict === null && code !== null);
  if (isSettled) return null;
  const texts = lines.map((cells) =>
    buyerCells(names, cells)
      .map(({ text }) => text)
      .join(' · '),
  );
  const buyers = [...new Set(texts)].filter((text) => text !== '');
  return buyers.length === 0 ? null : buyers;
}

/** The text of a rejected line that does not stand under its buyer. */
function restOf({ names, lines }: OutcomeRow): string {
  const cells = lines[0] ?? [];
  const shown = new Set(['', ...buyerCells(names, cells).map(({ text }) => text)]);
  return cells.filter((cell) => !shown.has(cell.trim())).join(' · ');
}

/** Codes of a check with one outcome, in list order; codes that were not asked again come last. */
export const CODES: Omit<Listing<OutcomeRow, Db>, 'count'> = {
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
      value: (row) => row.code ?? restOf(row),
      forViewers: ({ code, cell }) => maskCode(code ?? cell ?? ''),
      link: ({ codeId }) => (codeId === null ? null : `/codes/${codeId}`),
    },
    { name: 'buyer', type: 'texts', value: buyersOf, forViewers: null },
    {
      name: 'why',
      type: 'text',
      value: (row) => shortReason(factsOf(row)),
      forViewers: (row) => shortReason(factsOf(row), maskCode),
    },
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
