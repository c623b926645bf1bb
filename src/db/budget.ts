import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import {
  BudgetPaused,
  LEFT_OUT_HOURS,
  spacingOf,
  type Budget,
  type OnWait,
  type Priority,
  type RandomParameter,
} from '../domain/budget.js';
import type { Db } from './db.js';
import { LATEST_PLANNED } from './moments.js';

/** How long a waiting mirror request blocks audit requests (ms). It renews this each time it tries. */
const URGENT_MS = 2_000;
/** Longest sleep (ms) between tries, so that a pause set or lifted by another process is noticed. */
const LONGEST_SLEEP_MS = 30_000;
/** How often an unlimited budget checks for a pause (ms). */
const PAUSE_CHECK_MS = 1_000;

/** Waits longer than this (ms) are told. */
const TOLD_MS = 5_000;

/**
 * The request budget of a marketplace host. It is kept in the database, so all processes share it.
 * Requests are evenly spaced by the database's clock.
 * @param requestsPerMinute 0: unlimited; only pauses that the marketplace requested hold requests back
 * @param onWait called when a request waits for more than 5 s, with the milliseconds left, and with null when it is sent
 */
export function storedBudget(
  { pool, clock }: Pick<Db, 'pool' | 'clock'>,
  host: string,
  requestsPerMinute: number,
  onWait: OnWait = () => undefined,
): Budget {
  const isUnlimited = requestsPerMinute === 0;
  const spacingMs = spacingOf(requestsPerMinute);
  let unpausedAt = -Infinity;
  const tryNow = async (priority: Priority): Promise<Wait> => {
    if (!isUnlimited) return tryAcquire(pool, host, spacingMs, priority);
    // A query for every request would make the database the bottleneck.
    if (performance.now() - unpausedAt < PAUSE_CHECK_MS) return NO_WAIT;
    const pauseMs = await pauseOf(pool, host);
    if (pauseMs <= 0) unpausedAt = performance.now();
    return { waitMs: pauseMs, pauseMs };
  };
  return {
    ...(isUnlimited ? {} : { requestsPerMinute }),
    async acquire(priority, signal, patienceMs = Infinity) {
      let isTold = false;
      try {
        for (;;) {
          signal.throwIfAborted();
          const { waitMs, pauseMs } = await tryNow(priority);
          if (waitMs <= 0) return;
          if (pauseMs > patienceMs) throw new BudgetPaused(clock.now() + pauseMs);
          if (waitMs > TOLD_MS) {
            onWait(waitMs);
            isTold = true;
          }
          // An abort ends the sleep; then the loop throws its reason.
          const ms = Math.min(waitMs, LONGEST_SLEEP_MS);
          await sleep(ms, undefined, { signal }).catch(() => undefined);
        }
      } finally {
        if (isTold) onWait(null);
      }
    },
    async pauseUntil(until) {
      unpausedAt = -Infinity;
      await pauseHost(pool, host, until - clock.now());
    },
  };
}

/** Milliseconds until the next try, and until the end of a pause that the marketplace requested. */
interface Wait {
  readonly waitMs: number;
  readonly pauseMs: number;
}

const NO_WAIT: Wait = { waitMs: 0, pauseMs: 0 };

/** A slot is never further ahead than this and one spacing (ms); other processes may have a smaller budget. */
const FARTHEST_MS = 60_000;

/*
 * What was recorded while the database's clock was ahead is not believed: it would block the host for as long. SQL of the
 * believed values of a row `b` at `now.at`. No pause is longer than a day.
 */
const PAUSED_UNTIL = `
  CASE WHEN b.paused_at > now.at + interval '1 minute' OR b.paused_until > now.at + interval '25 hours'
       THEN 'epoch' ELSE b.paused_until END`;
const URGENT_UNTIL = `
  CASE WHEN b.urgent_until > now.at + interval '${FARTHEST_MS} ms' THEN 'epoch' ELSE b.urgent_until END`;
/** @param spacing SQL of the milliseconds between two slots */
const nextAt = (spacing: string): string => `
  CASE WHEN b.next_at > now.at + (${spacing} + ${FARTHEST_MS}) * interval '1 ms' THEN now.at ELSE b.next_at END`;

async function pauseOf(pool: Pool, host: string): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(
    `SELECT (extract(epoch FROM ${PAUSED_UNTIL} - now.at) * 1000)::float8 AS ms
       FROM mirror.request_budgets b, (SELECT clock_timestamp() AS at) now WHERE host = $1`,
    [host],
  );
  return rows[0]?.ms ?? 0;
}

