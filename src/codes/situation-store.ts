/** What the plan should know of a seller: codes and items that exist, and so can prove the key. */

import type { Db } from '../db/db.js';
import { CODE_ID } from './codes-store.js';
import type { KnownValid } from './ledger.js';
import type { Situation } from './situation.js';

/** Known-valid codes that proofs choose from. */
const KNOWN_VALID = 100;
/** Live items that stand for known-valid codes where those are too few. */
const LIVE_ITEMS = 10;
/** How many of the codes that were checked first, and of those checked last, are considered. */
const EACH_END = 500;

/**
 * Codes of the seller that are known to be valid: the longest unchecked, the newest, and one of each live item, since
 * codes of one list may end together. Live items come first, then one code of each item before a second one, then those
 * found longest ago.
 * @param auditId the check that asks; null: none, so that none was used
 */
export async function readKnownValid(
  { pool }: Pick<Db, 'pool'>,
  sellerId: string,
  auditId: bigint | null = null,
  limit = KNOWN_VALID,
): Promise<KnownValid[]> {
  const valid = `SELECT code_id, item_id FROM mirror.purchase_codes
         WHERE seller_id = $1 AND verdict = 'valid' AND last_checked_at IS NOT NULL`;
  const { rows } = await pool.query<KnownValid>(
    `WITH near AS (
       (${valid} ORDER BY last_checked_at DESC LIMIT $3)
       UNION
       (${valid} ORDER BY last_checked_at LIMIT $3)
       UNION
       (SELECT sold.code_id, i.item_id
          FROM mirror.items i
          CROSS JOIN LATERAL (
            SELECT code_id FROM mirror.purchase_codes p
             WHERE p.seller_id = i.seller_id AND p.item_id = i.item_id AND p.verdict = 'valid'
               AND p.last_checked_at IS NOT NULL
               AND octet_length(coalesce(p.currency, '')) <= 64 LIMIT 1) sold
         WHERE i.seller_id = $1 AND i.state = 'live' LIMIT $2)
     ), rated AS (
       SELECT p.code_id, coalesce(p.found_form, p.code) AS form,
              coalesce(p.found_at, p.purchase_seen_at, p.last_checked_at) AS found_at,
              coalesce(i.state = 'live', false) AS is_live,
              row_number() OVER (PARTITION BY p.item_id ORDER BY p.last_checked_at DESC) AS turn
         FROM near n JOIN mirror.purchase_codes p USING (code_id)
         LEFT JOIN mirror.items i ON i.seller_id = $1 AND i.item_id = n.item_id
     )
     SELECT r.code_id::text AS "codeId", r.form, floor(extract(epoch FROM r.found_at) * 1000)::float8 AS "foundAt",
            r.is_live AS "isLive", coalesce(r.found_at >= a.created_at, false) AS "isUsed",
            EXISTS (SELECT FROM mirror.audit_codes c
                     WHERE c.audit_id = $4 AND c.code_id = r.code_id AND c.verdict IS NULL
                       AND c.denied_at IS NOT NULL) AS "isDenied"
       FROM rated r LEFT JOIN mirror.audits a ON a.audit_id = $4
      ORDER BY is_live DESC, turn, r.found_at, r.form LIMIT $2`,
    [sellerId, limit, EACH_END, auditId],
  );
  return rows;
}

/** A code that a person says is valid, before all others. It may be unknown to the store. */
async function readNamedCode(
  { pool }: Pick<Db, 'pool'>,
  sellerId: string,
  code: string,
): Promise<KnownValid> {
  const { rows } = await pool.query<{ codeId: string; form: string | null }>(
    `SELECT p.code_id::text AS "codeId",
            CASE WHEN p.purchase_seen_at IS NOT NULL THEN coalesce(p.found_form, p.code) END AS form
       FROM mirror.purchase_codes p WHERE p.code_id = ${CODE_ID}`,
    [sellerId, code],
  );
  const { codeId = null, form = null } = rows[0] ?? {};
  const rest = { isLive: true, isUsed: false, isDenied: false };
  return { codeId, form: form ?? code, foundAt: 0, ...rest };
}

