import type { Log } from '../domain/log.js';
import type { ScheduleKey, ScheduleState, TickRecord } from '../store/schedules.js';
import { forEachConcurrently, withTimeout } from './queue/concurrency.js';
import { parseCron, startCronTimer } from './cron.js';
import { errorText, OutageLog } from './queue/errors.js';
import { tickId } from './queue/tasks.js';
import {
  latestCredible,
  planTick,
  tickSince,
  tickWithoutRun,
  type SellerSchedule,
  type TickPlan,
  type Timetable,
} from './ticks.js';

/** The task that a tick adds to the queue. */
export interface ScheduledTask extends ScheduleKey {
  /** ISO 8601. */
  readonly tick: string;
  readonly askedAt: string;
}

/** The database's record of ticks: see `readSchedules` and `recordTicks`. */
export interface TickRecords {
  readonly read: (keys: readonly ScheduleKey[]) => Promise<ScheduleState[]>;
  readonly record: (done: readonly TickRecord[], credibleUntil: Date) => Promise<void>;
}

export interface SchedulerOptions {
  /** At most one of each kind for a seller. */
  readonly schedules: readonly SellerSchedule[];
  readonly ticks: TickRecords;
  /** Adds a job unless the queue has one with this id. */
  readonly enqueue: (task: ScheduledTask, jobId: string) => Promise<{ readonly added: boolean }>;
  readonly log: Log;
  /** Adds the newest tick that was missed while no scheduler ran. */
  readonly catchUp: boolean;
  /** Days that finished jobs are kept. If absent, lost jobs are not looked for. */
  readonly keepJobsDays?: number;
  readonly now?: () => Date;
  /** Interval of checks for due ticks, besides the cron timers, in milliseconds. */
  readonly checkEveryMs?: number;
}

/** After a late timer, a suspended machine or an outage, a tick is late by at most this. */
const CHECK_EVERY_MS = 30_000;
const HOUR_MS = 3_600_000;
/** Longest wait for the queue or the database. */
const ANSWER_MS = 20_000;
/** Jobs added at the same time. */
const CONCURRENCY = 16;
/** After this many failures in one check, the queue is down: add no more. */
const MAX_FAILURES = 16;

interface WatchedSchedule extends Timetable {
  /** Ticks up to this one are handled; null before the first check. */
  handledUntil: Date | null;
}

/** A plan that was carried out and must be recorded. */
interface CompletedPlan {
  readonly schedule: WatchedSchedule;
  readonly plan: Exclude<TickPlan, { kind: 'nothing' }>;
}

