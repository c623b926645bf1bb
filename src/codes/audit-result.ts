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
import type { AuditResult, StoredCheck, CodeState } from './types.js';

interface ResultContent {
  /** For its file, without an ending: that of the list, such as `customers checked`. */
  readonly name: string;
  readonly pieces: AsyncGenerator<string | Uint8Array, void, undefined>;
}

/**
 * Formats the current result of an audit: its list as it was entered, with verdicts.
 * @param dialect of CSV; null: that of the list
 * @returns null when its list is no longer kept
 */
export async function auditResult(
  db: Db,
  auditId: bigint,
  format: ResultFormat,
  dialect: CsvDialect | null,
): Promise<ResultContent | null> {
  const { columns, layout, prunedAt } = (await readAuditList(db, auditId)) ?? NO_LIST;
  if (prunedAt !== null) return null;
  const rows = resultRows(readAuditResults(db, auditId), await readRepeated(db, auditId));
  const name = resultName(layout, auditId);
  const workbook = format === 'xlsx' ? await readAuditWorkbook(db, auditId) : null;
  if (workbook !== null) {
    // Loaded on demand: only workbooks need its libraries.
    const { annotatedWorkbook } = await import('./lists/annotate-workbook.js');
    return { name, pieces: annotatedWorkbook(workbook, columns, ADDED_COLUMNS, addedRows(rows)) };
  }
  return { name, pieces: resultPieces(format, columns, rows, dialect ?? dialectOf(layout)) };
}

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/** Result rows, with the support state of this moment. */
async function* resultRows(
  results: AsyncIterable<AuditResult>,
  repeated: ReadonlyMap<number, number>,
): AsyncGenerator<ResultRow & { readonly line: number }, void, undefined> {
  const now = Date.now();
  for await (const row of results) {
    const { line, columns, position } = row;
    const listed = position === null ? null : (repeated.get(position) ?? 1);
    yield { line, columns, result: { ...resultOf(factsOf(row), now), listed } };
  }
}

async function* addedRows(rows: ReturnType<typeof resultRows>) {
  for await (const { line, result } of rows) {
    yield { line, values: RESULT_COLUMNS.map((name) => result[name]) };
  }
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
