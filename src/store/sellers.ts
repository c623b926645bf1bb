import type { Pool } from 'pg';
import { type Connections, inTransaction } from './pools.js';

/** The account a seller's key was first seen to open, and where. */
export interface Binding {
  /** Null until the key was first proven. */
  readonly username: string | null;
  /** Host of the marketplace, without `www.`. */
  readonly marketplace: string;
}

/** Enters a configured seller when it is new; returns its binding. */
export async function ensureSeller(
  pool: Pool,
  sellerId: string,
  marketplace: string,
): Promise<Binding> {
  const known = await bindingOf(pool, sellerId);
  if (known !== null) return known;
  await pool.query(
    `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, $2)
     ON CONFLICT (seller_id) DO NOTHING`,
    [sellerId, marketplace],
  );
  return (await bindingOf(pool, sellerId)) ?? { username: null, marketplace };
}

/** The account and marketplace a seller is bound to; null when the store does not know the seller. */
export async function bindingOf(pool: Pool, sellerId: string): Promise<Binding | null> {
  const { rows } = await pool.query<Binding>(
    'SELECT bound_username AS username, marketplace FROM mirror.sellers WHERE seller_id = $1',
    [sellerId],
  );
  return rows[0] ?? null;
}

/** Remembers which account of which marketplace belongs to a seller. */
export async function bindSeller(
  pool: Pool,
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
  /** Code of the problem that only a person can mend; `PAUSED` when a person paused the seller. */
  readonly code: string;
  readonly reason: string;
  /** The run that met the problem; null for a pause. */
  readonly runId: bigint | null;
}

/** The code of a parking that a person asked for. Only `resumeSeller` ends it. */
export const PAUSED = 'paused';

/** Whether and why schedules leave a seller alone; null when they don't. */
export async function parkingOf(pool: Pool, sellerId: string): Promise<Parking | null> {
  const { rows } = await pool.query<Omit<Parking, 'runId'> & { runId: string | null }>(
    `SELECT parked_at AS since, parked_code AS code, parked_reason AS reason,
            parked_run_id AS "runId"
       FROM mirror.sellers WHERE seller_id = $1 AND parked_at IS NOT NULL`,
    [sellerId],
  );
  if (rows[0] === undefined) return null;
  const { runId, ...parking } = rows[0];
  return { ...parking, runId: runId === null ? null : BigInt(runId) };
}

/**
 * Pauses a seller: schedules leave it alone until `resumeSeller`, whatever runs find. A pause takes
 * the place of a parking because of a problem.
 * @param reason such as `paused by alice`
 * @returns false when it is paused already, or not in the store
 */
export async function pauseSeller(pool: Pool, sellerId: string, reason: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    `UPDATE mirror.sellers
        SET parked_at = now(), parked_code = $2, parked_reason = $3, parked_run_id = NULL
      WHERE seller_id = $1 AND parked_code IS DISTINCT FROM $2`,
    [sellerId, PAUSED, reason],
  );
  return rowCount === 1;
}

/**
 * Lets schedules mirror a seller again, whether it was paused or parked because of a problem.
 * @returns false when schedules don't leave it alone
 */
export async function resumeSeller(pool: Pool, sellerId: string): Promise<boolean> {
  const { rowCount } = await pool.query(
    `UPDATE mirror.sellers
        SET parked_at = NULL, parked_code = NULL, parked_reason = NULL, parked_run_id = NULL
      WHERE seller_id = $1 AND parked_at IS NOT NULL`,
    [sellerId],
  );
  return rowCount === 1;
}

/**
 * Parks a seller because of a run's problem, unless a later run went well or a person paused it. A
 * seller that is parked already keeps its date and gets the newer reason.
 * @returns whether the seller was not parked before and is now
 */
