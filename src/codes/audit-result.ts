import { PLAIN_CSV, type CsvDialect } from '../domain/csv.js';
import { describeVerdict, foundForm, shortReason, type RecordFacts } from './evidence.js';
import { supportAt } from './known-code.js';
import { isInvalid, type Verdict } from './rules.js';
import type { Json } from '../domain/item.js';
import {
  ADDED_COLUMNS,
  type Result,
  RESULT_COLUMNS,
  resultPieces,
  type ResultFormat,
  type ResultRow,
} from './lists/result.js';
import type { Db } from '../db/db.js';
import { readAuditList } from './audits-store.js';
import { readAuditResults, readRepeated } from './results-store.js';
import { readAuditWorkbook } from './enter-store.js';
import type { AuditProgress, AuditResult, CodeState, StoredCheck } from './types.js';

interface ResultContent {
  /** For its file, without an ending: that of the list, such as `customers checked`. */
  readonly name: string;
  readonly pieces: AsyncGenerator<string | Uint8Array, void, undefined>;
}

/** An audit, and whose. */
export type SellersAudit = Pick<AuditProgress, 'auditId' | 'sellerId'>;

/**
 * Formats the current result of an audit: its list as it was entered, with verdicts.
 * @param parts the audit; if several sellers were asked about a list, the audit of each
 * @param dialect of CSV; null: that of the list
 * @returns null when its list is no longer kept
 */
export async function auditResult(
  db: Db,
  parts: readonly [SellersAudit, ...SellersAudit[]],
  format: ResultFormat,
  dialect: CsvDialect | null,
): Promise<ResultContent | null> {
  const [{ auditId }, ...others] = parts;
  const { columns, layout, prunedAt } = (await readAuditList(db, auditId)) ?? NO_LIST;
  if (prunedAt !== null) return null;
  const isOne = others.length === 0;
  const rows = isOne
    ? resultRows(readAuditResults(db, auditId), await readRepeated(db, auditId))
    : rowsOfAny(await readBestResults(db, parts));
  const name = resultName(layout, auditId);
  const workbook = format === 'xlsx' ? await readAuditWorkbook(db, auditId) : null;
  if (workbook !== null) {
    // Loaded on demand: only workbooks need its libraries.
    const { annotatedWorkbook } = await import('./lists/annotate-workbook.js');
    const added = isOne ? ADDED_COLUMNS : [SELLER_COLUMN, ...ADDED_COLUMNS];
    return { name, pieces: annotatedWorkbook(workbook, columns, added, addedRows(rows)) };
  }
  const names = isOne ? columns : [...columns, SELLER_COLUMN.name];
  const listed = isOne ? rows : withSellers(rows, columns.length);
  return { name, pieces: resultPieces(format, names, listed, dialect ?? dialectOf(layout)) };
}

/** Who sold the code, where several sellers were asked. */
const SELLER_COLUMN = { name: 'seller', kind: 'text', width: 14 } as const;

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/** A record with its result. `seller`: who sold its code, or '' if nobody is known to; null: only one was asked. */
type LineOfResult = ResultRow & { readonly line: number; readonly seller: string | null };

type Lines = Iterable<LineOfResult> | AsyncIterable<LineOfResult>;

/** Result rows, with the support state of this moment. */
async function* resultRows(
  results: AsyncIterable<AuditResult>,
  repeated: ReadonlyMap<number, number>,
): AsyncGenerator<LineOfResult, void, undefined> {
  const now = Date.now();
  for await (const row of results) {
    const { line, columns, position } = row;
    const listed = position === null ? null : (repeated.get(position) ?? 1);
    yield { line, columns, result: { ...resultOf(factsOf(row), now), listed }, seller: null };
  }
}

/** The same of a list that several sellers were asked about. */
function* rowsOfAny(results: readonly BestResult[]): Generator<LineOfResult, void, undefined> {
  const now = Date.now();
  const listed = new Map<string | null, number>();
  for (const { code } of results) listed.set(code, (listed.get(code) ?? 0) + 1);
  for (const row of results) {
    const { line, columns, code, seller } = row;
    const times = code === null ? null : (listed.get(code) ?? 1);
    const result = { ...resultOf(factsOf(row), now), listed: times };
    yield { line, columns, result, seller: seller ?? '' };
  }
}

async function* addedRows(rows: Lines) {
  for await (const { line, result, seller } of rows) {
    const values = RESULT_COLUMNS.map((name) => result[name]);
    yield { line, values: seller === null ? values : [seller, ...values] };
  }
}

/** Adds the seller to the record's own cells. */
async function* withSellers(
  rows: Lines,
  width: number,
): AsyncGenerator<LineOfResult, void, undefined> {
  for await (const row of rows) {
    const missing = Array.from({ length: width - row.columns.length }, () => '');
    yield { ...row, columns: [...row.columns, ...missing, row.seller ?? ''] };
  }
}

/** What is known of a record after several sellers were asked. `seller`: who sold its code; null: nobody, as far as we know. */
export interface BestResult extends AuditResult {
  readonly seller: string | null;
}

/** What says most about a code comes first: with a seller who gave no answer, nobody knows that nobody sold it. */
const RANKS = { valid: 0, unproven: 1, no_longer_valid: 2, invalid: 3 } as const;

