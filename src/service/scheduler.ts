import type { App } from '../app.js';
import { listOpenRequests, readSellerFacts } from '../catalogue/requests-store.js';
import { listRunningAudits } from '../codes/audits-store.js';
import { RECHECK_SOURCE } from '../codes/enter-list.js';
import { keepsEverything, planRetention, prune, pruneDrafts } from '../db/prune.js';
import type { Log } from '../domain/log.js';
import { isUserError } from '../domain/user-error.js';
import { listFeedStates } from '../reporting/feeds-store.js';
import { recordNews, recordStale } from './alerts/alerts.js';
import { listWaitingAlerts } from './alerts/alerts-store.js';
import { forEachConcurrently } from './concurrency.js';
import { nextTime } from './cron.js';
import { askedTasks, dueFeed, dueTasks, schedulesOf, type Schedule, type Since } from './due.js';
import { feedsToRepeat, requestFeed } from './feeds.js';
import { listLiveProcesses } from './processes-store.js';
import { errorText, OutageLog } from './queue/errors.js';
import type { Queues } from './queue/queues.js';
import { subjectOf, type QueueName, type TaskOf } from './queue/tasks.js';

/** Longest pause between two checks (ms): other processes add work, and machines may be suspended. */
const CHECK_EVERY_MS = 30_000;
/** Pause after a failed check (ms). */
const RETRY_MS = 2_000;
/** A job that was added so recently (ms) is not added again. The queue would refuse it, at some cost. */
const ADDED_MS = 55_000;
/** Jobs added at the same time. */
const CONCURRENCY = 16;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type SchedulerApp = Pick<App, 'config' | 'db'>;

interface SchedulerOptions {
  readonly app: SchedulerApp;
  readonly queues: Pick<Queues, 'add' | 'addAudit' | 'addFeed'>;
  /** False: a worker, which only repairs what the queue has lost. */
  readonly hasSchedules: boolean;
  /** When this process started, by the database's clock. */
  readonly startedAt: Date;
  readonly log: Log;
}

/** A job to add, if the queue has none about the same. */
interface Hint {
  readonly subject: string;
  readonly add: () => Promise<unknown>;
}

/**
 * Checks what is due, and adds a job for each: at the start, at each time of a schedule, and every 30 seconds. What is
 * due follows from the store alone, so any number of processes may check; a job that the queue lost is added again, and
 * downtime is caught up with one.
 */
