import { ACCOUNT_COLUMNS, ACCOUNT_KEYS, type Account, type Json } from '../domain/item.js';
import { storableJson } from '../domain/values.js';
import type { RowStamp } from './prepare-item.js';
import type { SellerLock } from '../db/locks.js';
import { onlyRow } from '../db/connection.js';
import type { Db } from '../db/db.js';

/** The account that a seller's key first opened, and its marketplace. */
export interface Binding {
  /** Null until the key's first successful check. */
  readonly username: string | null;
  /** Host of the marketplace, without `www.`. */
  readonly marketplace: string;
}

/** Adds a configured seller if it is new; returns its binding. */
export async function ensureSeller(
  db: Db,
  sellerId: string,
  marketplace: string,
): Promise<Binding> {
  const known = await readBinding(db, sellerId);
  if (known !== null) return known;
  await db.pool.query(
    `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, $2)
     ON CONFLICT (seller_id) DO NOTHING`,
    [sellerId, marketplace],
  );
  return (await readBinding(db, sellerId)) ?? { username: null, marketplace };
}

/** A seller's binding; null if the store does not know the seller. */
export async function readBinding({ pool }: Db, sellerId: string): Promise<Binding | null> {
  const { rows } = await pool.query<Binding>(
    'SELECT bound_username AS username, marketplace FROM mirror.sellers WHERE seller_id = $1',
    [sellerId],
  );
  return rows[0] ?? null;
}

/** The oldest other seller whose copy is of this account, if it is older than the seller; null: none. */
export async function findTwin(
  { pool }: Db,
  sellerId: string,
  { username, marketplace }: Binding,
): Promise<string | null> {
  const { rows } = await pool.query<{ twin: string }>(
    `SELECT o.seller_id AS twin
       FROM mirror.sellers o LEFT JOIN mirror.sellers s ON s.seller_id = $1
      WHERE o.seller_id <> $1 AND lower(o.bound_username) = lower($2) AND o.marketplace = $3
        AND (s.seller_id IS NULL OR (o.created_at, o.seller_id) < (s.created_at, s.seller_id))
      ORDER BY o.created_at, o.seller_id LIMIT 1`,
    [sellerId, username, marketplace],
  );
  return rows[0]?.twin ?? null;
}

/** Binds a seller to an account. */
export async function bindSeller(
  { pool }: Db,
  sellerId: string,
  { username, marketplace }: Binding,
): Promise<void> {
  await pool.query(
    `UPDATE mirror.sellers SET bound_username = $2, marketplace = $3, bound_at = now()
      WHERE seller_id = $1`,
    [sellerId, username, marketplace],
  );
}

/** Why schedules leave a seller alone. */
export interface Parking {
  readonly since: Date;
  /** Code of the problem, which only a person can fix; `PAUSED` if a person paused the seller. */
  readonly code: string;
  readonly reason: string;
  /** The run with the problem; null for a pause. */
  readonly runId: bigint | null;
}

/** Parking code of a seller that a person paused. Only `resumeSeller` ends it. */
export const PAUSED = 'paused';

/** SQL of a `ParkingRow` from row `s` of `mirror.sellers`; null if the seller is not parked. */
export const PARKING_SQL = `
  CASE WHEN s.parked_at IS NOT NULL THEN
    jsonb_build_object('since', s.parked_at, 'code', s.parked_code, 'reason', s.parked_reason,
                       'runId', s.parked_run_id) END`;

export type ParkingRow = Pick<Parking, 'code' | 'reason'> & {
  readonly since: string;
  readonly runId: number | null;
};

export function toParking(row: ParkingRow | null): Parking | null {
  if (row === null) return null;
  const runId = row.runId === null ? null : BigInt(row.runId);
  return { ...row, since: new Date(row.since), runId };
}

/** Why schedules leave a seller alone; null if they don't. */
export async function readParking({ pool }: Db, sellerId: string): Promise<Parking | null> {
  const { rows } = await pool.query<{ parking: ParkingRow | null }>(
    `SELECT ${PARKING_SQL} AS parking FROM mirror.sellers s WHERE seller_id = $1`,
    [sellerId],
  );
  return toParking(rows[0]?.parking ?? null);
}

/**
 * Pauses a seller: schedules leave it alone until `resumeSeller`, whatever the result of runs. A pause
 * replaces a parking because of a problem.
 * @param reason such as `paused by alice`
 * @returns false if it is already paused, or unknown
 */
export async function pauseSeller(
  { pool }: Db,
  sellerId: string,
  reason: string,
): Promise<boolean> {
  const { rowCount } = await pool.query(
    `UPDATE mirror.sellers
        SET parked_at = now(), parked_code = $2, parked_reason = $3, parked_run_id = NULL
      WHERE seller_id = $1 AND parked_code IS DISTINCT FROM $2`,
    [sellerId, PAUSED, reason],
  );
  return rowCount === 1;
}

