import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Log } from '../domain/log.js';
import { BEAT_EVERY_MS, type FiredSchedule } from '../store/processes.js';
import type { Store } from '../store/store.js';

/** Tells others that this process lives, until it is stopped. */
export interface Heartbeat {
  /** Takes the process off the list, so that nobody waits for it. Never throws. */
  stop(): Promise<void>;
}

/**
 * Tells the store now and every `BEAT_EVERY_MS` that this process lives.
 * @param roles what it does, such as `worker` and `scheduler`
 * @param schedules that it fires
 */
export function startHeartbeat(
  processes: Pick<Store['processes'], 'beat' | 'end'>,
  roles: readonly string[],
  log: Log,
  schedules: readonly FiredSchedule[] = [],
): Heartbeat {
  const self = { host: hostname(), pid: process.pid, startedAt: new Date() };
  const info = { processId: randomUUID(), roles, schedules, ...self };
  const beat = async (): Promise<void> => {
    try {
      await processes.beat(info);
    } catch (error) {
      log.debug('the store could not be told that this process lives', { error });
    }
  };
  let beating = beat();
  const timer = setInterval(() => {
    beating = beating.then(beat);
  }, BEAT_EVERY_MS);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await beating;
      await processes.end(info.processId).catch(() => undefined);
    },
  };
}
