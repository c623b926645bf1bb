import type { Denials } from '../../domain/codes/second-look.js';
import type { Json } from '../../domain/item.js';
import { storableJson, storableText } from '../../domain/values.js';

/** A moment in UTC to the microsecond, whatever the session's settings; a fraction only when it is not zero. */
const utc = (column: string): string =>
  `regexp_replace(to_char(p.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), '\\.?0*$', '') || 'Z'`;

/**
 * SQL of the purchase in row `p` of `mirror.purchase_codes`, as JSON in the form of `Purchase`; null
 * when there never was one. Of a full item that was answered once, only that is kept: its other fields
 * are in the mirror, and would be the same in a million rows.
 */
export const PURCHASE = `
  CASE WHEN p.purchase_seen_at IS NOT NULL THEN json_build_object(
    'purchaseCode', p.answered_code, 'licenseType', p.license_type, 'price', p.price::text,
    'currency', p.currency, 'supportedUntil', ${utc('supported_until')},
    'downloaded', p.downloaded, 'purchasedAt', ${utc('purchased_at')},
    'item', CASE WHEN coalesce(p.item_id::text, p.item_name, p.item_url) IS NOT NULL THEN json_build_object(
      'id', p.item_id, 'name', p.item_name, 'url', p.item_url, 'previewImageUrl', p.item_preview_url,
      'full', CASE WHEN p.item_full AND p.item_id IS NOT NULL AND p.item_name IS NOT NULL THEN json_build_object(
        'id', p.item_id, 'name', p.item_name, 'previewImageUrl', p.item_preview_url,
        'description', null, 'category', null, 'subCategory', null, 'options', '{}'::text[],
        'version', null, 'demoLink', null, 'tags', '{}'::text[], 'thumbnailUrl', null,
        'previewVideoUrl', null, 'previewAudioUrl', null, 'screenshots', '{}'::text[],
        'priceRegular', null, 'priceExtended', null, 'currency', null, 'publishedAt', null) END) END) END`;

/** SQL of what is known of the code in row `p`, as JSON in the form of `KnownCode`; null: nothing. */
export const KNOWN = `
  CASE WHEN p.verdict IS NOT NULL AND p.last_checked_at IS NOT NULL THEN json_build_object(
    'verdict', p.verdict, 'purchase', ${PURCHASE},
    'checkedAt', floor(extract(epoch FROM p.last_checked_at) * 1000)::bigint) END`;

/**
 * A subquery of the denials in the ledger up to check `k`, which made its code invalid: those of the
 * same audit. Where no audit asked, the code was denied as a canary, and the last two
 * denials made it invalid.
 */
export const LEDGER_DENIALS = `
  SELECT count(*)::int AS times, min(checked_at) AS "firstAt", max(checked_at) AS "lastAt"
    FROM (SELECT checked_at FROM mirror.code_checks d
           WHERE d.code_id = k.code_id AND d.check_id <= k.check_id
             AND d.audit_id IS NOT DISTINCT FROM k.audit_id
             AND d.verdict <> 'valid' AND d.proof <> 'none'
           ORDER BY d.check_id DESC LIMIT CASE WHEN k.audit_id IS NULL THEN 2 END) denied`;

/** Columns of that subquery; null where there is no denial. */
export type DenialsRow = { readonly [column in keyof Denials]: Denials[column] | null };

/** The denials of a row; null when it has none. */
export function denialsIn({ times, firstAt, lastAt }: DenialsRow): Denials | null {
  return times === null || firstAt === null || lastAt === null ? null : { times, firstAt, lastAt };
}

/** Longest cell that is kept of a list, in UTF-16 units: the longest that spreadsheets can hold. */
export const LONGEST_CELL = 32_767;
/** Longest text from elsewhere that is kept beside the codes. */
export const LONGEST_TEXT = 2_000;
/** Largest JSON that is kept of an answer, in UTF-16 units. */
const LARGEST_JSON = 65_536;

/**
 * Text that PostgreSQL can hold: NUL characters and lone surrogates become U+FFFD. What is longer
 * than `longest` UTF-16 units is cut, and ends with an ellipsis.
 */
export function storable(text: string, longest: number): string {
  // All but a few of millions of cells.
  if (text.length <= longest && text.isWellFormed() && !text.includes('\0')) return text;
  return storableText(shortened(text, longest));
}

/** JSON text that PostgreSQL can hold; null when it is too large to be kept. */
export function storableJsonText(json: Json): string | null {
  let text = JSON.stringify(json);
  // What PostgreSQL can't hold is written as an escape here, and a number beyond all bounds as null.
  if (/\\u|null/.test(text)) text = JSON.stringify(storableJson(json));
  return text.length > LARGEST_JSON ? null : text;
}

function shortened(text: string, longest: number): string {
  if (text.length <= longest) return text;
  // A character of two units is never cut in two.
  const last = text.charCodeAt(longest - 2);
  const isHalf = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, longest - (isHalf ? 2 : 1))}…`;
}
