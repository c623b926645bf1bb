import type { Pool } from 'pg';
import type { Schedule } from './generated/prisma/client.js';

/** `sync` mirrors account and items, `account` the account alone, `recheck` asks for known codes again. */
export type ScheduleKind = 'sync' | 'account' | 'recheck';

export interface ScheduleKey {
  readonly seller: string;
  readonly kind: ScheduleKind;
}

/** What a schedule said when it was last dealt with: all its ticks up to `lastTick` were. */
export type ScheduleRecord = Pick<Schedule, 'cron' | 'timeZone' | 'lastTick'>;

/** A schedule's record in the store. */
export interface ScheduleState extends ScheduleKey {
  /** Null when none of its ticks was ever dealt with. */
  readonly record: ScheduleRecord | null;
  /** When a tick was last put into the queue; null when none ever was. */
  readonly enqueuedAt: Date | null;
  /** When the newest run began that mirrored what the schedule does; null when there was none. */
  readonly lastRunAt: Date | null;
}

/** A schedule to be recorded as dealt with up to a tick. */
export interface TickDone extends ScheduleKey, ScheduleRecord {
  /** Host of the seller's marketplace, for a seller that the store does not know yet. */
  readonly marketplace: string;
  /** When the tick was put into the queue; null when it was passed over. */
  readonly enqueuedAt: Date | null;
}

/** A held run mirrored all that is present, so it counts like a success. */
const STATES = `
  SELECT asked.seller, asked.kind, s.cron, s.time_zone AS "timeZone",
         s.last_tick AS "lastTick", nullif(s.enqueued_at, 'epoch') AS "enqueuedAt",
         run.started_at AS "lastRunAt"
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS asked (seller, kind, place)
    LEFT JOIN mirror.schedules s ON s.seller_id = asked.seller AND s.kind = asked.kind
    LEFT JOIN LATERAL (
      SELECT r.started_at FROM mirror.runs r
       WHERE asked.kind <> 'recheck' AND r.seller_id = asked.seller
         AND r.state IN ('succeeded', 'held')
         AND r.kind = (CASE asked.kind WHEN 'sync' THEN 'items' ELSE 'account' END)::mirror.run_kind
       ORDER BY r.run_id DESC LIMIT 1
    ) run ON true
   ORDER BY asked.place`;

export async function readSchedules(
  pool: Pool,
  keys: readonly ScheduleKey[],
): Promise<ScheduleState[]> {
  const sellers = keys.map(({ seller }) => seller);
  const kinds = keys.map(({ kind }) => kind);
  const { rows } = await pool.query<
    Omit<ScheduleState, 'record'> & {
      [Field in keyof ScheduleRecord]: ScheduleRecord[Field] | null;
    }
  >(STATES, [sellers, kinds]);
  return rows.map(({ cron, timeZone, lastTick, ...state }) => ({
    ...state,
    record:
      cron === null || timeZone === null || lastTick === null ? null : { cron, timeZone, lastTick },
  }));
}

/**
 * In an order of its own, so that schedulers that write at the same time wait for each other and
 * never in a circle. 'epoch' stands for never.
 */
const RECORD = `
  WITH done AS (
    SELECT * FROM json_to_recordset($1) AS done (
      seller text, marketplace text, kind text, cron text, "timeZone" text,
      "lastTick" timestamptz, "enqueuedAt" timestamptz)
  ), entered AS (
    INSERT INTO mirror.sellers (seller_id, marketplace)
    SELECT DISTINCT ON (seller) seller, marketplace FROM done ORDER BY seller
    ON CONFLICT (seller_id) DO NOTHING
  )
  INSERT INTO mirror.schedules AS s (seller_id, kind, cron, time_zone, last_tick, enqueued_at)
  SELECT seller, kind, cron, "timeZone", "lastTick", coalesce("enqueuedAt", 'epoch')
    FROM done ORDER BY seller, kind
  ON CONFLICT (seller_id, kind) DO UPDATE
     SET cron = EXCLUDED.cron, time_zone = EXCLUDED.time_zone,
         last_tick = CASE WHEN s.last_tick > $2 THEN EXCLUDED.last_tick
                          ELSE greatest(s.last_tick, EXCLUDED.last_tick) END,
         enqueued_at = greatest(s.enqueued_at, EXCLUDED.enqueued_at)`;

/**
 * Records how far schedules got, in one statement, and enters sellers that are new. A record never
 * goes back, except one beyond `credible`, which a clock that was wrong must have made.
 */
export async function recordTicks(
  pool: Pool,
  done: readonly TickDone[],
  credible: Date,
): Promise<void> {
  await pool.query(RECORD, [JSON.stringify(done), credible]);
}
