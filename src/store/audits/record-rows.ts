import { setImmediate as turn } from 'node:timers/promises';
import type { Json, Purchase } from '../../domain/item.js';
import { isObject } from '../../domain/values.js';
import { purchaseColumns } from './known-row.js';
import type { AuditCodeUpdate, CodeUpdate, RecordPlan } from './plan-record.js';
import { LARGEST_JSON, LONGEST_TEXT, storable, storableJsonText } from './text.js';
import type { CodeResult } from './types.js';

/** Where the rows are that results change, by what they are of. */
export interface Places {
  readonly codes: ReadonlyMap<bigint, string>;
  readonly entries: ReadonlyMap<number, string>;
}

/** Rows that are made in one go. */
const PORTION = 16;

/**
 * The checks as JSON text, an object for each, with what they make of the code and of its place in the
 * audit: a check does either for one row at most. What is null is left out. Made in portions, between
 * which answers are heard and more codes asked for: the marketplace is not to wait for the store.
 */
export async function checkRows(
  { checks, codes, auditCodes }: RecordPlan,
  places: Places,
): Promise<string> {
  const codeOf = new Map(codes.map((update) => [update.check, update]));
  const entryOf = new Map(auditCodes.map((update) => [update.check, update]));
  const rows: string[] = [];
  for (const [place, result] of checks.entries()) {
    rows.push(checkRow(result, place, codeOf.get(place), entryOf.get(place), places));
    if (place % PORTION === PORTION - 1) await turn();
  }
  return `[${rows.join()}]`;
}

/** The entries of the feed as JSON text, in their order, each with the place of its check. */
export function feedRows({ feed }: RecordPlan): string {
  const rows = feed.map(({ check, kind, from, to }, turn) => ({
    turn,
    place: check,
    kind,
    old_value: from ?? undefined,
    new_value: to ?? undefined,
  }));
  return JSON.stringify(rows);
}

function checkRow(
  result: CodeResult,
  place: number,
  code: CodeUpdate | undefined,
  entry: AuditCodeUpdate | undefined,
  places: Places,
): string {
  const { codeId, checkedAt, news, reason, proof, httpStatus, message, rawHash } = result;
  const check = {
    place,
    code_id: String(codeId),
    checked_at: checkedAt,
    verdict: news.verdict,
    reason: storable(reason, LONGEST_TEXT),
    proof: storable(proof, LONGEST_TEXT),
    http_status: httpStatus ?? undefined,
    message: message === null ? undefined : storable(message, LONGEST_TEXT),
    raw_hash: rawHash === null ? undefined : `\\x${rawHash}`,
    code_place: code === undefined ? undefined : places.codes.get(code.codeId),
    entry_place: entry === undefined ? undefined : places.entries.get(entry.position),
    position: entry?.position,
    settled: entry?.verdict,
    attempts: entry?.attempts,
    denials: entry?.denials,
    denied_at: entry?.deniedAt ?? undefined,
    turned: code?.turned,
    answered: code === undefined ? undefined : code.raw !== undefined,
  };
  return code === undefined ? JSON.stringify(check) : withCode(JSON.stringify(check), code);
}

/** The purchase is in the text as it is, which is most of it. */
function withCode(check: string, { known, raw }: CodeUpdate): string {
  const { purchase } = known;
  const columns = purchase === null ? '{}' : JSON.stringify(purchaseColumns(purchase));
  const kept = raw === undefined ? null : keptText(withoutItem(raw, hasItemId(purchase)));
  const joined = columns === '{}' ? check : `${check.slice(0, -1)},${columns.slice(1)}`;
  return kept === null ? joined : `${joined.slice(0, -1)},"raw":${kept}}`;
}

/** JSON text for the store; null when it is too large to be kept. */
function keptText(json: Json): string | null {
  const text = JSON.stringify(json);
  // What the store can't hold is written as an escape, and a number beyond all bounds as null.
  if (text.includes('\\u') || (text.includes('null') && isBoundless(json))) {
    return storableJsonText(json);
  }
  return text.length > LARGEST_JSON ? null : text;
}

function isBoundless(json: Json): boolean {
  if (typeof json === 'number') return !Number.isFinite(json);
  return typeof json === 'object' && json !== null && Object.values(json).some(isBoundless);
}

/** An item without an id can't be found in the mirror. */
function hasItemId(purchase: Purchase | null): boolean {
  return (purchase?.item?.id ?? null) !== null;
}

/** Items are in the mirror, and those of a million purchases are mostly the same few. */
function withoutItem(raw: Json, hasId: boolean): Json {
  if (!hasId || !isObject(raw)) return raw;
  const { item: _, ...rest } = raw;
  return rest;
}
