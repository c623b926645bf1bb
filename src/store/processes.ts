import { hostname } from 'node:os';
import type { Pool } from 'pg';
import type { Process } from './generated/prisma/client.js';
import type { ScheduleKey, ScheduleRecord } from './schedules.js';

/** A schedule as the process has it that fires it. */
export type FiredSchedule = ScheduleKey & Pick<ScheduleRecord, 'cron' | 'timeZone'>;

export interface ProcessInfo extends Pick<Process, 'processId' | 'host' | 'pid' | 'startedAt'> {
  /** Such as `worker` and `scheduler`. */
  readonly roles: readonly string[];
  /** Schedules that a scheduler fires. */
  readonly schedules: readonly FiredSchedule[];
  readonly dashboardUrl?: Process['dashboardUrl'];
}

/** A process that has sent a heartbeat. */
export type LiveProcess = ProcessInfo & Pick<Process, 'seenAt'>;

/** Time between two heartbeats of a process (ms). */
export const BEAT_EVERY_MS = 10_000;
/** A process without a heartbeat for this long (ms) counts as dead. */
export const ALIVE_MS = 3.5 * BEAT_EVERY_MS;

const BEAT = `
  WITH gone AS (DELETE FROM mirror.processes WHERE seen_at < now() - interval '1 day')
  INSERT INTO mirror.processes AS p (process_id, roles, host, pid, started_at, schedules, dashboard_url, seen_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, now())
  ON CONFLICT (process_id) DO UPDATE SET roles = excluded.roles, seen_at = excluded.seen_at`;

/** Records a heartbeat, and forgets processes without one for a day. */
export async function beat(pool: Pool, info: ProcessInfo): Promise<void> {
  const { processId, roles, host, pid, startedAt, schedules, dashboardUrl = null } = info;
  const values = [processId, roles, host, pid, startedAt, JSON.stringify(schedules), dashboardUrl];
  await pool.query(BEAT, values);
}

/** Removes a process that ends, so that no other waits for it. */
export async function endBeat(pool: Pool, processId: string): Promise<void> {
  await pool.query('DELETE FROM mirror.processes WHERE process_id = $1', [processId]);
}

export async function liveProcesses(
  pool: Pool,
  withinMs: number,
  role?: string,
): Promise<LiveProcess[]> {
  const { rows } = await pool.query<LiveProcess>(
    `SELECT process_id AS "processId", roles, host, pid, started_at AS "startedAt", seen_at AS "seenAt",
            schedules, dashboard_url AS "dashboardUrl"
       FROM mirror.processes
      WHERE seen_at > now() - $1::double precision * interval '1 ms'
        AND ($2::text IS NULL OR $2 = ANY(roles))
      ORDER BY seen_at DESC, process_id`,
    [withinMs, role ?? null],
  );
  return rows;
}

/** False for a process of this machine that was killed: the system knows it before the heartbeat is late. */
export function isAlive({ host, pid }: LiveProcess): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
