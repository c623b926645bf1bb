import { onTestFinished } from 'vitest';
import {
  Scheduler,
  type ScheduledTask,
  type SchedulerOptions,
  type TickRecords,
} from '../../src/service/scheduler.js';
import type { SellerSchedule } from '../../src/service/ticks.js';
import type { Db } from '../../src/store/db.js';
import { readSchedules, recordTicks } from '../../src/store/schedules.js';
import { recordingLog, type LogLine } from './queue/support.js';

export const at = (iso: string): Date => new Date(iso);

const HOUR_MS = 3_600_000;

/** Adds each job id once, like the real queue. */
export class FakeQueue {
  readonly jobs = new Map<string, ScheduledTask>();
  /** The ids of all calls in order, including those that added nothing. */
  readonly requested: string[] = [];
  isDown = false;
  /** Calls in progress: now, and at most so far. */
  readonly load = { now: 0, most: 0 };

  readonly enqueue = async (task: ScheduledTask, jobId: string): Promise<{ added: boolean }> => {
    this.load.now += 1;
    this.load.most = Math.max(this.load.most, this.load.now);
    await new Promise((resolve) => setImmediate(resolve));
    this.load.now -= 1;
    if (this.isDown) throw new Error('the queue is down');
    this.requested.push(jobId);
    const added = !this.jobs.has(jobId);
    if (added) this.jobs.set(jobId, task);
    return { added };
  };

  ids(): string[] {
    return [...this.jobs.keys()];
  }
}

/** The ticks in a database. */
export function ticksIn(db: Db): TickRecords {
  return {
    read: (keys) => readSchedules(db, keys),
    record: (done, credible) => recordTicks(db, done, credible),
  };
}

export function nightly(more: Partial<SellerSchedule> = {}): SellerSchedule {
  const schedule = { seller: 'acme', marketplace: 'market.example', kind: 'sync' } as const;
  return { ...schedule, cron: '0 2 * * *', timeZone: 'UTC', ...more };
}

/** A scheduler whose clock and checks the test controls. */
export interface TestScheduler {
  readonly scheduler: Scheduler;
  readonly lines: readonly LogLine[];
  /** Sets the clock and makes the scheduler check. */
  checkAt(time: Date | string): Promise<void>;
  /** Advances the clock in steps up to and including `to`, and checks after each. */
  advanceTo(to: string, stepMs?: number): Promise<void>;
}

export type TestSchedulerOptions = Pick<SchedulerOptions, 'ticks'> &
  Partial<SchedulerOptions> & {
    readonly queue: FakeQueue;
    readonly from: string;
    /** How far its clock is off. */
    readonly skewMs?: number;
  };

/** Starts a scheduler at a given time. Resolves after its first check. */
export async function startScheduler({
  queue,
  from,
  skewMs = 0,
  ...options
}: TestSchedulerOptions): Promise<TestScheduler> {
  const { log, lines } = recordingLog();
  let clock = at(from).getTime();
  const scheduler = new Scheduler({
    schedules: [nightly()],
    enqueue: queue.enqueue,
    log,
    catchUp: true,
    now: () => new Date(clock + skewMs),
    checkEveryMs: 24 * HOUR_MS,
    ...options,
  });
  onTestFinished(() => scheduler.stop());
  await scheduler.check();
  const checkAt = async (time: Date | string): Promise<void> => {
    clock = new Date(time).getTime();
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