/** Of each record, the result that says most, in list order. @param parts the audit of each seller */
export async function readBestResults(
  db: Db,
  parts: readonly SellersAudit[],
): Promise<readonly BestResult[]> {
  const rankOf = ({ verdict }: AuditResult): number => RANKS[verdict ?? 'unproven'];
  const best = new Map<number, BestResult>();
  for (const { auditId, sellerId } of parts) {
    for await (const result of readAuditResults(db, auditId)) {
      const before = best.get(result.line);
      if (before !== undefined && rankOf(before) <= rankOf(result)) continue;
      best.set(result.line, { ...result, seller: result.verdict === 'valid' ? sellerId : null });
    }
  }
  return [...best.values()].sort((a, b) => a.line - b.line);
}

/** Converts a stored result to the facts that explain its verdict. */
export function factsOf(
  result: Omit<AuditResult, 'line' | 'position' | 'columns' | 'reused'>,
): RecordFacts {
  const { code, rejected, verdict, denials, purchase, checkedAt, hasUnknownItem } = result;
  const [reason, proof] = [result.reason ?? '', result.proof ?? 'none'];
  const facts = { code, reason, proof, denials, purchase, checkedAt, hasUnknownItem };
  if (code === null) {
    return { ...facts, verdict: 'rejected', reason: rejected ?? 'it holds no code' };
  }
  return verdict === null
    ? { ...facts, verdict: 'pending', checkedAt: null }
    : { ...facts, verdict };
}

/**
 * Makes the result columns of a record.
 *
 * `reason` says why in a few words, `proof` is one word, and `evidence` is the whole sentence. Without a verdict
 * the purchase is empty. For a code that is no longer valid it is the last known one, without support.
 *
 * @param now for the support state, milliseconds since 1970
 */
export function resultOf(facts: RecordFacts, now: number): Omit<Result, 'listed'> {
  const { verdict, checkedAt } = facts;
  const isProven = verdict === 'valid' || isInvalid(verdict);
  const purchase = isProven ? facts.purchase : null;
  const found = foundForm(facts);
  return {
    verdict,
    reason: shortReason(facts),
    license_type: purchase?.licenseType ?? null,
    item_id: purchase?.item?.id ?? null,
    item_name: purchase?.item?.name ?? null,
    price: purchase?.price ?? null,
    currency: purchase?.currency ?? null,
    purchased_at: purchase?.purchasedAt ?? null,
    supported_until: purchase?.supportedUntil ?? null,
    support: purchase !== null && verdict === 'valid' ? supportAt(purchase, now) : null,
    downloaded: yesOrNo(purchase?.downloaded ?? null),
    checked_at: checkedAt?.toISOString() ?? null,
    proof: isProven ? facts.proof : 'none',
    evidence:
      found === null
        ? describeVerdict(facts)
        : `${describeVerdict(facts)}; it knows the code as ${found}, not as it is in the list`,
  };
}

function yesOrNo(flag: boolean | null): string | null {
  if (flag === null) return null;
  return flag ? 'yes' : 'no';
}

function resultName(layout: Json, auditId: bigint): string {
  const { name } = listsIn(layout)[0] ?? {};
  const base = typeof name === 'string' ? name.replace(/\.\w{1,5}$/, '').trim() : '';
  const isFile = base !== '' && !['arguments', 'stdin', 'pasted list'].includes(base);
  return isFile ? `${base} checked` : `check-${auditId}`;
}

/**
 * The CSV dialect of a result: the delimiter of the first list, and a byte order mark if any list had one,
 * was not UTF-8 or is a workbook. Such lists come from spreadsheets, and Excel reads UTF-8 only with the
 * mark.
 */
export function dialectOf(layout: Json): CsvDialect {
  const lists = listsIn(layout);
  const delimiter = lists[0]?.['delimiter'];
  return {
    ...PLAIN_CSV,
    ...(typeof delimiter === 'string' ? { delimiter } : {}),
    bom: lists.some(
      ({ bom, encoding, format }) =>
        bom === true || format === 'xlsx' || (typeof encoding === 'string' && encoding !== 'utf-8'),
    ),
  };
}

/** True if the first list is an Excel workbook. */
export function isWorkbookList(layout: Json): boolean {
  return listsIn(layout)[0]?.['format'] === 'xlsx';
}

function listsIn(layout: Json): readonly { readonly [key: string]: Json }[] {
  if (typeof layout !== 'object' || layout === null || Array.isArray(layout)) return [];
  const { lists } = layout;
  if (!Array.isArray(lists)) return [];
  return lists.filter(
    (one): one is { [key: string]: Json } =>
      typeof one === 'object' && one !== null && !Array.isArray(one),
  );
}

/** Describes how the lists of an audit were read: one sentence for each decision. */
export function describeReading(layout: Json): readonly string[] {
  const lists = listsIn(layout);
  return lists.flatMap(({ name, reasons }) => {
    const texts = Array.isArray(reasons) ? reasons.filter((text) => typeof text === 'string') : [];
    return lists.length === 1 ? texts : texts.map((text) => `${JSON.stringify(name)}: ${text}`);
  });
}

/** A code with its verdict and the marketplace's last reply. */
export interface Answer extends RecordFacts {
  readonly verdict: Verdict;
  readonly code: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
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
