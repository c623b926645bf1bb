import { LONGEST_TEXT, storable } from '../db/stored-text.js';
import type { Db } from '../db/db.js';
import type { Feed, FeedView } from '../db/generated/prisma/client.js';
import type { Sums } from './feeds/plan.js';
import type { ViewSums } from './views.js';

type FeedViewState = Pick<FeedView, 'view' | 'waitingSince' | 'deliveredAt' | 'problem'>;

/** A feed that was requested at least once. */
export interface FeedState
  extends
    Pick<Feed, 'feed' | 'askedAt' | 'deliveredAt' | 'failures'>,
    Pick<Feed, 'problem' | 'failedAt' | 'staleSince' | 'fullAt'> {
  /** All views that were ever requested, by name. */
  readonly views: readonly FeedViewState[];
}

/** The result of a delivery. */
export interface FeedOutcome {
  /** Null: everything was delivered. */
  readonly problem: string | null;
  readonly views: readonly { readonly view: string; readonly problem: string | null }[];
  /** When the feed was last requested before the delivery began; null: never. */
  readonly askedAt: Date | null;
  /** Whether rows that people edited in the target were looked for, at least in one view. */
  readonly isFull: boolean;
}

/** All feeds that were ever requested, by name. */
export async function listFeedStates({ pool }: Db): Promise<FeedState[]> {
  const { rows: feeds } = await pool.query<Omit<FeedState, 'views'>>(
    `SELECT feed, asked_at AS "askedAt", delivered_at AS "deliveredAt", failures, problem,
            failed_at AS "failedAt", stale_since AS "staleSince", full_at AS "fullAt"
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
 * Records a request to deliver the current state of a feed's views.
 * @returns its number of consecutive failures
 */
export async function requestFeedViews(
  { pool }: Db,
  feed: string,
  views: readonly string[],
): Promise<number> {
  const { rows } = await pool.query<{ failures: number }>(
    `WITH requested AS (
       INSERT INTO mirror.feeds (feed, asked_at) VALUES ($1, clock_timestamp())
       ON CONFLICT (feed) DO UPDATE SET asked_at = excluded.asked_at
       RETURNING asked_at, failures
     )
     INSERT INTO mirror.feed_views AS v (feed, view_name, waiting_since)
     SELECT $1, name, asked_at FROM requested, unnest($2::text[]) AS name
     ON CONFLICT (feed, view_name) DO UPDATE
        SET waiting_since = least(v.waiting_since, excluded.waiting_since)
     RETURNING (SELECT failures FROM requested) AS failures`,
    [feed, views],
  );
  return rows[0]?.failures ?? 0;
}

/** What was asked of a feed, and when it was last compared in full. */
export interface FeedRequest extends Pick<FeedState, 'fullAt'> {
  /** When it was last requested; null: never. */
  readonly askedAt: Date | null;
  /** Since when the first of its views has waited; null: none waits. */
  readonly waitingSince: Date | null;
  /** The database's time. */
  readonly now: Date;
}

export async function readFeedRequest({ pool }: Db, feed: string): Promise<FeedRequest> {
  const { rows } = await pool.query<FeedRequest>(
    `SELECT clock_timestamp() AS now, f.asked_at AS "askedAt", f.full_at AS "fullAt",
            (SELECT min(waiting_since) FROM mirror.feed_views v WHERE v.feed = $1) AS "waitingSince"
       FROM (VALUES (1)) AS one LEFT JOIN mirror.feeds f ON f.feed = $1`,
    [feed],
  );
  return rows[0] ?? { askedAt: null, waitingSince: null, fullAt: null, now: new Date() };
}

/** Records the result of a delivery. @returns the feed's number of consecutive failures */
export async function recordDelivery(
  { pool }: Db,
  feed: string,
  { problem, views, askedAt: requestedAt, isFull }: FeedOutcome,
): Promise<number> {
  const { rows } = await pool.query<{ failures: number }>(
    `INSERT INTO mirror.feeds AS f (feed, delivered_at, failures, problem, failed_at, full_at)
     VALUES ($1, CASE WHEN $2::text IS NULL THEN clock_timestamp() END,
             CASE WHEN $2::text IS NULL THEN 0 ELSE 1 END, $2,
             CASE WHEN $2::text IS NOT NULL THEN clock_timestamp() END,
             CASE WHEN $3 THEN clock_timestamp() END)
     ON CONFLICT (feed) DO UPDATE
        SET delivered_at = coalesce(excluded.delivered_at, f.delivered_at), problem = excluded.problem,
            failures = CASE WHEN excluded.problem IS NULL THEN 0 ELSE f.failures + 1 END,
            failed_at = coalesce(excluded.failed_at, f.failed_at),
            full_at = coalesce(excluded.full_at, f.full_at)
     RETURNING failures`,
    [feed, storableText(problem), isFull],
  );
  // A request that came during the delivery waits for the next one.
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
                THEN least(v.waiting_since, excluded.waiting_since)
              ELSE (SELECT f.asked_at FROM mirror.feeds f
                     WHERE f.feed = $1 AND date_trunc('milliseconds', f.asked_at) > coalesce($4::timestamptz, '-infinity')) END`,
    [
      ...[feed, views.map(({ view }) => view), views.map((one) => storableText(one.problem))],
      requestedAt,
    ],
  );
  return rows[0]?.failures ?? 0;
}

