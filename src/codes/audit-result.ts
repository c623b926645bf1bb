import type { CsvDialect } from '../domain/csv.js';
import type { Db } from '../db/db.js';
import { readAuditList } from './audits-store.js';
import { readAuditWorkbook } from './enter-store.js';
import { dialectOf, resultName } from './layout.js';
import { resultPieces, type ResultFormat, type ResultRow } from './lists/write-result.js';
import { readResults, type SellersAudit } from './results-store.js';
import { RESULT_COLUMNS, SELLER_COLUMN, type AuditResult, type ResultColumn } from './result.js';

interface ResultContent {
  /** For its file, without an ending: that of the list, such as `customers checked`. */
  readonly name: string;
  readonly pieces: AsyncGenerator<string | Uint8Array, void, undefined>;
}

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
  const [{ auditId }] = parts;
  const { columns, layout, prunedAt } = (await readAuditList(db, auditId)) ?? NO_LIST;
  if (prunedAt !== null) return null;
  const added = parts.length === 1 ? RESULT_COLUMNS : [SELLER_COLUMN, ...RESULT_COLUMNS];
  const rows = rowsOf(readResults(db, parts), added);
  const name = resultName(layout, auditId);
  const workbook = format === 'xlsx' ? await readAuditWorkbook(db, auditId) : null;
  if (workbook !== null) {
    // Loaded on demand: only workbooks need its libraries.
    const { annotatedWorkbook } = await import('./lists/annotate-workbook.js');
    return { name, pieces: annotatedWorkbook(workbook, columns, added, rows) };
  }
  const pieces = resultPieces(format, columns, added, rows, dialect ?? dialectOf(layout));
  return { name, pieces };
}

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/** Rows with the support state of this moment. */
async function* rowsOf(
  results: AsyncIterable<AuditResult>,
  added: readonly ResultColumn[],
): AsyncGenerator<ResultRow, void, undefined> {
  const now = Date.now();
  for await (const result of results) {
    const { line, columns } = result;
    yield { line, columns, values: added.map(({ value }) => value(result, now)) };
  }
}
