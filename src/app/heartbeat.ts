import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Log } from '../domain/log.js';
import { BEAT_EVERY_MS, type FiredSchedule } from '../store/processes.js';
import type { Store } from '../store/store.js';

/**
 * Tells the store now and every `BEAT_EVERY_MS` that this process lives.
 * @param roles what it does, such as `worker` and `scheduler`
 * @param schedules that it fires
 * @param dashboardUrl where its dashboard is; null when it serves none
 * @returns takes the process off the list, so that nobody waits for it; never throws
 */
export function startHeartbeat(
  processes: Pick<Store['processes'], 'beat' | 'end'>,
  roles: readonly string[],
  log: Log,
  schedules: readonly FiredSchedule[] = [],
  dashboardUrl: string | null = null,
): () => Promise<void> {
  const self = { host: hostname(), pid: process.pid, startedAt: new Date() };
  const info = { processId: randomUUID(), roles, schedules, dashboardUrl, ...self };
  const beat = (): Promise<void> =>
    processes.beat(info).catch((error: unknown) => {
      log.debug('the store could not be told that this process lives', { error });
    });
  let beating = beat();
  const timer = setInterval(() => {
    beating = beating.then(beat);
  }, BEAT_EVERY_MS);
  timer.unref();
  return async () => {
    clearInterval(timer);
    await beating;
    await processes.end(info.processId).catch(() => undefined);
  };
}
