import { schedule, type ScheduledTask } from 'node-cron';
import type { App } from '../app.js';
import { listOpenRequests, readSellerFacts } from '../catalogue/requests-store.js';
import { listRunningAudits } from '../codes/audits-store.js';
import { RECHECK_SOURCE } from '../codes/enter-list.js';
import { keepsEverything, planRetention, prune, pruneDrafts } from '../db/prune.js';
import type { Log } from '../domain/log.js';
import { isUserError } from '../domain/user-error.js';
import { listFeedStates, requestFeedViews } from '../reporting/feeds-store.js';
import { recordNews, recordStale } from './alerts/alerts.js';
import { listWaitingAlerts } from './alerts/alerts-store.js';
import { forEachConcurrently } from './concurrency.js';
import { nextTime } from '../domain/cron.js';
import { askedTasks, dueFeed, dueTasks, schedulesOf, type Schedule, type Since } from './due.js';
import { waitOf } from './feeds.js';
import { oldestStart } from './processes-store.js';
import { errorText, OutageLog } from './queue/errors.js';
import type { Queues } from './queue/queues.js';
import { subjectOf, type QueueName, type TaskOf } from './queue/tasks.js';

/** Pause after a failed check (ms). */
const RETRY_MS = 2_000;
/** A job is not added again in the next check. The queue would refuse it, at some cost. */
const CHECKS_PER_ADDING = 1.8;
/** Pause (ms) between two checks for what is stale, and for old drafts. */
const STALE_EVERY_MS = 60_000;
/** Jobs added at the same time. */
const CONCURRENCY = 16;
/** Old rows are deleted every six hours, since not every machine runs at night; also later (ms), if it slept. */
const PRUNE_CRON = '40 3,9,15,21 * * *';
const PRUNE_LATE_MS = 5 * 3_600_000;

interface SchedulerOptions {
  readonly app: Pick<App, 'config' | 'db'>;
  readonly queues: Pick<Queues, 'add' | 'addAudit' | 'times'>;
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
  readonly #pruning: ScheduledTask | null;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void>;
  #staleAt = -Infinity;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#outages = new OutageLog(options.log, {
      lost: 'schedules are paused',
      back: 'schedules resumed',
    });
    this.#pruning =
      options.hasSchedules && !keepsEverything(options.app.config.retention)
        ? schedule(PRUNE_CRON, () => this.#prune(), {
            missedExecutionTolerance: PRUNE_LATE_MS,
            suppressMissedWarning: true,
          })
        : null;
    this.#checking = this.#check();
  }

  /** Starts nothing new. Resolves when the current check has ended. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('the service is stopping'));
    clearTimeout(this.#timer);
    await this.#pruning?.destroy();
    await this.#checking;
  }

  /** Adds the jobs for what is due, and comes back. Never rejects. */
  async #check(): Promise<void> {
    const { signal } = this.#stopping;
    let pauseMs = RETRY_MS;
    try {
      pauseMs = await this.#look();
      this.#outages.succeeded();
    } catch (error) {
      if (!signal.aborted) this.#outages.failed(errorText(error));
    }
    if (signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#checking = this.#check();
    }, pauseMs);
  }

  /** @returns the pause (ms) before the next check */
  async #look(): Promise<number> {
    const { app, hasSchedules, log, queues } = this.#options;
    const { lookMs } = queues.times;
    // SELLERS_FILE may have changed.
    const schedules = hasSchedules ? schedulesOf(app.config) : [];
    if (hasSchedules && performance.now() - this.#staleAt >= STALE_EVERY_MS) {
      this.#staleAt = performance.now();
      await recordStale(app);
      await pruneDrafts(app.db);
    }
    await recordNews(app);
    const { now, hints } = await this.#hints(schedules);
    const recent = performance.now() - CHECKS_PER_ADDING * lookMs;
    for (const [subject, at] of this.#added) if (at < recent) this.#added.delete(subject);
    await forEachConcurrently(hints, CONCURRENCY, async ({ subject, add }) => {
      if (this.#stopping.signal.aborted || this.#added.has(subject)) return;
      await add();
      this.#added.set(subject, performance.now());
      log.debug('what is due has a job in the queue', { job: subject });
    });
    const nextAt = schedules.reduce((least, one) => Math.min(least, nextTime(one, now)), Infinity);
    return Math.min(lookMs, Math.max(1, nextAt - now.getTime()));
  }

  async #hints(schedules: readonly Schedule[]) {
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
    if (!hasSchedules) return { now, hints };
    const startedAt = await oldestStart(db, 'scheduler', this.#options.startedAt);
    const since: Since = { now, startedAt, catchUp: config.catchUp };
    for (const task of dueTasks(schedules, sellers, since)) {
      const isCheck = task.kind === 'recheck' || task.kind === 'audit';
      hints.push(isCheck ? hint('audits', task) : hint('mirror', task));
    }
    for (const { name: feed, failures } of await this.#waitingFeeds(schedules, since)) {
      const task: TaskOf<'feeds'> = { kind: 'deliver', feed };
      // The queue may hold a job that is delayed after a failure. Start it if `feed run` has succeeded meanwhile.
      const add = () => queues.add('feeds', task, { promote: failures === 0 });
      hints.push({ subject: subjectOf(task), add });
    }
    return { now, hints };
  }

  /**
   * Asks for the deliveries that are due by a schedule.
   * @returns the feeds that wait for a delivery, with their consecutive failures
   */
  async #waitingFeeds(schedules: readonly Schedule[], since: Since) {
    const { db, config } = this.#options.app;
    if (config.feeds.length === 0) return [];
    const states = await listFeedStates(db);
    const waiting: { readonly name: string; readonly failures: number }[] = [];
    for (const feed of config.feeds) {
      const { name, views } = feed;
      const state = states.find((one) => one.feed === name);
      const own = schedules.find((one) => one.kind === 'feed' && one.name === name);
      const isDue = own !== undefined && dueFeed(own, state?.askedAt ?? null, since) !== null;
      if (isDue) await requestFeedViews(db, name, views);
      if (!isDue && waitOf(feed, state, since.now) !== 0) continue;
      waiting.push({ name, failures: state?.failures ?? 0 });
    }
    return waiting;
  }

  /** Deletes rows older than the KEEP_… settings allow. A lock lets one process at a time. Never rejects. */
  async #prune(): Promise<void> {
    const { app, log } = this.#options;
    const { signal } = this.#stopping;
    try {
      const plan = planRetention(app.config.retention, new Date(app.db.clock.now()));
      const pruned = await prune(app.db, plan, { signal });
      const rows = pruned.reduce((sum, one) => sum + one.rows, 0);
      if (rows > 0) log.info('deleted rows older than the KEEP_… settings allow', { rows });
    } catch (error) {
      if (signal.aborted || isUserError(error, 'BUSY')) return;
      log.warn('could not delete old rows; trying again in six hours', { error });
    }
  }
}
