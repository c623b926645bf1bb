import type { Pool } from 'pg';
import { LONGEST_TEXT, storable } from './audits/columns.js';
import type { Feed, FeedView } from './generated/prisma/client.js';

/** How a view of a feed is doing. */
export type FeedViewState = Pick<FeedView, 'view' | 'waitingSince' | 'deliveredAt' | 'problem'>;

/** How a feed is doing. */
export interface FeedState
  extends
    Pick<Feed, 'feed' | 'askedAt' | 'deliveredAt' | 'failures'>,
    Pick<Feed, 'problem' | 'failedAt' | 'staleSince'> {
  /** Those that were ever asked for, by name. */
  readonly views: readonly FeedViewState[];
}

/** What came of a delivery. */
export interface FeedOutcome {
  /** Null: all was delivered. */
  readonly problem: string | null;
  readonly views: readonly { readonly view: string; readonly problem: string | null }[];
  /** When the feed had last been asked as the delivery began; null: never. */
  readonly askedAt: Date | null;
}

/** The feeds that were ever asked for, by name. */
export async function list(pool: Pool): Promise<FeedState[]> {
  const { rows: feeds } = await pool.query<Omit<FeedState, 'views'>>(
    `SELECT feed, asked_at AS "askedAt", delivered_at AS "deliveredAt", failures, problem,
            failed_at AS "failedAt", stale_since AS "staleSince"
       FROM mirror.feeds ORDER BY feed`,
  );
  const { rows: views } = await pool.query<FeedViewState & Pick<FeedView, 'feed'>>(
    `SELECT feed, view_name AS view, waiting_since AS "waitingSince",
            delivered_at AS "deliveredAt", problem
       FROM mirror.feed_views ORDER BY feed, view_name`,
  );
  return feeds.map((state) => ({
    ...state,
    views: views.flatMap(({ feed, ...view }) => (feed === state.feed ? [view] : [])),
  }));
}

/**
 * Notes that somebody asks for the views of a feed, as they are from now on.
 * @returns how often it failed in a row
 */
export async function ask(pool: Pool, feed: string, views: readonly string[]): Promise<number> {
  const { rows } = await pool.query<{ failures: number }>(
    `WITH asked AS (
       INSERT INTO mirror.feeds (feed, asked_at) VALUES ($1, clock_timestamp())
       ON CONFLICT (feed) DO UPDATE SET asked_at = excluded.asked_at
       RETURNING asked_at, failures
     )
     INSERT INTO mirror.feed_views AS v (feed, view_name, waiting_since)
     SELECT $1, name, asked_at FROM asked, unnest($2::text[]) AS name
     ON CONFLICT (feed, view_name) DO UPDATE
        SET waiting_since = coalesce(v.waiting_since, excluded.waiting_since)
     RETURNING (SELECT failures FROM asked) AS failures`,
    [feed, views],
  );
  return rows[0]?.failures ?? 0;
}

/** When a feed was last asked; null: never. */
export async function askedAt(pool: Pool, feed: string): Promise<Date | null> {
  const { rows } = await pool.query<{ at: Date }>(
    'SELECT asked_at AS at FROM mirror.feeds WHERE feed = $1',
    [feed],
  );
  return rows[0]?.at ?? null;
}

/** Notes what a feed has delivered, or why not. @returns how often it failed in a row */
export async function note(
  pool: Pool,
  feed: string,
  { problem, views, askedAt: asked }: FeedOutcome,
): Promise<number> {
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
    [feed, textOf(problem)],
  );
  // What was asked for while the delivery went on waits for the next one.
  await pool.query(
    `INSERT INTO mirror.feed_views AS v (feed, view_name, waiting_since, delivered_at, problem)
     SELECT $1, name, CASE WHEN problem IS NOT NULL THEN clock_timestamp() END,
            CASE WHEN problem IS NULL THEN clock_timestamp() END, problem
       FROM unnest($2::text[], $3::text[]) AS o (name, problem)
     ON CONFLICT (feed, view_name) DO UPDATE
        SET problem = excluded.problem,
            delivered_at = coalesce(excluded.delivered_at, v.delivered_at),
            waiting_since = CASE
              WHEN excluded.problem IS NOT NULL
                THEN coalesce(v.waiting_since, excluded.waiting_since)
              ELSE (SELECT f.asked_at FROM mirror.feeds f
                     WHERE f.feed = $1 AND date_trunc('milliseconds', f.asked_at) > $4) END`,
    [feed, views.map(({ view }) => view), views.map((one) => textOf(one.problem)), asked],
  );
  return rows[0]?.failures ?? 0;
}

function textOf(problem: string | null): string | null {
  return problem === null ? null : storable(problem, LONGEST_TEXT);
}

/** Notes since when a feed is stale; null: it no longer is. */
export async function markStale(pool: Pool, feed: string, since: Date | null): Promise<void> {
  await pool.query('UPDATE mirror.feeds SET stale_since = $2 WHERE feed = $1', [feed, since]);
}
