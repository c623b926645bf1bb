import type { Checkpoints } from '../../domain/codes/proof.js';
import type { Denial, Denials } from '../../domain/codes/evidence.js';
import type { Json } from '../../domain/item.js';
import { storableJson, storableText } from '../../domain/values.js';

/** SQL of a time in UTC as ISO 8601 to the microsecond, whatever the session's settings. Omits a zero fraction. */
const utc = (column: string): string =>
  `regexp_replace(to_char(p.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '\\.?0*$', '') || 'Z'`;

/** SQL of a `KnownPurchase` as JSON, from row `p` of `mirror.purchase_codes`; null if no purchase was ever seen. */
export const PURCHASE = `
  CASE WHEN p.purchase_seen_at IS NOT NULL THEN json_build_object(
    'purchaseCode', p.answered_code, 'licenseType', p.license_type, 'price', p.price::text,
    'currency', p.currency, 'supportedUntil', ${utc('supported_until')},
    'downloaded', p.downloaded, 'purchasedAt', ${utc('purchased_at')},
    'item', CASE WHEN coalesce(p.item_id::text, p.item_name, p.item_url) IS NOT NULL THEN json_build_object(
      'id', p.item_id, 'name', p.item_name, 'url', p.item_url, 'previewImageUrl', p.item_preview_url,
      'full', p.item_full) END) END`;

/** SQL of a `KnownCode` as JSON, from row `p`; null if the code was never proven. */
export const KNOWN = `
  CASE WHEN p.verdict IS NOT NULL AND p.last_checked_at IS NOT NULL THEN json_build_object(
    'verdict', p.verdict, 'purchase', ${PURCHASE},
    'checkedAt', floor(extract(epoch FROM p.last_checked_at) * 1000)::bigint) END`;

/**
 * SQL of the denials that made a code invalid with check `k`: all of the same audit up to `k`. Without an audit the
 * code was a canary, which its last two denials made invalid.
 */
export const LEDGER_DENIALS = `
  SELECT count(*)::int AS times, min(checked_at) AS "firstAt", max(checked_at) AS "lastAt",
         count(checkpoint_after) = count(*) AS timed,
         min(checkpoint_before) AS "firstBefore", min(checkpoint_after) AS "firstAfter",
         max(checkpoint_before) AS "lastBefore", max(checkpoint_after) AS "lastAfter"
    FROM (SELECT checked_at, checkpoint_before, checkpoint_after FROM mirror.code_checks d
           WHERE d.code_id = k.code_id AND d.check_id <= k.check_id
             AND d.audit_id IS NOT DISTINCT FROM k.audit_id
             AND d.verdict <> 'valid' AND d.proof <> 'none'
           ORDER BY d.check_id DESC LIMIT CASE WHEN k.audit_id IS NULL THEN 2 END) denied`;

/** The columns of `LEDGER_DENIALS`, joined as `n`. */
export const DENIALS_COLUMNS = `
  n.times, n.timed, n."firstAt", n."firstBefore", n."firstAfter", n."lastAt", n."lastBefore", n."lastAfter"`;

/** A row with `DENIALS_COLUMNS`, which are null if there is no denial. */
export interface DenialsRow {
  readonly times: number | null;
  /** Whether the checkpoints around every denial are known. */
  readonly timed: boolean | null;
  readonly firstAt: Date | null;
  readonly firstBefore: Date | null;
  readonly firstAfter: Date | null;
  readonly lastAt: Date | null;
  readonly lastBefore: Date | null;
  readonly lastAfter: Date | null;
}

/** Replaces the denial columns of a row by `denials`, which is null if there are none. */
export function withDenials<T extends DenialsRow>(row: T) {
  const { times, timed, firstAt, firstBefore, firstAfter, lastAt, lastBefore, lastAfter, ...rest } =
    row;
  if (times === null || firstAt === null || lastAt === null) return { ...rest, denials: null };
  const denial = (at: Date, before: Date | null, after: Date | null): Denial =>
    timed === true
      ? { at, checkpointBefore: before, checkpointAfter: after }
      : { at, checkpointBefore: null, checkpointAfter: null };
  const denials: Denials = {
    times,
    first: denial(firstAt, firstBefore, firstAfter),
    last: denial(lastAt, lastBefore, lastAfter),
  };
  return { ...rest, denials };
}

/** Columns of `mirror.code_checks` for the checkpoints around a denial. */
export function checkpointColumns(checkpoints: Checkpoints | null) {
  if (checkpoints === null) return {};
  const { before, after } = checkpoints;
  return { checkpoint_before: new Date(before), checkpoint_after: new Date(after) };
}

/** Longest stored cell of a list, in UTF-16 units. Spreadsheets hold no longer ones. */
export const LONGEST_CELL = 32_767;
/** Longest stored message, name or other text from outside, in UTF-16 units. */
export const LONGEST_TEXT = 2_000;
/** Largest stored JSON of an answer or layout, in UTF-16 units. */
const LARGEST_JSON = 65_536;

/**
 * Text that PostgreSQL can hold: NUL characters and lone surrogates become U+FFFD. Text of more than `longest` UTF-16
 * units is cut and ends with an ellipsis.
 */
export function storable(text: string, longest: number): string {
  // The fast path, for almost all of millions of cells.
  if (text.length <= longest && text.isWellFormed() && !text.includes('\0')) return text;
  return storableText(shortened(text, longest));
}

/** JSON text that PostgreSQL can hold, or null if it is too large to store. */
export function storableJsonText(json: Json): string | null {
  let text = JSON.stringify(json);
  // JSON.stringify escapes the characters that PostgreSQL can't hold, and writes infinite numbers as null.
  if (/\\u|null/.test(text)) text = JSON.stringify(storableJson(json));
  return text.length > LARGEST_JSON ? null : text;
}

function shortened(text: string, longest: number): string {
  if (text.length <= longest) return text;
  // Don't cut a surrogate pair in two.
  const last = text.charCodeAt(longest - 2);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, longest - (isHalf ? 2 : 1))}…`;
}
