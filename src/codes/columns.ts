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

/**
 * SQL: whether row `p` is a valid code of an item that the seller's catalogue never had. False while the catalogue is
 * empty: it was not mirrored yet.
 */
export const HAS_UNKNOWN_ITEM = `
  (p.verdict IS NOT DISTINCT FROM 'valid' AND p.item_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM mirror.items i WHERE i.seller_id = p.seller_id AND i.item_id = p.item_id)
   AND EXISTS (SELECT FROM mirror.items i WHERE i.seller_id = p.seller_id))`;

/** SQL of a time as milliseconds since 1970. */
const ms = (time: string): string => `floor(extract(epoch FROM ${time}) * 1000)::bigint`;

/** SQL of a `KnownCode` as JSON, from row `p`; null if the code was never proven. */
export const KNOWN = `
  CASE WHEN p.verdict IS NOT NULL AND p.last_checked_at IS NOT NULL THEN json_build_object(
    'verdict', p.verdict, 'purchase', ${PURCHASE},
    'checkedAt', ${ms('p.last_checked_at')}) END`;

/**
 * SQL of the `Denials` that made code `p` invalid with check `k`, as JSON, or null: all of the same audit up to `k`.
 * The last one that counts is the one between two proofs.
 */
export const DENIALS = `
  SELECT CASE WHEN count(*) > 0 THEN json_build_object(
           'times', count(*), 'first', ${ms('min(checked_at)')}, 'last', ${ms('max(checked_at)')},
           'before', ${ms('max(proven_before)')}, 'after', ${ms('max(proven_after)')}) END AS denials
    FROM mirror.code_checks d
   WHERE d.code_id = k.code_id AND d.check_id <= k.check_id AND d.audit_id = k.audit_id AND d.reason = 'denied'`;
