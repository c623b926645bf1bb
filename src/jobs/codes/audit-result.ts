import { PLAIN_CSV, type CsvDialect } from '../../domain/csv.js';
import { describeVerdict, type RecordFacts } from '../../domain/codes/evidence.js';
import { supportAt } from '../../domain/codes/known-code.js';
import { whyUnproven } from '../../domain/codes/outcome.js';
import type { Json } from '../../domain/item.js';
import {
  resultChunks,
  type Result,
  type ResultFormat,
  type ResultRow,
} from '../../intake/results.js';
import type { AuditResult, CodeCheck, CodeState } from '../../store/audits/types.js';
import type { Store } from '../../store/store.js';

/**
 * The result of an audit as it is now, in chunks: its list as it came, with verdicts.
 * @param dialect of CSV; null: as that of the list
 * @returns null when its list is no longer kept
 */
export async function auditResultChunks(
  { audits }: Pick<Store, 'audits'>,
  auditId: bigint,
  format: ResultFormat,
  dialect: CsvDialect | null,
): Promise<AsyncGenerator<string | Uint8Array, void, undefined> | null> {
  const { columns, layout, prunedAt } = (await audits.listOf(auditId)) ?? NO_LIST;
  if (prunedAt !== null) return null;
  const rows = resultRows(audits.results(auditId));
  return resultChunks(format, columns, rows, dialect ?? dialectOf(layout));
}

const NO_LIST = { columns: [], layout: null, prunedAt: null };

/** The rows of a result, with the state of support now. */
async function* resultRows(
  results: AsyncIterable<AuditResult>,
): AsyncGenerator<ResultRow, void, undefined> {
  const now = Date.now();
  for await (const one of results) {
    yield { columns: one.columns, result: resultOf(factsOf(one), now) };
  }
}

/** Reads the outcome of a record from an audit's result. */
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
 * Makes the result columns of a record. Without a verdict, `proof` is `none: ` and the reason, and the
 * purchase is empty. For an invalid code, `proof` also explains the verdict; the purchase is the one of
 * before, without support.
 * @param now for the state of support, milliseconds since 1970
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
 * The CSV dialect of a result: the delimiter of the first list, and a byte order mark when one of the
 * lists had one, was not UTF-8 or is a workbook. Such lists come from spreadsheets, and Excel needs the mark to read
 * UTF-8.
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

/** True when the list came as an Excel workbook. */
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

/** Says how the lists of an audit were read. */
export function describeReading(layout: Json): readonly string[] {
  const lists = listsIn(layout);
  return lists.flatMap(({ name, reasons }) => {
    const said = Array.isArray(reasons) ? reasons.filter((one) => typeof one === 'string') : [];
    return lists.length === 1 ? said : said.map((one) => `${JSON.stringify(name)}: ${one}`);
  });
}

/** A code with its verdict and the marketplace's last answer. */
export interface Answer extends RecordFacts {
  readonly verdict: 'valid' | 'invalid' | 'unproven';
  readonly code: string;
  readonly httpStatus: number | null;
  readonly message: string | null;
}

/** The newest proven verdict; where there is none, why the last check proved nothing. */
export function answerFromChecks(state: CodeState, checks: readonly CodeCheck[]): Answer {
  const { code, known, proof, denials, lastCheckId } = state;
  const verdict = known?.verdict ?? 'unproven';
  // An invalid code's last denial is recorded before it becomes the proof.
  const check = known === null ? checks[0] : checks.find(({ checkId }) => checkId === lastCheckId);
  const reason = verdict === 'invalid' ? 'denied' : check?.reason;
  return {
    code,
    verdict,
    denials,
    reason: reason ?? 'it was not asked for yet',
    proof: proof ?? 'none',
    purchase: known?.purchase ?? null,
    checkedAt: known === null ? (check?.checkedAt ?? null) : new Date(known.checkedAt),
    httpStatus: check?.httpStatus ?? null,
    message: check?.message ?? null,
  };
}