/** @param ms from now, so that only the database's clock counts */
async function pauseHost(pool: Pool, host: string, ms: number): Promise<void> {
  await insertHost(pool, host);
  await pool.query(
    `UPDATE mirror.request_budgets b
        SET paused_until = greatest(${PAUSED_UNTIL}, now.at + $2 * interval '1 ms'), paused_at = now.at
       FROM (SELECT clock_timestamp() AS at) now WHERE host = $1`,
    [host, ms],
  );
}

async function insertHost(pool: Pool, host: string): Promise<void> {
  await pool.query(
    `INSERT INTO mirror.request_budgets (host, next_at, paused_until, urgent_until)
     VALUES ($1, now(), 'epoch', 'epoch') ON CONFLICT (host) DO NOTHING`,
    [host],
  );
}

/**
 * Takes the slot that is due, or returns how long to wait before the next try. A slot taken up to a
 * tenth of the spacing late does not delay the next one, so that wake-up time costs no throughput.
 */
async function tryAcquire(
  pool: Pool,
  host: string,
  spacingMs: number,
  priority: Priority,
): Promise<Wait> {
  const next = nextAt('$2::float8');
  const { rows } = await pool.query<{ taken: boolean; wait_ms: number; pause_ms: number }>(
    `WITH now AS (SELECT clock_timestamp() AS at),
     taken AS (
       UPDATE mirror.request_budgets b
          SET next_at = greatest(${next}, now.at - $2::float8 * interval '1 ms' / 10) + $2::float8 * interval '1 ms',
              urgent_until = CASE WHEN $3 THEN 'epoch' ELSE b.urgent_until END
         FROM now
        WHERE b.host = $1 AND ${next} <= now.at AND ${PAUSED_UNTIL} <= now.at
          AND ($3 OR ${URGENT_UNTIL} <= now.at)
       RETURNING 1
     ), waiting AS (
       UPDATE mirror.request_budgets b SET urgent_until = now.at + $4::float8 * interval '1 ms' FROM now
        WHERE b.host = $1 AND $3 AND NOT EXISTS (SELECT 1 FROM taken)
          AND (${next} > now.at OR ${PAUSED_UNTIL} > now.at)
     )
     SELECT EXISTS (SELECT 1 FROM taken) AS taken,
            ceil(extract(epoch FROM greatest(
              ${next}, ${PAUSED_UNTIL}, CASE WHEN $3 THEN 'epoch' ELSE ${URGENT_UNTIL} END
            ) - now.at) * 1000)::float8 AS wait_ms,
            (extract(epoch FROM ${PAUSED_UNTIL} - now.at) * 1000)::float8 AS pause_ms
       FROM mirror.request_budgets b, now WHERE b.host = $1`,
    [host, spacingMs, priority === 'mirror', URGENT_MS],
  );
  const row = rows[0];
  if (row === undefined) {
    await insertHost(pool, host);
    return { waitMs: 1, pauseMs: 0 };
  }
  return row.taken ? NO_WAIT : { waitMs: Math.max(1, row.wait_ms), pauseMs: row.pause_ms };
}

/** Ask the store again after this time (ms) whether the random parameter is sent. */
const ASK_AGAIN_MS = 60_000;

/** Whether requests to a marketplace host carry the random parameter. Kept beside the host's budget. */
export function storedRandomParameter({ pool }: Pick<Db, 'pool'>, host: string): RandomParameter {
  let known = true;
  let askedAt = -Infinity;
  return {
    async isSent() {
      if (performance.now() - askedAt < ASK_AGAIN_MS) return known;
      const { rows } = await pool.query<{ left_out: boolean }>(
        `SELECT coalesce(random_left_out_until > clock_timestamp()
                         AND random_left_out_until < ${LATEST_PLANNED}, false) AS left_out
           FROM mirror.request_budgets WHERE host = $1`,
        [host],
      );
      known = rows[0]?.left_out !== true;
      askedAt = performance.now();
      return known;
    },
    async leaveOut() {
      await insertHost(pool, host);
      await pool.query(
        `UPDATE mirror.request_budgets
            SET random_left_out_until = clock_timestamp() + $2 * interval '1 hour' WHERE host = $1`,
        [host, LEFT_OUT_HOURS],
      );
      known = false;
      askedAt = performance.now();
    },
  };
}

/** Requests are counted in slots of this many minutes. */
export const SLOT_MINUTES = 5;

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
