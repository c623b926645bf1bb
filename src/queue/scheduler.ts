import type { Log } from '../domain/log.js';
import type { ScheduleKey, ScheduleState, TickRecord } from '../store/schedules.js';
import type { Store } from '../store/store.js';
import { eachOf, within } from './concurrency.js';
import { parseCron, startAlarm } from './cron.js';
import { Outage, wordsOf } from './errors.js';
import { tickId } from './tasks.js';
import {
  credibleAt,
  planTick,
  tickSince,
  tickWithoutRun,
  type SellerSchedule,
  type TickPlan,
  type Timetable,
} from './ticks.js';

/** The task that a tick adds to the queue. */
export interface ScheduledTask extends ScheduleKey {
  /** The time of the schedule, ISO 8601. */
  readonly tick: string;
  readonly askedAt: string;
}

export interface SchedulerOptions {
  /** At most one of each kind for a seller. */
  readonly schedules: readonly SellerSchedule[];
  readonly store: Pick<Store, 'schedules'>;
  /** Adds a job, unless the queue has one with this id. */
  readonly enqueue: (task: ScheduledTask, jobId: string) => Promise<{ readonly added: boolean }>;
  readonly log: Log;
  /** Add the newest tick that was missed while no scheduler ran. */
  readonly catchUp: boolean;
  /** Days that finished jobs are kept; without it, lost jobs are not looked for. */
  readonly keepJobsDays?: number;
  readonly now?: () => Date;
  /** How often to look for due ticks besides the alarms, in milliseconds. */
  readonly wakeEveryMs?: number;
}

/** A timer that was late, a machine that slept or an outage delays a tick by at most this. */
const WAKE_EVERY_MS = 30_000;
const HOUR_MS = 3_600_000;
/** Longest wait for the queue or the database, in milliseconds. */
const ANSWER_MS = 20_000;
const AT_A_TIME = 16;
/** So many failures in one look mean that the queue is away, not that it refuses a job. */
const MOST_FAILURES = 16;

/** A schedule at work. */
interface Watched extends Timetable {
  /** Ticks up to this one are handled; null until the store has been asked. */
  handled: Date | null;
}

/** What one look did, to be recorded. */
interface Done {
  readonly watched: Watched;
  readonly plan: Exclude<TickPlan, { kind: 'nothing' }>;
}

