/** What is said about a line of a list: the columns of a result, each described once for CSV, JSON and workbooks. Pure. */

import { VERDICT_TONES, type WorkbookColumn } from '../listing/workbook-column.js';
import { describeVerdict, foundForm, shortReason, type RecordFacts } from './evidence.js';
import { supportAt, type KnownPurchase } from './known-code.js';
import { isInvalid, type Verdict } from './rules.js';
import type { CodeState, StoredCheck } from './types.js';

/** What is known of a record, with the marketplace’s last reply. */
interface Finding extends RecordFacts {
  readonly httpStatus: number | null;
  readonly message: string | null;
}

/** A record of a list with the result of its code. */
export interface AuditResult extends Finding {
  readonly line: number;
  readonly columns: readonly string[];
  /** How often the list has the code; null if the record was rejected. */
  readonly listed: number | null;
  /** Who sold the code, where several sellers were asked; null: nobody, as far as we know. */
  readonly seller: string | null;
}

/** A code with its verdict. */
export interface Answer extends Finding {
  readonly verdict: Verdict;
  readonly code: string;
}

type Value = string | number | null;

/** What a column is made of: a line of a list, or an answer about a code. */
type Told = RecordFacts & Partial<Pick<AuditResult, 'listed' | 'seller'>>;

export interface ResultColumn extends WorkbookColumn {
  /** Null: unknown, written as an empty cell or as `null` in JSON. @param now for the support, milliseconds since 1970 */
  readonly value: (of: Told, now: number) => Value;
}

const text = (name: string, width: number, value: ResultColumn['value']): ResultColumn => {
  return { name, kind: 'text', width, value };
};

/** Without a verdict the purchase is empty. For a code that is no longer valid it is the last known one. */
const purchaseOf = (of: Told): KnownPurchase | null => (isProven(of) ? of.purchase : null);

function isProven({ verdict }: RecordFacts): boolean {
  return verdict === 'valid' || isInvalid(verdict);
}

/** The columns that a result adds to its list. Widths are in characters. */
export const RESULT_COLUMNS: readonly ResultColumn[] = [
  { ...text('verdict', 16, ({ verdict }) => verdict), tones: VERDICT_TONES },
  text('reason', 50, (of) => shortReason(of)),
  text('license_type', 14, (of) => purchaseOf(of)?.licenseType ?? null),
  text('item_id', 12, (of) => purchaseOf(of)?.item?.id ?? null),
  text('item_name', 32, (of) => purchaseOf(of)?.item?.name ?? null),
  { name: 'price', kind: 'number', value: (of) => purchaseOf(of)?.price ?? null },
  text('currency', 10, (of) => purchaseOf(of)?.currency ?? null),
  { name: 'purchased_at', kind: 'moment', value: (of) => purchaseOf(of)?.purchasedAt ?? null },
  {
    name: 'supported_until',
    kind: 'moment',
    value: (of) => purchaseOf(of)?.supportedUntil ?? null,
  },
  // A code that is no longer valid has lost its support.
  text('support', 10, ({ verdict, purchase }, now) =>
    verdict === 'valid' && purchase !== null ? supportAt(purchase, now) : null,
  ),
  text('downloaded', 12, (of) => yesOrNo(purchaseOf(of)?.downloaded ?? null)),
  {
    name: 'checked_at',
    kind: 'moment',
    value: ({ checkedAt }) => checkedAt?.toISOString() ?? null,
  },
  { name: 'listed', kind: 'number', width: 8, value: ({ listed = null }) => listed },
  text('proof', 14, (of) => (isProven(of) ? of.proof : 'none')),
  text('evidence', 70, evidenceOf),
];

/** Stands before the others where several sellers were asked. */
export const SELLER_COLUMN = text('seller', 14, ({ seller = null }) => seller ?? '');

function yesOrNo(flag: boolean | null): string | null {
  if (flag === null) return null;
  return flag ? 'yes' : 'no';
}

/** The whole reason, and in which form the marketplace knows the code if the list has another. */
function evidenceOf(of: Told): string {
  const found = foundForm(of);
  const other = found === null ? '' : `; it knows the code as ${found}, not as it is in the list`;
  return `${describeVerdict(of)}${other}`;
}

/** The columns of an answer about a code, by their names. @param now milliseconds since 1970 */
export function answerColumns(answer: RecordFacts, now: number): Readonly<Record<string, Value>> {
  const columns = RESULT_COLUMNS.filter(({ name }) => name !== 'listed');
  return Object.fromEntries(columns.map(({ name, value }) => [name, value(answer, now)]));
}

/** Takes the newest proven verdict or, without one, the reason why the last check proved nothing. */
export function answerFromChecks(state: CodeState, checks: readonly StoredCheck[]): Answer {
  const { code, known, proof, denials, lastCheckId, hasUnknownItem } = state;
  const verdict = known?.verdict ?? 'unproven';
  const check = known === null ? checks[0] : checks.find(({ checkId }) => checkId === lastCheckId);
  // The check was recorded as `unconfirmed`, before the code was called invalid.
  const reason = isInvalid(verdict) ? 'denied' : check?.reason;
  return {
    code,
    verdict,
    denials,
    hasUnknownItem,
    reason: reason ?? 'it was not checked yet',
    proof: proof ?? 'none',
    purchase: known?.purchase ?? null,
    checkedAt: known === null ? (check?.checkedAt ?? null) : new Date(known.checkedAt),
    httpStatus: check?.httpStatus ?? null,
    message: check?.message ?? null,
  };
}