export async function parkSeller(
  pool: Pool,
  sellerId: string,
  {
    code,
    reason,
    runId,
  }: { readonly code: string; readonly reason: string; readonly runId: bigint },
): Promise<boolean> {
  return inTransaction(pool, async (client) => {
    // `finishRun` writes this row too: the statement after this one sees what it has written.
    const { rows } = await client.query<{ parked: boolean }>(
      `SELECT parked_at IS NOT NULL AS parked FROM mirror.sellers WHERE seller_id = $1 FOR UPDATE`,
      [sellerId],
    );
    const { rowCount } = await client.query(
      `UPDATE mirror.sellers
          SET parked_at = coalesce(parked_at, now()), parked_code = $2, parked_reason = $3,
              parked_run_id = $4
        WHERE seller_id = $1 AND parked_code IS DISTINCT FROM $5 AND NOT EXISTS (
          SELECT FROM mirror.runs r
           WHERE r.seller_id = $1 AND r.run_id > $4 AND r.kind IN ('account', 'items')
             AND r.state IN ('succeeded', 'held'))`,
      [sellerId, code, reason, runId, PAUSED],
    );
    return rowCount === 1 && rows[0]?.parked === false;
  });
}

/** How current the copy of one seller is, and how large; for gauges and alerts. */
export interface Freshness {
  readonly sellerId: string;
  /** When the store first heard of the seller. */
  readonly since: Date;
  /** End of the last run that mirrored the account; null when there was none. */
  readonly accountMirroredAt: Date | null;
  /** End of the last run that mirrored the items; null when there was none. */
  readonly itemsMirroredAt: Date | null;
  /** Schedules leave the seller alone until a person has mended what went wrong. */
  readonly parked: boolean;
  /** Schedules leave the seller alone because a person wants it so. */
  readonly paused: boolean;
  readonly items: { readonly live: number; readonly missing: number; readonly removed: number };
}

/** Every seller in the store, by name. A held run mirrored all that is present: it counts as a success. */
export async function readFreshness(pool: Pool): Promise<Freshness[]> {
  const { rows } = await pool.query<Freshness>(
    `SELECT s.seller_id AS "sellerId", s.created_at AS since,
            s.parked_at IS NOT NULL AND s.parked_code IS DISTINCT FROM $1 AS parked,
            s.parked_code IS NOT DISTINCT FROM $1 AS paused,
            (SELECT finished_at FROM mirror.runs r
              WHERE r.seller_id = s.seller_id AND r.kind = 'account'
                AND r.state IN ('succeeded', 'held')
              ORDER BY r.run_id DESC LIMIT 1) AS "accountMirroredAt",
            (SELECT finished_at FROM mirror.runs r
              WHERE r.seller_id = s.seller_id AND r.kind = 'items'
                AND r.state IN ('succeeded', 'held')
              ORDER BY r.run_id DESC LIMIT 1) AS "itemsMirroredAt",
            (SELECT json_build_object('live', count(*) FILTER (WHERE state = 'live'),
                                      'missing', count(*) FILTER (WHERE state = 'missing'),
                                      'removed', count(*) FILTER (WHERE state = 'removed'))
               FROM mirror.items i WHERE i.seller_id = s.seller_id) AS items
       FROM mirror.sellers s
      ORDER BY s.seller_id`,
    [PAUSED],
  );
  return rows;
}

/** Deletes everything about a seller. Only the demo does so, to start over. */
export async function forgetSeller({ prisma }: Connections, sellerId: string): Promise<void> {
  const where = { where: { sellerId } };
  await prisma.$transaction([
    prisma.auditEntry.deleteMany(where),
    prisma.auditCode.deleteMany(where),
    prisma.auditChunk.deleteMany(where),
    prisma.audit.deleteMany(where),
    prisma.codeTransition.deleteMany(where),
    prisma.codeCheck.deleteMany(where),
    prisma.purchaseCode.deleteMany(where),
    prisma.itemLookup.deleteMany(where),
    prisma.itemChange.deleteMany(where),
    prisma.itemVersion.deleteMany(where),
    prisma.accountVersion.deleteMany(where),
    prisma.quarantinedRecord.deleteMany(where),
    prisma.schedule.deleteMany(where),
    prisma.requestCount.deleteMany(where),
    prisma.run.deleteMany(where),
    prisma.item.deleteMany(where),
    prisma.account.deleteMany(where),
    prisma.seller.deleteMany(where),
  ]);
}