/**
 * Fires schedules until it is stopped. Each tick adds one job, however many schedulers share the queue
 * and the database. After an outage, or after the process stood still, only the newest tick is added.
 */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #log: Log;
  readonly #outage: Outage;
  readonly #watched: readonly Watched[];
  readonly #startedAt: Date;
  readonly #stopAlarms: readonly (() => void)[];
  readonly #timers: readonly NodeJS.Timeout[];
  #looking: Promise<void> | null = null;
  #again = false;
  #stopped = false;
  #warnedOfClock = false;

  /**
   * @throws {TypeError} when a cron expression has a fault
   * @throws {RangeError} when there is no such time zone
   */
  constructor(options: SchedulerOptions) {
    const { log, schedules, catchUp, keepJobsDays, wakeEveryMs = WAKE_EVERY_MS } = options;
    this.#options = options;
    this.#log = log;
    this.#outage = new Outage(log, {
      lost: 'schedules wait: what is due is made good when queue and database work again',
      stillLost: null,
      back: 'schedules go on',
    });
    this.#startedAt = this.#now();
    this.#watched = schedules.map((schedule) => ({
      ...schedule,
      pattern: parseCron(schedule.cron),
      handled: null,
    }));
    const wake = (): void => void this.wake();
    // Schedules that ring at the same times share an alarm.
    const alarms = new Map(schedules.map((each) => [`${each.timeZone} ${each.cron}`, each]));
    this.#stopAlarms = [...alarms.values()].map(({ cron, timeZone }) =>
      startAlarm(cron, timeZone, wake),
    );
    const addLost = (): void => void this.addLostJobs();
    this.#timers = [setInterval(wake, wakeEveryMs), setInterval(addLost, HOUR_MS)];
    wake();
    if (catchUp && keepJobsDays !== undefined) addLost();
  }

  /** Looks for due ticks now; resolves when that is done, also when it failed. */
  wake(): Promise<void> {
    if (!this.#stopped) {
      this.#again = true;
      this.#looking ??= this.#lookWhileAsked();
    }
    return this.#looking ?? Promise.resolve();
  }

  /** Starts nothing more; resolves when what was begun has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) clearInterval(timer);
    for (const stop of this.#stopAlarms) stop();
    await this.#looking;
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
        this.#outage.worked();
      } catch (error) {
        // A scheduler that is being stopped waits for nothing.
        if (!this.#stopped) this.#outage.failed(wordsOf(error));
      }
    }
    this.#looking = null;
  }

  async #look(): Promise<void> {
    const now = this.#now();
    const candidates = this.#watched.filter((watched) => mayBeDue(watched, now));
    if (candidates.length === 0) return;
    const states = await within(ANSWER_MS, this.#options.store.schedules.read(candidates));
    this.#warnOfFutureTicks(states, now);
    const { catchUp } = this.#options;
    const done: Done[] = [];
    const failures: unknown[] = [];
    // Adds jobs first and records ticks then: a crash in between repeats the same job id.
    await eachOf([...candidates.entries()], AT_A_TIME, async ([n, watched]) => {
      const state = states[n] ?? { record: null, lastRunAt: null };
      // After the first look no tick is from before the start, whatever the clock says.
      const watchedSince = watched.handled === null ? this.#startedAt : new Date(0);
      const plan = planTick(watched, state, { now, watchedSince, catchUp });
      if (plan.kind === 'nothing') {
        watched.handled = plan.reach;
        return;
      }
      if (plan.kind === 'enqueue') {
        if (this.#stopped || failures.length >= MOST_FAILURES) return;
        try {
          await this.#addTick(watched, plan.tick, now);
        } catch (error) {
          failures.push(error);
          return;
        }
      }
      done.push({ watched, plan });
    });
    if (done.length > 0) await this.#record(done, now);
    if (failures.length > 0) throw failures[0];
  }

  async #addTick(watched: Watched, tick: Date, now: Date): Promise<void> {
    const { seller, kind } = watched;
    const { job, added } = await this.#enqueue(watched, tick, now);
    const facts = { seller, kind, tick: tick.toISOString(), job };
    if (added) this.#log.info('a schedule is due: its job is in the queue', facts);
    else this.#log.debug('the job of a tick was in the queue already', facts);
  }

  async #enqueue(
    { kind, seller }: ScheduleKey,
    tick: Date,
    now: Date,
  ): Promise<{ job: string; added: boolean }> {
    const job = tickId(kind, seller, tick);
    const task = { kind, seller, tick: tick.toISOString(), askedAt: now.toISOString() };
    const { added } = await within(ANSWER_MS, this.#options.enqueue(task, job));
    return { job, added };
  }

  async #record(done: readonly Done[], now: Date): Promise<void> {
    const rows = done.map(({ watched, plan }): TickRecord => {
      const { seller, kind, marketplace, cron, timeZone } = watched;
      const enqueuedAt = plan.kind === 'enqueue' ? now : null;
      return { seller, kind, marketplace, cron, timeZone, lastTick: plan.reach, enqueuedAt };
    });
    await within(ANSWER_MS, this.#options.store.schedules.record(rows, credibleAt(now)));
    for (const { watched, plan } of done) {
      watched.handled = plan.reach;
      if (plan.kind === 'enqueue') continue;
      const { seller, kind, cron } = watched;
      const missed = plan.missed?.toISOString() ?? null;
      this.#log.info(PASSED[plan.why], { seller, kind, cron, missed });
    }
  }

  /** Warns once when ticks are on record that lie in the future. */
  #warnOfFutureTicks(states: readonly ScheduleState[], now: Date): void {
    const [first, ...others] = states.flatMap(({ record }) =>
      record !== null && record.lastTick > credibleAt(now) ? [record.lastTick] : [],
    );
    if (first === undefined || this.#warnedOfClock) return;
    this.#warnedOfClock = true;
    this.#log.warn('ticks of a time to come are on record: a clock is or was wrong', {
      schedules: 1 + others.length,
      recorded: first.toISOString(),
      now: now.toISOString(),
    });
  }

  /**
   * Adds the job of a tick again when no run followed the tick: a Redis that lost its data must not
   * cost a night's copy. A job that is still in the queue, active or finished, has the same id, so
   * nothing is added then. Never throws.
   */
  async addLostJobs(): Promise<void> {
    const { schedules, store, keepJobsDays } = this.#options;
    if (keepJobsDays === undefined) return;
    const now = this.#now();
    try {
      const states = await store.schedules.read(schedules.filter(({ kind }) => kind !== 'recheck'));
      await eachOf(states, AT_A_TIME, async (state) => {
        const tick = tickWithoutRun(state, now, keepJobsDays);
        if (tick === null || this.#stopped) return;
        const { job, added } = await this.#enqueue(state, tick, now);
        const facts = { seller: state.seller, job };
        if (added) {
          this.#log.warn('the queue had lost the job of a tick: it is in the queue again', facts);
        }
      });
    } catch (error) {
      // The next look does it; outages are logged where ticks are looked for.
      this.#log.debug('lost jobs could not be looked for', { error });
    }
  }
}

const PASSED = {
  changed: 'a schedule was changed',
  covered: 'a run made good what a schedule missed',
  'no-catch-up': 'a tick passed while nothing ran, and is not caught up',
} as const;

/** Decides without the store, in which other schedulers may have recorded later ticks. */
function mayBeDue(watched: Watched, now: Date): boolean {
  const { handled } = watched;
  if (handled === null || handled > credibleAt(now)) return true;
  return tickSince(watched, now, handled) !== null;
}
