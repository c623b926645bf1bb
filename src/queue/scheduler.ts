import type { Log } from '../domain/log.js';
import type { ScheduleKey, ScheduleState, TickDone } from '../store/schedules.js';
import type { Store } from '../store/store.js';
import { parseCron, startAlarm } from './cron.js';
import { eachOf, within } from './concurrency.js';
import { wordsOf } from './errors.js';
import { afterFailure, afterSuccess, NO_OUTAGE } from './outage.js';
import {
  credibleAt,
  planTick,
  tickJobId,
  tickSince,
  type Moment,
  type ScheduledTask,
  type SellerSchedule,
  type TickPlan,
  type Timetable,
} from './ticks.js';

export type { ScheduleKind } from '../store/schedules.js';
export type { SellerSchedule } from './ticks.js';

export interface SchedulerOptions {
  /** At most one of each kind for a seller. */
  readonly schedules: readonly SellerSchedule[];
  readonly store: Pick<Store, 'schedules'>;
  /** Adds a job, unless the queue has one with this id. */
  readonly enqueue: (task: ScheduledTask, jobId: string) => Promise<{ readonly added: boolean }>;
  readonly log: Log;
  /** Add the newest tick that was missed while no scheduler ran. */
  readonly catchUp: boolean;
  readonly now?: () => Date;
  /** How often to look for due ticks besides the alarms, in milliseconds. */
  readonly wakeEveryMs?: number;
}

/** Adds the jobs of ticks until it is stopped. */
export interface Scheduler {
  /** Looks for due ticks now; resolves when that is done, also when it failed. */
  wake(): Promise<void>;
  /** Resolves when the ticks that were due at the start are handled, or when it is stopped. */
  settled(): Promise<void>;
  /** Starts nothing more; resolves when what was begun has ended. */
  stop(): Promise<void>;
}

/** A timer that was late, a machine that slept or an outage delays a tick by at most this. */
const WAKE_EVERY_MS = 30_000;
/** Longest wait for the queue or the database, in milliseconds. */
const ANSWER_MS = 20_000;
const AT_A_TIME = 16;
/** So many failures in one look mean that the queue is away, not that it refuses a job. */
const MOST_FAILURES = 16;

/**
 * Starts to fire schedules. Each tick adds one job, however many schedulers share the queue and the
 * database. After an outage, or after the process stood still, only the newest tick is added.
 * @throws {TypeError} when a cron expression has a fault
 * @throws {RangeError} when there is no such time zone
 */
export function startScheduler(options: SchedulerOptions): Scheduler {
  return new TickScheduler(options);
}

/** A schedule at work. */
interface Watched extends Timetable {
  /** Ticks up to this one are handled; null until the store has been asked. */
  handled: Date | null;
}

/** What one look is to do. */
interface Step {
  readonly watched: Watched;
  readonly plan: TickPlan;
}

/** What one look did, to be recorded. */
interface Done extends Step {
  readonly enqueuedAt: Date | null;
}

