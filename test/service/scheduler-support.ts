import { onTestFinished, vi } from 'vitest';
import { Scheduler, type DueSchedule, type SchedulerOptions } from '../../src/service/scheduler.js';
import type { Schedule } from '../../src/service/schedules-store.js';
import { recordingLog, type LogLine } from './queue/support.js';

export const at = (iso: string): Date => new Date(iso);

const HOUR_MS = 3_600_000;

/** Adds each job id once, like the real queue. */
export class FakeQueue {
  readonly jobs = new Map<string, DueSchedule>();
  /** The ids of all calls in order, including those that added nothing. */
  readonly requested: string[] = [];
  isDown = false;
  /** Adds jobs, but the answer is lost. */
  losesAnswers = false;
  /** Calls in progress: now, and at most so far. */
  readonly load = { now: 0, most: 0 };

  readonly enqueue = async (due: DueSchedule): Promise<{ added: boolean }> => {
    this.load.now += 1;
    this.load.most = Math.max(this.load.most, this.load.now);
    await new Promise((resolve) => setImmediate(resolve));
    this.load.now -= 1;
    if (this.isDown) throw new Error('the queue is down');
    this.requested.push(due.jobId);
    const added = !this.jobs.has(due.jobId);
    if (added) this.jobs.set(due.jobId, due);
    if (this.losesAnswers) throw new Error('the answer was lost');
    return { added };
  };

  ids(): string[] {
    return [...this.jobs.keys()];
  }
}

export function nightly(more: Partial<Schedule> = {}): Schedule {
  return { kind: 'sync', name: 'acme', cron: '0 2 * * *', timeZone: 'UTC', ...more };
}

/** A scheduler whose clocks and checks the test controls. */
export interface TestScheduler {
  readonly scheduler: Scheduler;
  readonly lines: readonly LogLine[];
  /** Sets the database’s clock and makes the scheduler check. */
  checkAt(time: Date | string): Promise<void>;
  /** Advances the clock in steps up to and including `to`, and checks after each. */
  advanceTo(to: string, stepMs?: number): Promise<void>;
}

export type TestSchedulerOptions = Pick<SchedulerOptions, 'db'> &
  Partial<SchedulerOptions> & {
    readonly queue: FakeQueue;
    readonly from: string | Date;
    /** How far the clock of its machine is ahead of the database’s. */
    readonly skewMs?: number;
  };

/** Starts a scheduler at a given time. Resolves after its first check. Needs a fake `Date`. */
export async function startScheduler({
  queue,
  from,
  skewMs = 0,
  ...options
}: TestSchedulerOptions): Promise<TestScheduler> {
  const { log, lines } = recordingLog();
  let clock = new Date(from).getTime();
  vi.setSystemTime(clock + skewMs);
  const scheduler = new Scheduler({
    schedules: [nightly()],
    enqueue: queue.enqueue,
    log,
    catchUp: true,
    keepJobsDays: 7,
    now: () => new Date(clock),
    ...options,
  });
  onTestFinished(() => scheduler.stop());
  await scheduler.check();
  const checkAt = async (time: Date | string): Promise<void> => {
    clock = new Date(time).getTime();
    vi.setSystemTime(clock + skewMs);
    await scheduler.check();
  };
  return {
    scheduler,
    lines,
    checkAt,
    advanceTo: async (to, stepMs = HOUR_MS / 4) => {
      while (clock < at(to).getTime()) {
        await checkAt(new Date(Math.min(clock + stepMs, at(to).getTime())));
      }
    },
  };
}
