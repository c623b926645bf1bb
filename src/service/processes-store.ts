import { hostname } from 'node:os';
import type { Process } from '../db/generated/prisma/client.js';
import type { Db } from '../db/db.js';
import { LATEST_BELIEVED } from '../db/moments.js';
import type { Schedule } from './due.js';

interface ProcessInfo extends Pick<Process, 'processId' | 'host' | 'pid' | 'startedAt'> {
  /** Such as `worker` and `scheduler`. */
  readonly roles: readonly string[];
  readonly dashboardUrl?: Process['dashboardUrl'];
  /** The schedules that a scheduler goes by. */
  readonly schedules?: readonly Schedule[];
}

export interface LiveProcess extends ProcessInfo, Pick<Process, 'seenAt'> {
  readonly schedules?: readonly Schedule[];
}

/** Time between two heartbeats of a process (ms). */
export const HEARTBEAT_MS = 10_000;
/** A process without a heartbeat for this long (ms) counts as dead. */
const ALIVE_MS = 3.5 * HEARTBEAT_MS;

const HEARTBEAT = `
  WITH dead AS (DELETE FROM mirror.processes
                 WHERE seen_at < now() - interval '1 day' OR seen_at > ${LATEST_BELIEVED})
  INSERT INTO mirror.processes AS p
    (process_id, roles, host, pid, started_at, dashboard_url, schedules, seen_at)
  VALUES ($1, $2, $3, $4, $5, $6, $7, now())
  ON CONFLICT (process_id) DO UPDATE
    SET roles = excluded.roles, schedules = excluded.schedules, seen_at = excluded.seen_at`;

/** Records a heartbeat, and deletes processes without one for a day, or with one in the future. */
export async function recordHeartbeat({ pool }: Db, info: ProcessInfo): Promise<void> {
  const { processId, roles, host, pid, startedAt, dashboardUrl = null, schedules = [] } = info;
  const values = [processId, roles, host, pid, startedAt, dashboardUrl];
  await pool.query(HEARTBEAT, [...values, JSON.stringify(schedules)]);
}

/** Removes a process that ends, so that others don't wait for it. */
export async function removeProcess({ pool }: Db, processId: string): Promise<void> {
  await pool.query('DELETE FROM mirror.processes WHERE process_id = $1', [processId]);
}

/** Processes with a heartbeat within this time, also dead ones, newest heartbeat first. */
export async function listProcesses(
  { pool }: Db,
  withinMs: number,
): Promise<(LiveProcess & { readonly isAlive: boolean })[]> {
  const { rows } = await pool.query<LiveProcess & { readonly isFresh: boolean }>(
    `SELECT process_id AS "processId", roles, host, pid, started_at AS "startedAt", seen_at AS "seenAt",
            dashboard_url AS "dashboardUrl", schedules, seen_at > now() - $2::double precision * interval '1 ms' AS "isFresh"
       FROM mirror.processes
      WHERE seen_at > now() - $1::double precision * interval '1 ms' AND seen_at <= ${LATEST_BELIEVED}
      ORDER BY seen_at DESC, process_id`,
    [withinMs, ALIVE_MS],
  );
  return rows.map(({ isFresh, ...one }) => ({ ...one, isAlive: isFresh && !isKilled(one) }));
}

/** Processes that are alive, newest heartbeat first. @param role only of this role */
export async function listLiveProcesses(db: Db, role?: string): Promise<LiveProcess[]> {
  const processes = await listProcesses(db, ALIVE_MS);
  return processes.filter(
    ({ isAlive, roles }) => isAlive && (role === undefined || roles.includes(role)),
  );
}

/** Start of the oldest process of a role that is alive. @param own that of this process */
export async function oldestStart({ pool }: Db, role: string, own: Date): Promise<Date> {
  const { rows } = await pool.query<{ at: Date | null }>(
    `SELECT min(started_at) AS at FROM mirror.processes
      WHERE $1 = ANY (roles) AND seen_at > now() - $2::double precision * interval '1 ms'
        AND seen_at <= ${LATEST_BELIEVED}`,
    [role, ALIVE_MS],
  );
  const at = rows[0]?.at ?? own;
  return at < own ? at : own;
}

/** True for a killed process on this machine, which the system knows before the heartbeat is late. */
function isKilled({ host, pid }: LiveProcess): boolean {
  if (host !== hostname()) return false;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EPERM';
  }
}
