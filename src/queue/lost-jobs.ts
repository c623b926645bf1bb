import type { ScheduleState } from '../store/schedules.js';
import { DAY_MS } from '../domain/schedule.js';
import { eachOf } from './concurrency.js';
import type { SchedulerOptions } from './scheduler.js';
import { tickJobId } from './ticks.js';

export interface LostJobsOptions extends Pick<
  SchedulerOptions,
  'schedules' | 'store' | 'enqueue' | 'log'
> {
  /** Days that finished jobs are kept. Only within them does a missing job mean a lost one. */
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
 * Adds the job of a tick again when no run followed the tick: a Redis that lost its data must not
 * cost a night's copy. A job that is still in the queue, active or finished, has the same id, so
 * nothing is added then.
 */
export function watchLostJobs(options: LostJobsOptions): LostJobsWatch {
  const stopping = new AbortController();
  const look = async (): Promise<void> => {
    try {
      await addAgain(options, new Date(), stopping.signal);
    } catch (error) {
      // The next look does it; the scheduler logs outages.
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
  const states = await store.schedules.read(schedules);
  await eachOf(states, AT_A_TIME, async (state) => {
    const tick = tickWithoutRun(state, now, keepJobsDays);
    if (tick === null || signal.aborted) return;
    const { kind, seller } = state;
    const job = tickJobId(state, tick);
    const task = { kind, seller, tick: tick.toISOString(), askedAt: now.toISOString() };
    if (!(await enqueue(task, job)).added) return;
    log.warn('the queue had lost the job of a tick: it is in the queue again', { seller, job });
  });
}

/** The last tick when its job was added and no run followed; null otherwise. */
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