/**
 * Lets schedules mirror a paused or parked seller again.
 * @returns false if it was neither
 */
export async function resumeSeller({ pool }: Db, sellerId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    `UPDATE mirror.sellers
        SET parked_at = NULL, parked_code = NULL, parked_reason = NULL, parked_run_id = NULL
      WHERE seller_id = $1 AND parked_at IS NOT NULL`,
    [sellerId],
  );
  return rowCount === 1;
}

interface AccountRecord {
  readonly value: Account;
  readonly extra: { readonly [path: string]: Json };
  readonly raw: Json;
}

type AccountChange = 'added' | 'changed' | 'extra-changed' | 'unchanged';

/** Saves the account if it changed, and the stored one as a version. */
export async function saveAccount(
  { client }: SellerLock,
  { sellerId, at, runId }: RowStamp,
  { value, extra, raw }: AccountRecord,
): Promise<AccountChange> {
  const columns = Object.fromEntries(ACCOUNT_KEYS.map((key) => [ACCOUNT_COLUMNS[key], value[key]]));
  const row = JSON.stringify({ ...columns, extra });
  const result = await client.query<{ change: AccountChange }>(SAVE_ACCOUNT, [
    ...[sellerId, at, runId, row, JSON.stringify(storableJson(raw))],
  ]);
  return onlyRow(result).change;
}

const COLUMNS = Object.values(ACCOUNT_COLUMNS).join(', ');
const columnsOf = (table: string): string =>
  Object.values(ACCOUNT_COLUMNS)
    .map((column) => `${table}.${column}`)
    .join(', ');

/** Always increases, even if a clock goes back, so that no two states of an account overlap in time. */
const NEXT_CHANGED_AT = `greatest($2::timestamptz, s.changed_at + interval '1 microsecond')`;

/** Saves a version only if canonical fields change; unknown fields have no history. */
const SAVE_ACCOUNT = `
  WITH compared AS (
    SELECT CASE WHEN s.seller_id IS NULL THEN 'added'
                WHEN (${columnsOf('s')}) IS DISTINCT FROM (${columnsOf('n')}) THEN 'changed'
                WHEN s.extra <> n.extra THEN 'extra-changed'
                ELSE 'unchanged' END AS change
      FROM jsonb_populate_record(NULL::mirror.accounts, $4::jsonb) n
      LEFT JOIN mirror.accounts s ON s.seller_id = $1
  ), kept AS (
    INSERT INTO mirror.account_versions
      (seller_id, ${COLUMNS}, first_seen_at, synced_run_id, valid_from, valid_to, superseded_run_id)
    SELECT seller_id, ${COLUMNS}, first_seen_at, synced_run_id, changed_at, ${NEXT_CHANGED_AT}, $3
      FROM mirror.accounts s WHERE seller_id = $1 AND (SELECT change FROM compared) = 'changed'
  ), saved AS (
    INSERT INTO mirror.accounts
      (seller_id, ${COLUMNS}, first_seen_at, changed_at, synced_run_id, extra, raw)
    SELECT $1, ${columnsOf('n')}, coalesce(s.first_seen_at, $2),
           CASE change WHEN 'added' THEN $2 WHEN 'changed' THEN ${NEXT_CHANGED_AT} ELSE s.changed_at END,
           CASE change WHEN 'extra-changed' THEN s.synced_run_id ELSE $3 END, n.extra, $5
      FROM compared, jsonb_populate_record(NULL::mirror.accounts, $4::jsonb) n
      LEFT JOIN mirror.accounts s ON s.seller_id = $1
     WHERE change <> 'unchanged'
    ON CONFLICT (seller_id) DO UPDATE
      SET (${COLUMNS}, changed_at, synced_run_id, extra, raw)
        = (${columnsOf('excluded')}, excluded.changed_at, excluded.synced_run_id, excluded.extra, excluded.raw)
  )
  SELECT change FROM compared`;

/** A balance of an account, from this time on. */
export interface Balance {
  readonly validFrom: Date;
  readonly balance: string | null;
  readonly currency: string | null;
  readonly change: string | null;
}

/** The latest balances of a seller's account, oldest first. */
export async function readBalances({ pool }: Db, sellerId: string, limit: number) {
  const { rows } = await pool.query<Balance>(
    `SELECT valid_from AS "validFrom", balance, currency, change FROM reporting.balance_history
      WHERE seller_id = $1 ORDER BY valid_from DESC LIMIT $2`,
    [sellerId, limit],
  );
  return rows.toReversed();
}
