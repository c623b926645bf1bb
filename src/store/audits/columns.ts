import type { Checkpoints } from '../../domain/codes/proof.js';
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

/** SQL of a time as milliseconds since 1970. */
const ms = (time: string): string => `floor(extract(epoch FROM ${time}) * 1000)::bigint`;

/** SQL of a `KnownCode` as JSON, from row `p`; null if the code was never proven. */
export const KNOWN = `
  CASE WHEN p.verdict IS NOT NULL AND p.last_checked_at IS NOT NULL THEN json_build_object(
    'verdict', p.verdict, 'purchase', ${PURCHASE},
    'checkedAt', ${ms('p.last_checked_at')}) END`;

/** SQL of the first (`min`) or last (`max`) of some denials, as a `Denial` in JSON. */
const denialBy = (pick: 'min' | 'max'): string => `json_build_object(
  'at', ${ms(`${pick}(checked_at)`)},
  'checkpoints', CASE WHEN count(checkpoint_after) = count(*) THEN json_build_object(
    'before', ${ms(`${pick}(checkpoint_before)`)}, 'after', ${ms(`${pick}(checkpoint_after)`)}) END)`;

/**
 * SQL of the `Denials` that made a code invalid with check `k`, as JSON, or null: all of the same audit up to `k`.
 * Without an audit the code was a canary, which its last two denials made invalid.
 */
export const DENIALS = `
  SELECT CASE WHEN count(*) > 0 THEN json_build_object(
           'times', count(*), 'first', ${denialBy('min')}, 'last', ${denialBy('max')}) END AS denials
    FROM (SELECT checked_at, checkpoint_before, checkpoint_after FROM mirror.code_checks d
           WHERE d.code_id = k.code_id AND d.check_id <= k.check_id
             AND d.audit_id IS NOT DISTINCT FROM k.audit_id
             AND d.verdict <> 'valid' AND d.proof <> 'none'
           ORDER BY d.check_id DESC LIMIT CASE WHEN k.audit_id IS NULL THEN 2 END) denied`;

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
