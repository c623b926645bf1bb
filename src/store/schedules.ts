import type { Db } from './db.js';
import type { Schedule } from './generated/prisma/client.js';

/** `sync` mirrors account and items, `account` only the account; `recheck` checks known codes again. */
type ScheduleKind = 'sync' | 'account' | 'recheck';

export interface ScheduleKey {
  readonly seller: string;
  readonly kind: ScheduleKind;
}

/** A schedule at its last update: all ticks up to `lastTick` are handled. */
export type ScheduleRecord = Pick<Schedule, 'cron' | 'timeZone' | 'lastTick'>;

export interface ScheduleState extends ScheduleKey {
  /** Null if none of its ticks was ever handled. */
  readonly record: ScheduleRecord | null;
  /** When a tick was last enqueued; null: never. */
  readonly enqueuedAt: Date | null;
  /** Start of the newest run that did the schedule's work; null if there is none. */
  readonly lastRunAt: Date | null;
}

/** A schedule whose ticks up to `lastTick` are handled. */
export interface TickRecord extends ScheduleKey, ScheduleRecord {
  /** Host of the seller's marketplace, to add a new seller. */
  readonly marketplace: string;
  /** When the tick was enqueued; null if it was skipped. */
  readonly enqueuedAt: Date | null;
}

/** A held run counts as a success, since it mirrored everything that is listed. */
const READ = `
  SELECT requested.seller, requested.kind, s.cron, s.time_zone AS "timeZone",
         s.last_tick AS "lastTick", nullif(s.enqueued_at, 'epoch') AS "enqueuedAt",
         run.started_at AS "lastRunAt"
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS requested (seller, kind, place)
    LEFT JOIN mirror.schedules s ON s.seller_id = requested.seller AND s.kind = requested.kind
    LEFT JOIN LATERAL (
      SELECT r.started_at FROM mirror.runs r
       WHERE requested.kind <> 'recheck' AND r.seller_id = requested.seller
         AND r.state IN ('succeeded', 'held')
         AND r.kind = (CASE requested.kind WHEN 'sync' THEN 'items' ELSE 'account' END)::mirror.run_kind
       ORDER BY r.run_id DESC LIMIT 1
    ) run ON true
   ORDER BY requested.place`;

export async function readSchedules(
  { pool }: Db,
  keys: readonly ScheduleKey[],
): Promise<ScheduleState[]> {
  const sellers = keys.map(({ seller }) => seller);
  const kinds = keys.map(({ kind }) => kind);
  const { rows } = await pool.query<
    Omit<ScheduleState, 'record'> & {
      [Field in keyof ScheduleRecord]: ScheduleRecord[Field] | null;
    }
  >(READ, [sellers, kinds]);
  return rows.map(({ cron, timeZone, lastTick, ...state }) => ({
    ...state,
    record:
      cron === null || timeZone === null || lastTick === null ? null : { cron, timeZone, lastTick },
  }));
}

/** Rows are written in a fixed order, so that concurrent schedulers never deadlock. 'epoch' means never. */
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
 * Records handled ticks in one statement, and adds new sellers. `lastTick` never goes back, unless the
 * stored one is after `latestValid`, which only a wrong clock can cause.
 */
export async function recordTicks(
  { pool }: Db,
  ticks: readonly TickRecord[],
  latestValid: Date,
): Promise<void> {
  await pool.query(RECORD, [JSON.stringify(ticks), latestValid]);
}