/**
 * Fires schedules until it is stopped. Each tick adds one job, however many schedulers share the queue and the
 * database. After an outage or a suspension, only the newest tick is added.
 */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #log: Log;
  readonly #outages: OutageLog;
  readonly #schedules: readonly WatchedSchedule[];
  readonly #startedAt: Date;
  readonly #stopCronTimers: readonly (() => void)[];
  readonly #intervals: readonly NodeJS.Timeout[];
  #checking: Promise<void> | null = null;
  #checkAgain = false;
  #stopped = false;
  #warnedOfClock = false;

  /**
   * @throws {TypeError} when a cron expression is invalid
   * @throws {RangeError} when a time zone is unknown
   */
  constructor(options: SchedulerOptions) {
    const { log, schedules, catchUp, keepJobsDays, checkEveryMs = CHECK_EVERY_MS } = options;
    this.#options = options;
    this.#log = log;
    this.#outages = new OutageLog(log, {
      lost: 'schedules are paused until the queue and the database can be reached',
      stillLost: null,
      back: 'schedules resumed',
    });
    this.#startedAt = this.#now();
    this.#schedules = schedules.map((schedule) => ({
      ...schedule,
      pattern: parseCron(schedule.cron),
      handledUntil: null,
    }));
    const check = (): void => void this.check();
    // Schedules with the same times share a timer.
    const timers = new Map(schedules.map((each) => [`${each.timeZone} ${each.cron}`, each]));
    this.#stopCronTimers = [...timers.values()].map(({ cron, timeZone }) =>
      startCronTimer(cron, timeZone, check),
    );
    const addLost = (): void => void this.addLostJobs();
    this.#intervals = [setInterval(check, checkEveryMs), setInterval(addLost, HOUR_MS)];
    check();
    if (catchUp && keepJobsDays !== undefined) addLost();
  }

  /** Checks for due ticks now. Resolves when that is done, even if it failed. */
  check(): Promise<void> {
    if (!this.#stopped) {
      this.#checkAgain = true;
      this.#checking ??= this.#checkWhileRequested();
    }
    return this.#checking ?? Promise.resolve();
  }

  /** Starts nothing new. Resolves when the current check has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const interval of this.#intervals) clearInterval(interval);
    for (const stop of this.#stopCronTimers) stop();
    await this.#checking;
  }

  #now(): Date {
    return this.#options.now?.() ?? new Date();
  }

  /** Timers that fire during a check request another one. */
  async #checkWhileRequested(): Promise<void> {
    while (this.#checkAgain && !this.#stopped) {
      this.#checkAgain = false;
      try {
        await this.#checkOnce();
        this.#outages.succeeded();
      } catch (error) {
        if (!this.#stopped) this.#outages.failed(errorText(error));
      }
    }
    this.#checking = null;
  }

  async #checkOnce(): Promise<void> {
    const now = this.#now();
    const candidates = this.#schedules.filter((schedule) => mayBeDue(schedule, now));
    if (candidates.length === 0) return;
    const states = await withTimeout(ANSWER_MS, this.#options.ticks.read(candidates));
    this.#warnOfFutureTicks(states, now);
    const { catchUp } = this.#options;
    const completed: CompletedPlan[] = [];
    const failures: unknown[] = [];
    // Add jobs first, then record ticks: after a crash in between, the same job id is added again.
    await forEachConcurrently([...candidates.entries()], CONCURRENCY, async ([n, schedule]) => {
      const state = states[n] ?? { record: null, lastRunAt: null };
      // After the first check, every new tick is due, even if the clock went back before the start.
      const watchedSince = schedule.handledUntil === null ? this.#startedAt : new Date(0);
      const plan = planTick(schedule, state, { now, watchedSince, catchUp });
      if (plan.kind === 'nothing') {
        schedule.handledUntil = plan.handledUntil;
        return;
      }
      if (plan.kind === 'enqueue') {
        if (this.#stopped || failures.length >= MAX_FAILURES) return;
        try {
          await this.#addTick(schedule, plan.tick, now);
        } catch (error) {
          failures.push(error);
          return;
        }
      }
      completed.push({ schedule, plan });
    });
    if (completed.length > 0) await this.#record(completed, now);
    if (failures.length > 0) throw failures[0];
  }

  async #addTick(schedule: WatchedSchedule, tick: Date, now: Date): Promise<void> {
    const { seller, kind } = schedule;
    const { job, added } = await this.#enqueue(schedule, tick, now);
    const facts = { seller, kind, tick: tick.toISOString(), job };
    if (added) this.#log.info('a schedule is due: its job is in the queue', facts);
    else this.#log.debug('a schedule is due: its job was in the queue already', facts);
  }

  async #enqueue(
    { kind, seller }: ScheduleKey,
    tick: Date,
    now: Date,
  ): Promise<{ job: string; added: boolean }> {
    const job = tickId(kind, seller, tick);
    const task = { kind, seller, tick: tick.toISOString(), askedAt: now.toISOString() };
    const { added } = await withTimeout(ANSWER_MS, this.#options.enqueue(task, job));
    return { job, added };
  }

  async #record(completed: readonly CompletedPlan[], now: Date): Promise<void> {
    const rows = completed.map(({ schedule, plan }): TickRecord => {
      const { seller, kind, marketplace, cron, timeZone } = schedule;
      const enqueuedAt = plan.kind === 'enqueue' ? now : null;
      const lastTick = plan.handledUntil;
      return { seller, kind, marketplace, cron, timeZone, lastTick, enqueuedAt };
    });
    await withTimeout(ANSWER_MS, this.#options.ticks.record(rows, latestCredible(now)));
    for (const { schedule, plan } of completed) {
      schedule.handledUntil = plan.handledUntil;
      if (plan.kind === 'enqueue') continue;
      const { seller, kind, cron } = schedule;
      const missed = plan.missed?.toISOString() ?? null;
      this.#log.info(SKIPPED[plan.why], { seller, kind, cron, missed });
    }
  }

  /** Warns once if recorded ticks lie in the future. */
  #warnOfFutureTicks(states: readonly ScheduleState[], now: Date): void {
    const [first, ...others] = states.flatMap(({ record }) =>
      record !== null && record.lastTick > latestCredible(now) ? [record.lastTick] : [],
    );
    if (first === undefined || this.#warnedOfClock) return;
    this.#warnedOfClock = true;
    this.#log.warn('recorded ticks lie in the future: a clock is or was wrong', {
      schedules: 1 + others.length,
      recorded: first.toISOString(),
      now: now.toISOString(),
    });
  }

  /**
   * Adds the job of a tick again if no run followed the tick: a Redis that lost its data must not cost a night's
   * copy. Adds nothing if the queue still has the job, waiting, active or finished. Never throws.
   */
  async addLostJobs(): Promise<void> {
    const { schedules, ticks, keepJobsDays } = this.#options;
    if (keepJobsDays === undefined) return;
    const now = this.#now();
    try {
      const states = await ticks.read(schedules.filter(({ kind }) => kind !== 'recheck'));
      await forEachConcurrently(states, CONCURRENCY, async (state) => {
        const tick = tickWithoutRun(state, now, keepJobsDays);
        if (tick === null || this.#stopped) return;
        const { job, added } = await this.#enqueue(state, tick, now);
        if (!added) return;
        const facts = { seller: state.seller, job };
        this.#log.warn('the queue had lost the job of a schedule; it was added again', facts);
      });
    } catch (error) {
      // The next call tries again. The checks for due ticks log outages.
      this.#log.debug('could not look for lost jobs', { error });
    }
  }
}

const SKIPPED = {
  changed: 'a schedule was changed',
  covered: 'a schedule missed a tick, but a run since then makes up for it',
  'no-catch-up': 'a schedule missed a tick while no scheduler ran; catch-up is off',
} as const;

/** Decides without the store, where other schedulers may have recorded later ticks. */
function mayBeDue(schedule: WatchedSchedule, now: Date): boolean {
  const { handledUntil } = schedule;
  if (handledUntil === null || handledUntil > latestCredible(now)) return true;
  return tickSince(schedule, now, handledUntil) !== null;
}
