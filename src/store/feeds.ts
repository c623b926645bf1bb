import type { Pool } from 'pg';
import { LONGEST_TEXT, storable } from './audits/columns.js';

/** How a feed is doing. */
export interface FeedState {
  readonly feed: string;
  /** When it was last asked to deliver. */
  readonly askedAt: Date;
  /** When it last delivered all that there was; null: never. */
  readonly deliveredAt: Date | null;
  /** How often in a row it failed since. */
  readonly failures: number;
  /** Why it did not deliver; null when it did. */
  readonly problem: string | null;
  readonly failedAt: Date | null;
}

const COLUMNS = `feed, asked_at AS "askedAt", delivered_at AS "deliveredAt", failures, problem,
                 failed_at AS "failedAt"`;

/** The feeds that were ever asked for, by name. */
export async function list(pool: Pool): Promise<FeedState[]> {
  const { rows } = await pool.query<FeedState>(`SELECT ${COLUMNS} FROM mirror.feeds ORDER BY feed`);
  return rows;
}

/** Notes that a feed is to deliver what there is from now on. */
export async function ask(pool: Pool, feed: string): Promise<void> {
  await pool.query(
    `INSERT INTO mirror.feeds (feed, asked_at) VALUES ($1, clock_timestamp())
     ON CONFLICT (feed) DO UPDATE SET asked_at = excluded.asked_at`,
    [feed],
  );
}

/** When a feed was last asked; null: never. */
export async function askedAt(pool: Pool, feed: string): Promise<Date | null> {
  const { rows } = await pool.query<{ at: Date }>(
    'SELECT asked_at AS at FROM mirror.feeds WHERE feed = $1',
    [feed],
  );
  return rows[0]?.at ?? null;
}

/** Notes that a feed has delivered, or why not. @returns how often it failed in a row */
export async function note(pool: Pool, feed: string, problem: string | null): Promise<number> {
  const text = problem === null ? null : storable(problem, LONGEST_TEXT);
  const { rows } = await pool.query<{ failures: number }>(
    `INSERT INTO mirror.feeds AS f (feed, delivered_at, failures, problem, failed_at)
     VALUES ($1, CASE WHEN $2::text IS NULL THEN clock_timestamp() END,
             CASE WHEN $2::text IS NULL THEN 0 ELSE 1 END, $2,
             CASE WHEN $2::text IS NOT NULL THEN clock_timestamp() END)
     ON CONFLICT (feed) DO UPDATE
        SET delivered_at = coalesce(excluded.delivered_at, f.delivered_at), problem = excluded.problem,
            failures = CASE WHEN excluded.problem IS NULL THEN 0 ELSE f.failures + 1 END,
            failed_at = coalesce(excluded.failed_at, f.failed_at)
     RETURNING failures`,
    [feed, text],
  );
  return rows[0]?.failures ?? 0;
}