function storableText(problem: string | null): string | null {
  return problem === null ? null : storable(problem, LONGEST_TEXT);
}

/** Records since when a feed has been stale; null: it is up to date. */
export async function markFeedStale({ pool }: Db, feed: string, since: Date | null): Promise<void> {
  await pool.query('UPDATE mirror.feeds SET stale_since = $2 WHERE feed = $1', [feed, since]);
}

interface ViewState {
  readonly view: string;
  /** Since when rows wait for delivery; null if none do. */
  readonly waitingSince: Date | null;
}

/**
 * How far a target is behind.
 * @param all states of the views, also of views that the feed no longer has
 * @param views the views of the feed today
 * @returns since when rows wait (null if none do), for how many milliseconds, and in which views
 */
export function feedDelay(all: readonly ViewState[], views: readonly string[], now: Date) {
  const behind = all.flatMap(({ view, waitingSince }) =>
    waitingSince !== null && views.includes(view) ? [{ view, since: waitingSince }] : [],
  );
  const [first] = behind.toSorted((a, b) => a.since.getTime() - b.since.getTime());
  const since = first?.since ?? null;
  // The database's clock may be ahead.
  const ms = since === null ? 0 : Math.max(0, now.getTime() - since.getTime());
  return { since, ms, views: behind.map(({ view }) => view) };
}

/**
 * The tokens by which this store knows what it has delivered to tables of this name, also by a feed with another
 * name.
 */
export async function knownTokens({ pool }: Db, view: string): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ token: string }>(
    `SELECT t.token FROM mirror.feed_views v, unnest(ARRAY[v.token, v.next_token]) AS t (token)
      WHERE v.view_name = $1 AND t.token IS NOT NULL`,
    [view],
  );
  return new Set(rows.map(({ token }) => token));
}

/**
 * Records the token that a delivery is about to write into the target. Later the target holds one of the two.
 * @param held the one that the target holds now; null: none of ours
 */
export async function proposeToken(
  { pool }: Db,
  feed: string,
  view: string,
  { held, next }: { readonly held: string | null; readonly next: string },
): Promise<void> {
  await pool.query(
    `INSERT INTO mirror.feed_views (feed, view_name, token, next_token) VALUES ($1, $2, $3, $4)
     ON CONFLICT (feed, view_name) DO UPDATE SET token = excluded.token, next_token = excluded.next_token`,
    [feed, view, held, next],
  );
}

/** The sums of a view in this state; null if they are not kept, or time has changed rows since. */
export async function readSums(
  { pool }: Db,
  feed: string,
  view: string,
  state: string,
): Promise<Sums | null> {
  const { rows } = await pool.query<{ sums: [number, number, string][] }>(
    `SELECT sums -> 'sums' AS sums FROM mirror.feed_views
      WHERE feed = $1 AND view_name = $2 AND sums_of = $3
        AND coalesce(to_timestamp((sums ->> 'until')::float8) > clock_timestamp(), true)`,
    [feed, view, state],
  );
  const [kept] = rows;
  return kept === undefined
    ? null
    : new Map(kept.sums.map(([bucket, number, sum]) => [bucket, { rows: number, sum }]));
}

/** Keeps the sums of a view. */
export async function keepSums(
  { pool }: Db,
  feed: string,
  view: string,
  state: string,
  { sums, until }: ViewSums,
): Promise<void> {
  const list = [...sums].map(([bucket, { rows, sum }]) => [bucket, rows, sum]);
  await pool.query(
    `INSERT INTO mirror.feed_views (feed, view_name, sums_of, sums) VALUES ($1, $2, $3, $4)
     ON CONFLICT (feed, view_name) DO UPDATE SET sums_of = excluded.sums_of, sums = excluded.sums`,
    [feed, view, state, JSON.stringify({ sums: list, until })],
  );
}
