import { onTestFinished } from 'vitest';
import { Scheduler, type ScheduledTask, type SchedulerOptions } from '../../src/queue/scheduler.js';
import type { SellerSchedule } from '../../src/queue/ticks.js';
import { listeningLog, type Line } from './support.js';

export const at = (iso: string): Date => new Date(iso);

const HOUR_MS = 3_600_000;

/** Takes a job of each id once, as the queue does; `broken` stands for one that can't be reached. */
export class JobList {
  readonly jobs = new Map<string, ScheduledTask>();
  /** Ids in the order in which they were asked for, those that were there already included. */
  readonly asked: string[] = [];
  broken = false;
  /** Calls under way, and the most there were. */
  readonly load = { now: 0, most: 0 };

  readonly enqueue = async (task: ScheduledTask, jobId: string): Promise<{ added: boolean }> => {
    this.load.now += 1;
    this.load.most = Math.max(this.load.most, this.load.now);
    await new Promise((resolve) => setImmediate(resolve));
    this.load.now -= 1;
    if (this.broken) throw new Error('the queue is away');
    this.asked.push(jobId);
    const added = !this.jobs.has(jobId);
    if (added) this.jobs.set(jobId, task);
    return { added };
  };

  ids(): string[] {
    return [...this.jobs.keys()];
  }
}

export function nightly(more: Partial<SellerSchedule> = {}): SellerSchedule {
  const schedule = { seller: 'acme', marketplace: 'market.example', kind: 'sync' } as const;
  return { ...schedule, cron: '0 2 * * *', timeZone: 'UTC', ...more };
}

/** A scheduler whose clock and wakes are in the hands of a test. */
export interface Rig {
  readonly scheduler: Scheduler;
  readonly lines: readonly Line[];
  /** Sets the clock and wakes the scheduler. */
  wakeAt(time: Date | string): Promise<void>;
  /** Lets the time pass in steps, up to and with `to`, and wakes at each. */
  pass(to: string, stepMs?: number): Promise<void>;
}

export type RigOptions = Pick<SchedulerOptions, 'store'> &
  Partial<SchedulerOptions> & {
    readonly queue: JobList;
    readonly from: string;
    /** How far its clock is off. */
    readonly skewMs?: number;
  };

/** Starts a scheduler at a time; resolves when it has looked for the first time. */
export async function rig({ queue, from, skewMs = 0, ...options }: RigOptions): Promise<Rig> {
  const { log, lines } = listeningLog();
  let clock = at(from).getTime();
  const scheduler = new Scheduler({
    schedules: [nightly()],
    enqueue: queue.enqueue,
    log,
    catchUp: true,
    now: () => new Date(clock + skewMs),
    wakeEveryMs: 24 * HOUR_MS,
    ...options,
  });
  onTestFinished(() => scheduler.stop());
  await scheduler.wake();
  const wakeAt = async (time: Date | string): Promise<void> => {
    clock = new Date(time).getTime();
    await scheduler.wake();
  };
  return {
    scheduler,
    lines,
    wakeAt,
    pass: async (to, stepMs = HOUR_MS / 4) => {
      while (clock < at(to).getTime()) {
        await wakeAt(new Date(Math.min(clock + stepMs, at(to).getTime())));
      }
    },
  };
}
