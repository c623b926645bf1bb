import type { App, MirrorRunOptions } from '../app.js';
import type { Config, SellerConfig } from '../config/index.js';
import type { Verdict } from '../codes/rules.js';
import { deliverAlert, recordAlerts } from './alerts/alerts.js';
import type { AlertChannelName } from './alerts/alerts-store.js';
import { paceOf } from '../codes/progress.js';
import { performCheck, type CheckDeps } from '../codes/check.js';
import type { RecheckFilter } from '../codes/codes-store.js';
import { performRecheck } from '../codes/enter-list.js';
import { performMirrorTask, type MirrorRequest } from '../catalogue/mirror-task.js';
import type { Wanted } from '../catalogue/requests.js';
import { readRequest, recordRecheck } from '../catalogue/requests-store.js';
import { readBinding } from '../catalogue/sellers-store.js';
import type { JobOutcome, RunEvent } from '../catalogue/types.js';
import { nextTimes } from '../domain/cron.js';
import { ATTEMPTS, backoffMs } from './queue/backoff.js';
import type { Queues } from './queue/queues.js';
import type { AlertTask, AuditTask, MirrorTask } from './queue/tasks.js';
import type { JobHandler } from './queue/worker.js';
import type { AlertChannel } from './alerts/message.js';
import { followUp } from './follow-up.js';
import type { Clock } from '../db/clock.js';
import { errorCode } from '../domain/error-code.js';
import type { Log } from '../domain/log.js';
import type { Secret } from '../domain/secret.js';

/**
 * The outcome of a job for a seller that is not configured here. Another worker may know the seller: a new
 * sellers file does not reach all machines at the same time.
 */
const NOT_CONFIGURED: JobOutcome = {
  kind: 'retry',
  problem: 'this seller is not configured for this worker',
  notBefore: null,
};

/** A seller that the store does not know either was removed or renamed: nothing is left to do. */
async function withoutSeller({ db }: App, seller: string): Promise<JobOutcome> {
  if ((await readBinding(db, seller)) !== null) return NOT_CONFIGURED;
  return { kind: 'done', result: { gone: seller } };
}

/**
 * When a failed attempt is repeated, by the database's clock.
 * @param attempt from 1
 * @returns null after the last attempt
 */
export function retryTime(
  attempt: number,
  notBefore: number | null,
  clock: Pick<Clock, 'now'>,
): Date | null {
  if (attempt >= ATTEMPTS) return null;
  const now = clock.now();
  return new Date(now + backoffMs(attempt, notBefore, now, Math.random()));
}

export function mirrorHandler(app: App, queues: Queues): JobHandler<MirrorTask> {
  return async (task, context): Promise<JobOutcome> => {
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) return withoutSeller(app, task.seller);
    const { pingUrl } = app.config;
    const isWatched = pingUrl !== null && task.kind === 'sync' && !task.byHand;
    const tell = async (state: 'start' | 'success' | 'fail'): Promise<void> => {
      if (isWatched) await ping(pingUrl, state, seller.name, context.log);
    };
    const dueAt = new Date(task.dueAt);
    const { attempts } = await readRequest(app.db, seller.name, dueAt);
    if (attempts === 0) await tell('start');
    const wanted: Wanted =
      task.kind === 'item' ? { kind: 'item', itemId: task.itemId } : { kind: task.kind };
    const request: MirrorRequest = {
      ...wanted,
      dueAt,
      byHand: task.byHand,
      retryAt: (attempt, notBefore) => retryTime(attempt, notBefore, app.db.clock),
    };
    const options = { jobId: context.subject, ...runLog(context.log) };
    const outcome = await app.withMarketplace(seller, options, (deps) =>
      performMirrorTask(deps, request, context.signal),
    );
    const isDone = outcome.kind === 'done';
    await followUp(app, queues, isDone, context.log);
    if (outcome.kind === 'give-up' || (isDone && 'parked' in outcome.result)) await tell('fail');
    else if (isDone) await tell('success');
    return outcome;
  };
}

/** Called with each code's verdict, which is `unproven` if the code was given up. */
export type OnVerdict = (seller: string, verdict: Verdict) => void;

export function auditHandler(
  app: App,
  queues: Queues,
  onVerdict: OnVerdict = () => undefined,
): JobHandler<AuditTask> {
  return async (task, context): Promise<JobOutcome> => {
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) return withoutSeller(app, task.seller);
    const { subject, attempt, attempts, signal, closing } = context;
    const outcome = await app.withMarketplace(seller, { jobId: subject }, async (runDeps) => {
      const deps: CheckDeps = {
        ...runDeps,
        ...paceOf(seller.requestsPerMinute),
        closing,
        onVerdict: (verdict) => onVerdict(seller.name, verdict),
      };
      if (task.kind === 'audit') {
        const job = { auditId: BigInt(task.auditId), isLastAttempt: attempt >= attempts };
        return performCheck(deps, job, signal);
      }
      const plan = recheckPlan(app.config.recheck, seller, new Date(app.db.clock.now()));
      const result = await performRecheck(deps, plan, async (auditId) => {
        await queues.addAudit(seller.name, auditId);
      });
      await recordRecheck(app.db, seller.name, new Date(task.dueAt));
      return result;
    });
    const alert = 'alert' in outcome ? (outcome.alert ?? null) : null;
    if (alert !== null && outcome.kind === 'give-up') await recordAlerts(app, [alert]);
    await followUp(app, queues, alert?.kind === 'audit-finished', context.log);
    return outcome;
  };
}

