import { type Db, inTransaction } from '../db/db.js';
import { onlyRow } from '../db/connection.js';

/**
 * `sync` mirrors account and items, `account` only the account, `recheck` checks known codes again, and `feed` delivers
 * a feed.
 */
type ScheduleKind = 'sync' | 'account' | 'recheck' | 'feed';

export interface Schedule {
  readonly kind: ScheduleKind;
  /** Name of the seller, or of the feed. */
  readonly name: string;
  readonly cron: string;
  /** IANA name of the time zone of `cron`. */
  readonly timeZone: string;
}

export interface StoredSchedule extends Schedule {
  /** When its next job is due. */
  readonly nextAt: Date;
  /** When the job was due that was last added to the queue; null if none was. */
  readonly lastAt: Date | null;
}

const COLUMNS =
  'kind, name, cron, time_zone AS "timeZone", next_at AS "nextAt", last_at AS "lastAt"';

/** All schedules, as the scheduler that was started last read them from its settings. */
export async function listSchedules({ pool }: Db): Promise<StoredSchedule[]> {
  const { rows } = await pool.query<StoredSchedule>(
    `SELECT ${COLUMNS} FROM mirror.schedules ORDER BY kind, name`,
  );
  return rows;
}

/** Rows to write, and rows to delete. */
export interface ScheduleChanges {
  readonly put: readonly StoredSchedule[];
  readonly remove: readonly StoredSchedule[];
}

const LOCK = `
  SELECT pg_try_advisory_xact_lock(hashtextextended('seller-mirror/schedules', 0)) AS "isFree",
         date_trunc('milliseconds', clock_timestamp()) AS now`;

const PUT = `
  INSERT INTO mirror.schedules (kind, name, cron, time_zone, next_at, last_at)
  SELECT kind, name, cron, "timeZone", "nextAt", "lastAt" FROM json_to_recordset($1) AS put (
    kind text, name text, cron text, "timeZone" text, "nextAt" timestamptz, "lastAt" timestamptz)
  ON CONFLICT (kind, name) DO UPDATE
     SET cron = excluded.cron, time_zone = excluded.time_zone,
         next_at = excluded.next_at, last_at = excluded.last_at`;

const REMOVE = `
  DELETE FROM mirror.schedules s USING json_to_recordset($1) AS gone (kind text, name text)
   WHERE s.kind = gone.kind AND s.name = gone.name`;

/** A process that stops responding (suspended, for example) loses its turn after this time. */
const LONGEST_TURN = '60s';

/**
 * Reads the schedules, calls `change` and writes what it returns, all in one transaction. Only one process at a time
 * has such a turn.
 * @param change receives the database's time, which all processes share
 * @returns false if another process has its turn now
 */
export async function takeTurn(
  db: Db,
  change: (stored: readonly StoredSchedule[], now: Date) => Promise<ScheduleChanges>,
): Promise<boolean> {
  return await inTransaction(
    db,
    async (client) => {
      const { isFree, now } = onlyRow(await client.query<{ isFree: boolean; now: Date }>(LOCK));
      if (!isFree) return false;
      const { rows } = await client.query<StoredSchedule>(
        `SELECT ${COLUMNS} FROM mirror.schedules`,
      );
      const { put, remove } = await change(rows, now);
      if (put.length > 0) await client.query(PUT, [JSON.stringify(put)]);
      if (remove.length > 0) await client.query(REMOVE, [JSON.stringify(remove)]);
      return true;
    },
    `SET LOCAL idle_in_transaction_session_timeout = '${LONGEST_TURN}'`,
  );
}

/**
 * Schedules of runs whose last job was due within the last `days` and was followed by no run. A held run counts, since it
 * mirrored everything that is listed.
 */
export async function schedulesWithoutRun({ pool }: Db, days: number): Promise<StoredSchedule[]> {
  const { rows } = await pool.query<StoredSchedule>(
    `SELECT ${COLUMNS} FROM mirror.schedules s
      WHERE kind IN ('sync', 'account') AND last_at BETWEEN now() - $1 * interval '1 day' AND now()
        AND NOT EXISTS (
          SELECT FROM mirror.runs r
           WHERE r.seller_id = s.name AND r.state IN ('succeeded', 'held')
             AND r.kind = (CASE s.kind WHEN 'sync' THEN 'items' ELSE 'account' END)::mirror.run_kind
             AND r.started_at >= s.last_at)`,
    [days],
  );
  return rows;
}
