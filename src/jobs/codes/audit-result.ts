import { PLAIN_CSV, type CsvDialect } from '../../domain/csv.js';
import { describeVerdict, type RecordFacts } from '../../domain/codes/evidence.js';
import { supportAt } from '../../domain/codes/known-code.js';
import { whyUnproven } from '../../domain/codes/outcome.js';
import type { Json } from '../../domain/item.js';
import {
  resultPieces,
  type Result,
  type ResultFormat,
  type ResultRow,
} from '../../codes/lists/result.js';
import type { Db } from '../../store/db.js';
import { readAuditList } from '../../store/audits/progress.js';
import { readAuditResults } from '../../store/audits/results.js';
import type { AuditResult, CodeCheck, CodeState } from '../../store/audits/types.js';

/**
 * Formats the current result of an audit: its list as it was entered, with verdicts.
 * @param dialect of CSV; null: that of the list
 * @returns null when its list is no longer kept
 */
export async function auditResultPieces(
  db: Db,
  auditId: bigint,
  format: ResultFormat,
  dialect: CsvDialect | null,
): Promise<AsyncGenerator<string | Uint8Array, void, undefined> | null> {
  const { columns, layout, prunedAt } = (await readAuditList(db, auditId)) ?? NO_LIST;
  if (prunedAt !== null) return null;
  const rows = resultRows(readAuditResults(db, auditId));
  return resultPieces(format, columns, rows, dialect ?? dialectOf(layout));
}

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/** Result rows, with the support state of this moment. */
async function* resultRows(
  results: AsyncIterable<AuditResult>,
): AsyncGenerator<ResultRow, void, undefined> {
  const now = Date.now();
  for await (const row of results) {
    yield { columns: row.columns, result: resultOf(factsOf(row), now) };
  }
}

/** Converts a stored result to the facts that explain its verdict. */
export function factsOf(result: AuditResult): RecordFacts {
  const { code, rejected, verdict, denials, purchase, checkedAt } = result;
  const [reason, proof] = [result.reason ?? '', result.proof ?? 'none'];
  const facts = { reason, proof, denials, purchase, checkedAt };
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
 * - Without a verdict: `proof` is `none: ` and the reason, and the purchase is empty.
 * - For an invalid code: `proof` explains the verdict, and the purchase is the last known one, without
 *   support.
 *
 * @param now for the support state, milliseconds since 1970
 */
export function resultOf(facts: RecordFacts, now: number): Result {
  const { verdict, reason, denials, checkedAt } = facts;
  const isProven = verdict === 'valid' || verdict === 'invalid';
  const purchase = isProven ? facts.purchase : null;
  const proof = denials === null ? facts.proof : `${facts.proof}: ${describeVerdict(facts)}`;
  const none = verdict === 'pending' ? null : `none: ${whyUnproven(reason)}`;
  return {
    verdict,
    license_type: purchase?.licenseType ?? null,
    item_id: purchase?.item?.id ?? null,
    item_name: purchase?.item?.name ?? null,
    price: purchase?.price ?? null,
    currency: purchase?.currency ?? null,
    purchased_at: purchase?.purchasedAt ?? null,
    supported_until: purchase?.supportedUntil ?? null,
    support: purchase !== null && verdict === 'valid' ? supportAt(purchase, now) : null,
    checked_at: checkedAt?.toISOString() ?? null,
    proof: isProven ? proof : none,
  };
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
  readonly verdict: 'valid' | 'invalid' | 'unproven';
  readonly code: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
}

/** Takes the newest proven verdict or, without one, the reason why the last check proved nothing. */
export function answerFromChecks(state: CodeState, checks: readonly CodeCheck[]): Answer {
  const { code, known, proof, denials, lastCheckId } = state;
  const verdict = known?.verdict ?? 'unproven';
  const check = known === null ? checks[0] : checks.find(({ checkId }) => checkId === lastCheckId);
  // The check was recorded as `unconfirmed`, before the code was called invalid.
  const reason = verdict === 'invalid' ? 'denied' : check?.reason;
  return {
    code,
    verdict,
    denials,
    reason: reason ?? 'it was not checked yet',
    proof: proof ?? 'none',
    purchase: known?.purchase ?? null,
    checkedAt: known === null ? (check?.checkedAt ?? null) : new Date(known.checkedAt),
    httpStatus: check?.httpStatus ?? null,
    message: check?.message ?? null,
  };
}
