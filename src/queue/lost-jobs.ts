import type { Log } from '../domain/log.js';
import type { ScheduleState } from '../store/schedules.js';
import { DAY_MS } from '../domain/time-zone.js';
import { eachOf } from './gather.js';
import type { SchedulerOptions } from './scheduler.js';
import { tickJobId } from './ticks.js';

export interface LostJobsOptions extends Pick<
  SchedulerOptions,
  'schedules' | 'store' | 'enqueue' | 'log'
> {
  /** Finished jobs are kept for so long; only until then a job that is not there must be lost. */
  readonly keepJobsDays: number;
  /** Also look now, and not only once an hour. */
  readonly atOnce: boolean;
}

/** Looks for lost jobs until it is stopped. */
export interface LostJobsWatch {
  stop(): void;
}

const HOUR_MS = 3_600_000;
const AT_A_TIME = 16;

/**
 * Puts the job of a tick into the queue once more when no run has come of the tick: a Redis that lost
 * its data, by a crash without an append-only file or by hand, must not cost a night. A job that is
 * still there, at work or finished, is met by its id and left as it is.
 */
export function watchLostJobs(options: LostJobsOptions): LostJobsWatch {
  const stopping = new AbortController();
  const look = async (): Promise<void> => {
    try {
      await addAgain(options, new Date(), stopping.signal);
    } catch (error) {
      // The next look does it; of an outage the scheduler tells.
      options.log.debug('lost jobs could not be looked for', { error });
    }
  };
  const timer = setInterval(() => void look(), HOUR_MS);
  if (options.atOnce) void look();
  return {
    stop() {
      stopping.abort();
      clearInterval(timer);
    },
  };
}

async function addAgain(options: LostJobsOptions, now: Date, signal: AbortSignal): Promise<void> {
  const { store, enqueue, log, keepJobsDays } = options;
  const schedules = options.schedules.filter(({ kind }) => kind !== 'recheck');
  const states = await store.schedules(schedules);
  await eachOf(states, AT_A_TIME, async (state) => {
    const tick = tickWithoutRun(state, now, keepJobsDays);
    if (tick === null || signal.aborted) return;
    const { kind, seller } = state;
    const job = tickJobId(state, tick);
    const task = { kind, seller, tick: tick.toISOString(), askedAt: now.toISOString() };
    if ((await enqueue(task, job)).added) tell(log, seller, job);
  });
}

function tell(log: Log, seller: string, job: string): void {
  log.warn('the queue had lost the job of a tick: it is in the queue again', { seller, job });
}

/** The tick on record whose job was put into the queue and of which no run has come; null otherwise. */
export function tickWithoutRun(
  { record, enqueuedAt, lastRunAt }: Pick<ScheduleState, 'record' | 'enqueuedAt' | 'lastRunAt'>,
  now: Date,
  keepJobsDays: number,
): Date | null {
  if (record === null || enqueuedAt === null) return null;
  const { lastTick } = record;
  const wasEnqueued = enqueuedAt >= lastTick;
  const isKept = now.getTime() - enqueuedAt.getTime() < keepJobsDays * DAY_MS - HOUR_MS;
  const hasRun = lastRunAt !== null && lastRunAt >= lastTick;
  return wasEnqueued && isKept && !hasRun ? lastTick : null;
}