class TickScheduler implements Scheduler {
  readonly #options: SchedulerOptions;
  readonly #lines: SchedulerLog;
  readonly #watched: readonly Watched[];
  readonly #startedAt: Date;
  readonly #stopAlarms: readonly (() => void)[];
  readonly #timer: NodeJS.Timeout;
  readonly #settled: Promise<void>;
  #settle: () => void = () => undefined;
  #looking: Promise<void> | null = null;
  #again = false;
  #stopped = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#lines = new SchedulerLog(options.log);
    this.#startedAt = this.#now();
    this.#watched = options.schedules.map((schedule) => ({
      ...schedule,
      pattern: parseCron(schedule.cron),
      handled: null,
    }));
    this.#settled = new Promise((resolve) => (this.#settle = resolve));
    const wake = (): void => void this.wake();
    this.#stopAlarms = distinct(options.schedules).map(({ cron, timeZone }) =>
      startAlarm(cron, timeZone, wake),
    );
    this.#timer = setInterval(wake, options.wakeEveryMs ?? WAKE_EVERY_MS);
    wake();
  }

  wake(): Promise<void> {
    if (this.#stopped) return this.#looking ?? Promise.resolve();
    this.#again = true;
    this.#looking ??= this.#lookWhileAsked();
    return this.#looking;
  }

  settled(): Promise<void> {
    return this.#settled;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    for (const stop of this.#stopAlarms) stop();
    await this.#looking;
    this.#settle();
  }

  #now(): Date {
    return this.#options.now?.() ?? new Date();
  }

  /** Alarms that ring while a look is on ask for one more. */
  async #lookWhileAsked(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      try {
        await this.#look();
        this.#lines.worked();
        this.#settle();
      } catch (error) {
        // A scheduler that is being stopped waits for nothing.
        if (!this.#stopped) this.#lines.failed(error);
      }
    }
    this.#looking = null;
  }

  async #look(): Promise<void> {
    const now = this.#now();
    const candidates = this.#watched.filter((watched) => mayBeDue(watched, now));
    if (candidates.length === 0) return;
    const states = await within(ANSWER_MS, this.#options.store.schedules.read(candidates));
    this.#lines.warnOfFutureTicks(states, now);
    const steps = candidates.map((watched, n): Step => {
      const state = states[n] ?? { record: null, lastRunAt: null };
      return { watched, plan: planTick(watched, state, this.#moment(watched, now)) };
    });
    const { done, failures } = await this.#carryOut(steps, now);
    if (done.length > 0) await this.#record(done, now);
    for (const { watched, plan } of steps) {
      if (plan.kind === 'nothing') watched.handled = plan.reach;
    }
    if (failures.length > 0) throw failures[0];
  }

  #moment({ handled }: Watched, now: Date): Moment {
    // After the first look no tick is from before the start, whatever the clock says.
    const watchedSince = handled === null ? this.#startedAt : new Date(0);
    return { now, watchedSince, catchUp: this.#options.catchUp };
  }

  /** Adds jobs first and records ticks then: a crash in between repeats the same job id. */
  async #carryOut(
    steps: readonly Step[],
    now: Date,
  ): Promise<{ done: Done[]; failures: unknown[] }> {
    const done: Done[] = [];
    const failures: unknown[] = [];
    await eachOf(steps, AT_A_TIME, async ({ watched, plan }) => {
      if (plan.kind === 'nothing') return;
      if (plan.kind === 'pass') {
        done.push({ watched, plan, enqueuedAt: null });
        return;
      }
      if (this.#stopped || failures.length >= MOST_FAILURES) return;
      try {
        await this.#enqueue(watched, plan.tick, now);
        done.push({ watched, plan, enqueuedAt: now });
      } catch (error) {
        failures.push(error);
      }
    });
    return { done, failures };
  }

  async #enqueue(watched: Watched, tick: Date, now: Date): Promise<void> {
    const { kind, seller } = watched;
    const jobId = tickJobId(watched, tick);
    const task = { kind, seller, tick: tick.toISOString(), askedAt: now.toISOString() };
    const { added } = await within(ANSWER_MS, this.#options.enqueue(task, jobId));
    this.#lines.enqueued(watched, task.tick, jobId, added);
  }

  async #record(done: readonly Done[], now: Date): Promise<void> {
    const rows = done.map(({ watched, plan, enqueuedAt }): TickDone => {
      const { seller, kind, marketplace, cron, timeZone } = watched;
      return { seller, kind, marketplace, cron, timeZone, lastTick: plan.reach, enqueuedAt };
    });
    await within(ANSWER_MS, this.#options.store.schedules.record(rows, credibleAt(now)));
    for (const { watched, plan } of done) {
      watched.handled = plan.reach;
      if (plan.kind === 'pass') this.#lines.passed(watched, plan);
    }
  }
}

/** Decides without the store, in which other schedulers may have recorded later ticks. */
function mayBeDue(watched: Watched, now: Date): boolean {
  const { handled } = watched;
  if (handled === null || handled > credibleAt(now)) return true;
  return tickSince(watched, now, handled) !== null;
}

/** Schedules that ring at the same times share an alarm. */
function distinct(schedules: readonly SellerSchedule[]): SellerSchedule[] {
  return [...new Map(schedules.map((each) => [`${each.timeZone} ${each.cron}`, each])).values()];
}

/** The log lines of a scheduler: one for each tick, and few for an outage. */
class SchedulerLog {
  readonly #log: Log;
  #outage = NO_OUTAGE;
  #warnedOfClock = false;

  constructor(log: Log) {
    this.#log = log;
  }

  enqueued({ seller, kind }: ScheduleKey, tick: string, jobId: string, added: boolean): void {
    const facts = { seller, kind, tick, job: jobId };
    if (added) this.#log.info('a schedule is due: its job is in the queue', facts);
    else this.#log.debug('the job of a tick was in the queue already', facts);
  }

  passed(
    { seller, kind, cron }: Timetable,
    { missed, why }: Extract<TickPlan, { kind: 'pass' }>,
  ): void {
    const facts = { seller, kind, cron, missed: missed?.toISOString() ?? null };
    if (why === 'changed') this.#log.info('a schedule was changed', facts);
    else if (why === 'covered') this.#log.info('a run made good what a schedule missed', facts);
    else this.#log.info('a tick passed while nothing ran, and is not caught up', facts);
  }

  /** Warns once when ticks are on record that lie in the future. */
  warnOfFutureTicks(states: readonly ScheduleState[], now: Date): void {
    const ahead = states.flatMap(({ record }) =>
      record !== null && record.lastTick > credibleAt(now) ? [record.lastTick] : [],
    );
    if (ahead[0] === undefined || this.#warnedOfClock) return;
    this.#warnedOfClock = true;
    this.#log.warn('ticks of a time to come are on record: a clock is or was wrong', {
      schedules: ahead.length,
      recorded: ahead[0].toISOString(),
      now: now.toISOString(),
    });
  }

  /** The queue or the database can't be used. */
  failed(error: unknown): void {
    const { state, say } = afterFailure(this.#outage, Date.now());
    this.#outage = state;
    if (say !== 'lost') return;
    this.#log.warn('schedules wait: what is due is made good when queue and database work again', {
      reason: wordsOf(error),
    });
  }

  worked(): void {
    const { state, say } = afterSuccess(this.#outage);
    this.#outage = state;
    if (say === 'back') this.#log.info('schedules go on');
  }
}