const DAY_MS = 86_400_000;

/** Plans as many calls as the share of the budget allows until the next scheduled time, or in a day without one. */
export function recheckPlan(
  { share, olderThanDays }: Config['recheck'],
  { requestsPerMinute, auditCron: cron, timeZone }: SellerConfig,
  now: Date,
): RecheckFilter {
  const [next] = cron === null ? [] : nextTimes({ cron, timeZone }, now);
  const windowMs = next === undefined ? DAY_MS : next.getTime() - now.getTime();
  const calls = Math.floor((requestsPerMinute * share * windowMs) / 60_000);
  return {
    olderThan: olderThanDays * DAY_MS,
    validOnly: false,
    limit: requestsPerMinute === 0 ? Infinity : calls,
  };
}

/** The settings that a channel needs. */
const CHANNEL_SETTINGS: Readonly<Record<AlertChannelName, string>> = {
  webhook: 'ALERT_WEBHOOK_URL',
  mail: 'ALERT_EMAIL and SMTP_URL',
};

/** Delivers alerts. @param channels null if not configured for this worker */
export function alertHandler(
  app: App,
  channels: Readonly<Record<AlertChannelName, AlertChannel | null>>,
): JobHandler<AlertTask> {
  return async ({ alertId, channel: by }, { signal }): Promise<JobOutcome> => {
    const channel = channels[by];
    if (channel === null) {
      const problem = `this worker has no ${by} settings; set ${CHANNEL_SETTINGS[by]}`;
      return { kind: 'retry', notBefore: null, problem };
    }
    const options = {
      db: app.db,
      channel,
      dashboardUrl: app.config.dashboard.url,
      retryAt: (attempt: number, notBefore: number | null) =>
        retryTime(attempt, notBefore, app.db.clock),
    };
    return await deliverAlert(options, { alertId, channel: by }, signal);
  };
}

/** Interval of log lines about look-ups. */
const LOOKUP_LINE_EVERY_MS = 60_000;

/** Logs the events of runs. Each line has the run's id. */
export function runLog(log: Log): Required<Pick<MirrorRunOptions, 'onRun' | 'onProgress'>> {
  let ofRun = log;
  let lookupLineAt = -Infinity;
  return {
    onRun(event) {
      const { runId, kind } = event;
      ofRun = log.child({ run: runId, kind });
      lookupLineAt = -Infinity;
      if (event.phase === 'started') ofRun.info('run started');
      else logEnd(ofRun, event);
    },
    // Look-ups can take long: an hour for 1,800 items at 60 requests a minute.
    onProgress(progress) {
      if (progress.phase !== 'look-up') return;
      const now = performance.now();
      if (now - lookupLineAt < LOOKUP_LINE_EVERY_MS) return;
      lookupLineAt = now;
      const { total: items, done: checked, leastMs } = progress;
      const atLeast = leastMs === null ? {} : { atLeastSeconds: Math.round(leastMs / 1000) };
      ofRun.info('checking missing items', { items, checked, ...atLeast });
    },
  };
}

function logEnd(line: Log, event: Extract<RunEvent, { phase: 'finished' }>): void {
  const { state, counts, problem, durationMs } = event;
  const figures = Object.entries(counts).filter(
    ([, value]) => typeof value === 'number' && value > 0,
  );
  const facts = { state, durationMs: Math.round(durationMs), ...Object.fromEntries(figures) };
  switch (state) {
    case 'succeeded':
      return line.info('run succeeded', facts);
    case 'held':
      return line.warn('run holds removals, which wait for a person', facts);
    case 'interrupted':
      return line.warn('run interrupted: it wrote nothing incomplete', facts);
    case 'failed': {
      const { code, message: reason, remedy } = problem ?? {};
      return line.error('run failed', { ...facts, problem: code, reason, remedy });
    }
  }
}

const PING_TIMEOUT_MS = 10_000;

/**
 * Tells a monitor such as healthchecks.io that a scheduled sync begins (`…/start`), has succeeded (the address itself)
 * or has failed (`…/fail`). A machine that is dead tells nothing, and the monitor raises the alarm. Never throws.
 * @param url its `{seller}` is replaced by the seller's name; never logged
 */
export async function ping(
  url: Secret,
  state: 'start' | 'success' | 'fail',
  seller: string,
  log: Log,
): Promise<void> {
  const target = new URL(url.reveal().replaceAll('{seller}', encodeURIComponent(seller)));
  if (state !== 'success') target.pathname = `${target.pathname.replace(/\/$/, '')}/${state}`;
  try {
    const response = await fetch(target, {
      headers: { 'user-agent': 'seller-mirror' },
      redirect: 'manual',
      signal: AbortSignal.timeout(PING_TIMEOUT_MS),
    });
    response.body?.cancel().catch(() => undefined);
    if (!response.ok) log.warn('PING_URL was not accepted', { seller, status: response.status });
  } catch (error) {
    const code = errorCode(error instanceof Error ? (error.cause ?? error) : error);
    log.warn('PING_URL could not be reached', { seller, code });
  }
}