/** What a check, or the look-ups of a process (null), know of a seller. @param named a code that a person says is valid */
export async function readSellerSituation(
  db: Pick<Db, 'pool'>,
  sellerId: string,
  auditId: bigint | null,
  namedCode: string | null,
): Promise<Pick<Situation, 'knownValid' | 'liveItems' | 'hadItem'>> {
  // One after the other: a command would open a connection for each.
  const known = await readKnownValid(db, sellerId, auditId);
  const named = namedCode === null ? null : await readNamedCode(db, sellerId, namedCode);
  const liveItems = await readLiveItems(db, sellerId);
  const catalogue = await readCatalogue(db, sellerId);
  const others = known.filter(({ form }) => form !== named?.form);
  return {
    knownValid: named === null ? others : [named, ...others],
    liveItems,
    hadItem: (id) => catalogue.size === 0 || catalogue.has(id),
  };
}

/** Some live items of the catalogue. */
async function readLiveItems(
  { pool }: Pick<Db, 'pool'>,
  sellerId: string,
): Promise<readonly number[]> {
  const { rows } = await pool.query<{ id: number }>(
    `SELECT item_id::float8 AS id FROM mirror.items WHERE seller_id = $1 AND state = 'live' LIMIT $2`,
    [sellerId, LIVE_ITEMS],
  );
  return rows.map(({ id }) => id);
}

/** How long the ids of a catalogue are kept in memory, milliseconds. */
const CATALOGUE_MS = 60_000;
const catalogues = new WeakMap<
  object,
  Map<string, { readonly ids: ReadonlySet<number>; readonly at: number }>
>();

/** The ids of all items that the seller's catalogue has or had. Read at most once a minute. */
async function readCatalogue(
  { pool }: Pick<Db, 'pool'>,
  sellerId: string,
): Promise<ReadonlySet<number>> {
  const kept = catalogues.get(pool) ?? new Map<string, { ids: Set<number>; at: number }>();
  catalogues.set(pool, kept);
  const now = performance.now();
  const known = kept.get(sellerId);
  if (known !== undefined && now - known.at < CATALOGUE_MS) return known.ids;
  const { rows } = await pool.query<{ id: number }>(
    'SELECT item_id::float8 AS id FROM mirror.items WHERE seller_id = $1',
    [sellerId],
  );
  const ids = new Set(rows.map(({ id }) => id));
  kept.set(sellerId, { ids, at: now });
  return ids;
}

/** More purchases than this make no difference to the rules. */
const ENOUGH_FOUND = 1_000;

/**
 * SQL of how many codes of seller `of` were ever found, as far as their calls are counted for chance and have not faded: codes
 * that an earlier version found say nothing of chance. Up to a number that makes no difference.
 */
export const FOUND_EVER = (of: string): string => {
  const found = (verdict: string): string => `
    (SELECT count(*) FROM (SELECT FROM mirror.purchase_codes p
                            WHERE p.seller_id = ${of} AND p.verdict = '${verdict}' AND p.last_checked_at IS NOT NULL
                            LIMIT ${ENOUGH_FOUND}) f)`;
  const counted = `
    (SELECT c.calls * 0.5 ^ (extract(epoch FROM greatest(now() - c.as_of, interval '0')) / 604800)
       FROM mirror.code_chances c WHERE c.seller_id = ${of})`;
  return `least(${found('valid')} + ${found('no_longer_valid')}, coalesce(${counted}, 0))::int`;
};

/** How many codes of the seller were ever found, up to a number that makes no difference to a check. */
export async function readFoundEver({ pool }: Pick<Db, 'pool'>, sellerId: string): Promise<number> {
  const { rows } = await pool.query<{ found: number }>(`SELECT ${FOUND_EVER('$1')} AS found`, [
    sellerId,
  ]);
  return rows[0]?.found ?? 0;
}
