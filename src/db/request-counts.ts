import type { Db } from './db.js';

/** Requests are counted in slots of this many minutes. */
const SLOT_MINUTES = 5;

/** Adds to the request count of the current slot, and deletes slots older than a day. */
export async function addRequests({ pool }: Db, sellerId: string, requests: number): Promise<void> {
  await pool.query(
    `WITH old AS (DELETE FROM mirror.request_counts
                   WHERE seller_id = $1 AND slot < now() - interval '1 day')
     INSERT INTO mirror.request_counts AS c (seller_id, slot, requests)
     VALUES ($1, date_bin($3 * interval '1 minute', now(), 'epoch'), $2)
     ON CONFLICT (seller_id, slot) DO UPDATE SET requests = c.requests + excluded.requests`,
    [sellerId, requests, SLOT_MINUTES],
  );
}

/** Request counts of one slot. */
export interface RequestSlot {
  readonly at: Date;
  /** Requests of this seller. */
  readonly own: number;
  /** Requests of all sellers of its marketplace, which share one budget. */
  readonly all: number;
}

/** The slots of the last hour, oldest first, including the current one. */
export async function readRequestsOfLastHour(
  { pool }: Db,
  sellerId: string,
): Promise<RequestSlot[]> {
  const { rows } = await pool.query<RequestSlot>(
    `SELECT slot AS at, coalesce(sum(c.requests) FILTER (WHERE c.seller_id = $1), 0)::int AS own,
            coalesce(sum(c.requests), 0)::int AS all
       FROM generate_series(date_bin($2 * interval '1 minute', now() - interval '55 minutes', 'epoch'),
                            now(), $2 * interval '1 minute') AS slot
       LEFT JOIN (
         SELECT c.* FROM mirror.sellers own
           JOIN mirror.sellers s USING (marketplace)
           JOIN mirror.request_counts c ON c.seller_id = s.seller_id
          WHERE own.seller_id = $1 AND c.slot >= now() - interval '1 hour') c USING (slot)
      GROUP BY slot ORDER BY slot`,
    [sellerId, SLOT_MINUTES],
  );
  return rows;
}
