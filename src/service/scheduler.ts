import type { Log } from '../domain/log.js';
import type { Db } from '../db/db.js';
import {
  schedulesWithoutRun,
  takeTurn,
  type Schedule,
  type ScheduleChanges,
  type StoredSchedule,
} from './schedules-store.js';
import { PAUSED, type Parking } from '../catalogue/sellers-store.js';
import { readSellerStatuses } from '../catalogue/status-store.js';
import type { LiveProcess } from './processes-store.js';
import { nextTimes } from './cron.js';
import { forEachConcurrently, withTimeout } from './concurrency.js';
import { errorText, OutageLog } from './queue/errors.js';
import { jobIdOf } from './queue/tasks.js';

/** A schedule whose job is due. */
export interface DueSchedule extends Pick<Schedule, 'kind' | 'name'> {
  /** The job's id. It holds the schedule and the time, so it is the same in every process. */
  readonly jobId: string;
  readonly dueAt: Date;
}

/** A seller and its cron expressions; null for no schedule. */
interface ScheduledSeller {
  readonly name: string;
  readonly timeZone: string;
  readonly syncCron: string | null;
  readonly accountCron: string | null;
  readonly auditCron: string | null;
}

interface ScheduledFeed {
  readonly name: string;
  readonly timeZone: string;
  /** Null: after each sync. */
  readonly cron: string | null;
}

/** The schedules that the settings name. */
export function schedulesOf({
  sellers,
  feeds,
}: {
  readonly sellers: readonly ScheduledSeller[];
  readonly feeds: readonly ScheduledFeed[];
}): Schedule[] {
  const of = (kind: Schedule['kind'], cron: string | null, name: string, timeZone: string) =>
    cron === null ? [] : [{ kind, name, cron, timeZone }];
  return [
    ...sellers.flatMap(({ name, timeZone, syncCron, accountCron, auditCron }) => [
      ...of('sync', syncCron, name, timeZone),
      ...of('account', accountCron, name, timeZone),
      ...of('recheck', auditCron, name, timeZone),
    ]),
    ...feeds.flatMap(({ name, timeZone, cron }) => of('feed', cron, name, timeZone)),
  ];
}

export interface SchedulerOptions {
  /** At most one of each kind for a name. */
  readonly schedules: readonly Schedule[];
  readonly db: Db;
  /** Adds a job unless the queue has one with this id. */
  readonly enqueue: (due: DueSchedule) => Promise<{ readonly added: boolean }>;
  readonly log: Log;
  /** Adds one job for everything that was missed while no scheduler ran. */
  readonly catchUp: boolean;
  /** Days that finished jobs are kept. Only within them, a job that the queue does not have is a lost one. */
  readonly keepJobsDays: number;
  /** Instead of the database’s clock, for tests. */
  readonly now?: () => Date;
}

/** Longest pause between two checks: other processes may change schedules, and machines may be suspended. */
const CHECK_EVERY_MS = 30_000;
/** Pause after a failed check, and while another process has its turn. */
const RETRY_MS = 2_000;
const LOST_JOBS_EVERY_MS = 3_600_000;
/** Longest wait for the queue or the database. */
const ANSWER_MS = 20_000;
/** Jobs added at the same time. */
const CONCURRENCY = 16;
/** After this many failures in one check, the queue is down: add no more. */
const MAX_FAILURES = 16;
/** Without catch-up, a job that is this late was missed. */
const MISSED_MS = 60_000;