export class Scheduler {
  readonly #options: SchedulerOptions;
  readonly #outages: OutageLog;
  /** When the job about a subject was added (ms of the monotonic clock). */
  readonly #added = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | null = null;
  #staleAt = -Infinity;
  #prunedAt: number;
  readonly #stopping = new AbortController();

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#outages = new OutageLog(options.log, {
      lost: 'schedules are paused',
      stillLost: null,
      back: 'schedules resumed',
    });
    // Old rows are deleted first an hour after the start.
    this.#prunedAt = performance.now() - DAY_MS + HOUR_MS;
    void this.check();
  }

  /** Adds the jobs for what is due. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => (this.#checking = null));
    return this.#checking;
  }

  /** Starts nothing new. Resolves when the current check has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the service is stopping'));
    clearTimeout(this.#timer);
    await this.#checking;
  }

  async #check(): Promise<void> {
    const { signal } = this.#stopping;
    if (signal.aborted) return;
    clearTimeout(this.#timer);
    let pauseMs = RETRY_MS;
    try {
      pauseMs = await this.#look();
      this.#outages.succeeded();
    } catch (error) {
      if (!signal.aborted) this.#outages.failed(errorText(error));
    }
    if (!signal.aborted) this.#timer = setTimeout(() => void this.check(), pauseMs);
  }

  /** The settings' schedules now: SELLERS_FILE may have changed. */
  get #schedules(): readonly Schedule[] {
    const { app, hasSchedules } = this.#options;
    return hasSchedules ? schedulesOf(app.config) : [];
  }

  /** @returns the pause (ms) before the next check */
  async #look(): Promise<number> {
    const { app, hasSchedules, log } = this.#options;
    if (hasSchedules && performance.now() - this.#staleAt >= 2 * CHECK_EVERY_MS) {
      this.#staleAt = performance.now();
      await recordStale(app);
      await pruneDrafts(app.db);
      void this.#prune();
    }
    await recordNews(app);
    const { now, hints } = await this.#hints();
    const recent = performance.now() - ADDED_MS;
    for (const [subject, at] of this.#added) if (at < recent) this.#added.delete(subject);
    await forEachConcurrently(hints, CONCURRENCY, async ({ subject, add }) => {
      if (this.#stopping.signal.aborted || this.#added.has(subject)) return;
      await add();
      this.#added.set(subject, performance.now());
      log.debug('what is due has a job in the queue', { job: subject });
    });
    const next = this.#schedules.map((one) => nextTime(one, now)?.getTime() ?? Infinity);
    const nextAt = next.reduce((least, at) => Math.min(least, at), Infinity);
    return Math.min(CHECK_EVERY_MS, Math.max(1, nextAt - now.getTime()));
  }

  async #hints(): Promise<{ readonly now: Date; readonly hints: readonly Hint[] }> {
    const { app, queues, hasSchedules } = this.#options;
    const { config, db } = app;
    const names = config.sellers.map(({ name }) => name);
    const { now, sellers } = await readSellerFacts(db, names, RECHECK_SOURCE);
    const hint = <N extends QueueName>(queue: N, task: TaskOf<N>): Hint => {
      return { subject: subjectOf(task), add: () => queues.add(queue, task) };
    };
    const asked = askedTasks(await listOpenRequests(db, names), now);
    const audits = await listRunningAudits(db, names);
    const alerts = await listWaitingAlerts(db);
    const hints: Hint[] = [
      ...asked.map((task) => hint('mirror', task)),
      ...audits.map(({ auditId, sellerId, problem }) => ({
        subject: `audit.${auditId}`,
        // A pause that the marketplace asked for is waited out.
        add: () => queues.addAudit(sellerId, auditId, { promote: problem === null }),
      })),
      ...alerts.map(({ alertId, channel }) => hint('alerts', { kind: 'send', alertId, channel })),
    ];
    if (hasSchedules) {
      const since = await this.#since(now);
      const schedules = this.#schedules;
      for (const name of names) {
        const own = schedules.filter((one) => one.kind !== 'feed' && one.name === name);
        for (const task of dueTasks(own, sellers.get(name), since)) {
          hints.push(
            task.kind === 'recheck' || task.kind === 'audit'
              ? hint('audits', task)
              : hint('mirror', task),
          );
        }
      }
      return { now, hints: [...hints, ...(await this.#feeds(since))] };
    }
    return { now, hints };
  }

  /** The deliveries that are due by a schedule, and those that the queue has lost. */
  async #feeds(since: Since): Promise<readonly Hint[]> {
    const { app, queues } = this.#options;
    const { feeds } = app.config;
    if (feeds.length === 0) return [];
    const states = await listFeedStates(app.db);
    const due = feeds.flatMap((feed): readonly Hint[] => {
      const schedule = this.#schedules.find(
        ({ kind, name }) => kind === 'feed' && name === feed.name,
      );
      const askedAt = states.find((one) => one.feed === feed.name)?.askedAt ?? null;
      const dueAt = schedule === undefined ? null : dueFeed(schedule, askedAt, since);
      if (dueAt === null) return [];
      const subject = `feed.${feed.name}.${dueAt.getTime()}`;
      return [{ subject, add: () => requestFeed(feed, app.db, queues) }];
    });
    const names = feeds.map(({ name }) => name);
    const lost = feedsToRepeat(states, names, since.now).map((feed): Hint => {
      return { subject: `feed.${feed}`, add: () => queues.addFeed(feed) };
    });
    return [...due, ...lost];
  }

  async #since(now: Date): Promise<Since> {
    const { app, startedAt } = this.#options;
    const schedulers = await listLiveProcesses(app.db, 'scheduler');
    const starts = [startedAt, ...schedulers.map((one) => one.startedAt)];
    const oldest = starts.reduce((a, b) => (b < a ? b : a));
    return { now, startedAt: oldest, catchUp: app.config.catchUp };
  }

  /** Deletes rows older than the KEEP_… settings allow, once a day. A lock lets one process at a time. Never rejects. */
  async #prune(): Promise<void> {
    const { app, log } = this.#options;
    const { retention } = app.config;
    if (keepsEverything(retention) || performance.now() - this.#prunedAt < DAY_MS) return;
    this.#prunedAt = performance.now();
    try {
      const { signal } = this.#stopping;
      const pruned = await prune(app.db, planRetention(retention, new Date(app.db.clock.now())), {
        signal,
      });
      const rows = pruned.reduce((sum, one) => sum + one.rows, 0);
      if (rows > 0) log.info('deleted rows older than the KEEP_… settings allow', { rows });
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#prunedAt += HOUR_MS - DAY_MS;
      if (isUserError(error, 'BUSY')) return;
      log.warn('could not delete old rows; trying again in an hour', { error });
    }
  }
}