/**
 * Adds a job at each time of each schedule. The database stores when each schedule is due next; the first process that
 * finds it due adds the job and stores the next time, in one transaction. So each time has one job however many
 * schedulers run, and downtime is caught up with one.
 */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #outages: OutageLog;
  readonly #keys: ReadonlySet<string>;
  readonly #lostJobs: NodeJS.Timeout;
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | null = null;
  #hasSettled = false;
  #stopped = false;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#keys = new Set(options.schedules.map(keyOf));
    this.#outages = new OutageLog(options.log, {
      lost: 'schedules are paused',
      stillLost: null,
      back: 'schedules resumed',
    });
    this.#lostJobs = setInterval(() => void this.addLostJobs(), LOST_JOBS_EVERY_MS);
    void this.check();
    if (options.catchUp) void this.addLostJobs();
  }

  /** Adds the jobs that are due. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => (this.#checking = null));
    return this.#checking;
  }

  /** Starts nothing new. Resolves when the current check has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearInterval(this.#lostJobs);
    await this.#checking;
  }

  async #check(): Promise<void> {
    if (this.#stopped || this.#options.schedules.length === 0) return;
    clearTimeout(this.#timer);
    let pauseMs = RETRY_MS;
    try {
      pauseMs = await withTimeout(2 * ANSWER_MS, this.#takeTurn());
      this.#outages.succeeded();
    } catch (error) {
      if (!this.#stopped) this.#outages.failed(errorText(error));
    }
    if (!this.#stopped) this.#timer = setTimeout(() => void this.check(), pauseMs);
  }

  /** @returns the pause (ms) before the next turn */
  async #takeTurn(): Promise<number> {
    let pauseMs = RETRY_MS;
    const failures: unknown[] = [];
    const hadTurn = await takeTurn(this.#options.db, async (stored, databaseTime) => {
      const now = this.#options.now?.() ?? databaseTime;
      const settled = await this.#settle(stored, now);
      const current = new Map([...stored, ...settled.put].map((one) => [keyOf(one), one]));
      const own = [...current.values()].filter((one) => this.#keys.has(keyOf(one)));
      const fired: StoredSchedule[] = [];
      const due = own.filter(({ nextAt }) => nextAt <= now);
      await forEachConcurrently(due, CONCURRENCY, async (schedule) => {
        if (this.#stopped || failures.length >= MAX_FAILURES) return;
        try {
          const nextAt = firstTime(schedule, now);
          await this.#addJob(schedule, schedule.nextAt);
          fired.push({ ...schedule, nextAt, lastAt: schedule.nextAt });
        } catch (error) {
          failures.push(error);
        }
      });
      const done = new Set(fired.map(keyOf));
      const waiting = [...own.filter((one) => !done.has(keyOf(one))), ...fired];
      pauseMs = waiting.reduce(
        (least, { nextAt }) => Math.min(least, Math.max(0, nextAt.getTime() - now.getTime())),
        CHECK_EVERY_MS,
      );
      return {
        put: [...settled.put.filter((one) => !done.has(keyOf(one))), ...fired],
        remove: settled.remove,
      };
    });
    if (hadTurn) this.#hasSettled = true;
    if (failures.length > 0) throw failures[0];
    return pauseMs;
  }

  /**
   * What the settings of this process change in the stored schedules. They apply once, at its start, so that the
   * process that was started last decides. Later, only schedules that are missing are added.
   */
  async #settle(stored: readonly StoredSchedule[], now: Date): Promise<ScheduleChanges> {
    const { schedules, db } = this.#options;
    const known = new Map(stored.map((one) => [keyOf(one), one]));
    const missing = schedules.filter((one) => !known.has(keyOf(one)));
    if (this.#hasSettled && missing.length === 0) return { put: [], remove: [] };
    const mirrored = new Set(
      (missing.length === 0 ? [] : await readSellerStatuses(db)).flatMap((seller) => [
        ...(seller.itemsMirroredAt === null ? [] : [`sync ${seller.sellerId}`]),
        ...(seller.accountMirroredAt === null ? [] : [`account ${seller.sellerId}`]),
      ]),
    );
    const put = (this.#hasSettled ? missing : schedules).map((schedule): StoredSchedule => {
      const old = known.get(keyOf(schedule));
      if (old !== undefined) {
        return { ...schedule, lastAt: old.lastAt, nextAt: this.#nextOf(schedule, old, now) };
      }
      const isRun = schedule.kind === 'sync' || schedule.kind === 'account';
      const isFirst = this.#options.catchUp && isRun && !mirrored.has(keyOf(schedule));
      return { ...schedule, lastAt: null, nextAt: isFirst ? now : firstTime(schedule, now) };
    });
    const remove = this.#hasSettled ? [] : stored.filter((one) => !this.#keys.has(keyOf(one)));
    return { put, remove };
  }

  /** When a stored schedule is due next under the settings of this process. */
  #nextOf(schedule: Schedule, old: StoredSchedule, now: Date): Date {
    const next = firstTime(schedule, now);
    const lateMs = now.getTime() - old.nextAt.getTime();
    if (lateMs < 0) {
      const isSame = old.cron === schedule.cron && old.timeZone === schedule.timeZone;
      // Never later than the next time: the database's clock may have been wrong by years.
      return isSame && old.nextAt < next ? old.nextAt : next;
    }
    // A job that is due stays due, even if the schedule was changed meanwhile.
    if (this.#options.catchUp || lateMs < MISSED_MS) return old.nextAt;
    const facts = { kind: schedule.kind, name: schedule.name, missed: old.nextAt.toISOString() };
    this.#options.log.info('a schedule was missed while no scheduler ran; CATCH_UP is off', facts);
    return next;
  }

  async #addJob({ kind, name }: Schedule, dueAt: Date): Promise<boolean> {
    const { enqueue, log } = this.#options;
    const jobId = jobIdOf(kind, name, dueAt);
    const { added } = await withTimeout(ANSWER_MS, enqueue({ kind, name, jobId, dueAt }));
    const facts = { kind, name, due: dueAt.toISOString(), job: jobId };
    if (added) log.info('a schedule is due: its job is in the queue', facts);
    else log.debug('a schedule is due: its job was in the queue already', facts);
    return added;
  }

  /**
   * Adds the job of a schedule again if no run followed it: a Redis that lost its data must not cost a night's copy.
   * Adds nothing if the queue still has the job, waiting, active or finished. Never rejects.
   */
  async addLostJobs(): Promise<void> {
    const { db, keepJobsDays, log } = this.#options;
    try {
      const lost = (await schedulesWithoutRun(db, keepJobsDays)).filter((one) =>
        this.#keys.has(keyOf(one)),
      );
      await forEachConcurrently(lost, CONCURRENCY, async (schedule) => {
        if (this.#stopped || schedule.lastAt === null) return;
        if (!(await this.#addJob(schedule, schedule.lastAt))) return;
        const { kind, name } = schedule;
        log.warn('the queue had lost the job of a schedule; it was added again', { kind, name });
      });
    } catch (error) {
      // The next call tries again. The checks log outages.
      log.debug('could not look for lost jobs', { error });
    }
  }
}

/** The next three times of a schedule. */
export function nextThree(schedule: StoredSchedule, now = new Date()): readonly Date[] {
  const { nextAt } = schedule;
  return [nextAt, ...nextTimes(schedule, nextAt > now ? nextAt : now, 2)];
}

function keyOf({ kind, name }: Pick<Schedule, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

function firstTime(schedule: Schedule, after: Date): Date {
  return nextTimes(schedule, after)[0] ?? after;
}

/** Why a schedule does not run, in words. */
export const OBSTACLES = {
  'no-scheduler': 'no scheduler is running; start `seller-mirror run`',
  'not-scheduled':
    'the running scheduler was started with other settings; restart it to read the new ones',
  'no-worker': 'no worker is running; start `seller-mirror worker`',
  parked: 'not while the seller is stopped',
  paused: 'not while the seller is paused',
} as const;

/** Why a schedule does not run; null when it does. @param active undefined: no scheduler knows it */
export function obstacleTo(
  active: StoredSchedule | undefined,
  processes: readonly LiveProcess[],
  parking: Parking | null,
): keyof typeof OBSTACLES | null {
  const has = (role: string): boolean => processes.some(({ roles }) => roles.includes(role));
  if (!has('scheduler')) return 'no-scheduler';
  if (active === undefined) return 'not-scheduled';
  if (!has('worker')) return 'no-worker';
  if (parking === null) return null;
  return parking.code === PAUSED ? 'paused' : 'parked';
}
