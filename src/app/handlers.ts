import type { App, JobOptions } from '../app.js';
import type { Config, SellerConfig } from '../config/index.js';
import type { Verdict } from '../domain/codes/proof.js';
import type { Log } from '../domain/log.js';
import { DAY_MS, nextTicks } from '../domain/schedule.js';
import { alertJobs, alertsAfter, deliverAlert, type AlertChannelName } from '../jobs/alerts.js';
import { paceOf } from '../jobs/codes/pace.js';
import { performAuditChunk } from '../jobs/codes/perform-chunk.js';
import type { AuditDeps } from '../jobs/codes/work-on-chunk.js';
import { performRecheck, type RecheckPlan } from '../jobs/codes/recheck.js';
import type { BatchState } from '../jobs/codes/types.js';
import { performMirrorTask } from '../jobs/mirror-task.js';
import type { JobOutcome, RunEvent } from '../jobs/types.js';
import { parseCron } from '../queue/cron.js';
import type { Queues } from '../queue/queues.js';
import type { AlertTask, AuditTask, MirrorTask } from '../queue/tasks.js';
import type { JobContext, JobHandler } from '../queue/worker.js';
import type { AlertChannel } from '../webhook/message.js';
import { askForFeeds } from './feeds.js';
import { adding } from './watches.js';

/**
 * The outcome of a job for a seller that is not configured here. Another worker may know the seller: a
 * new sellers file comes to some of a fleet before others.
 */
const UNKNOWN_SELLER: JobOutcome = {
  kind: 'retry',
  problem: 'this seller is not configured for this worker',
  notBefore: null,
};

export function mirrorHandler(app: App, queues: Queues): JobHandler<MirrorTask> {
  return async (task, context): Promise<JobOutcome> => {
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) return UNKNOWN_SELLER;
    const options = { jobId: context.jobId, ...runLog(context.log) };
    const asked = { askedAt: new Date(task.tick ?? task.askedAt), byHand: task.tick === null };
    const job = task.kind === 'item' ? { ...task, ...asked } : { kind: task.kind, ...asked };
    const outcome = await app.withJobs(seller, options, (deps) =>
      performMirrorTask(deps, job, context.signal),
    );
    await queueAlerts(app, queues, outcome, context);
    if (outcome.kind === 'done') await askForFeeds(app, queues, context.log);
    return outcome;
  };
}

/** Told of a seller's code that got a verdict, or was given up. */
export type OnVerdict = (seller: string, verdict: Verdict) => void;

export function auditHandler(
  app: App,
  queues: Queues,
  onVerdict: OnVerdict = () => undefined,
): JobHandler<AuditTask> {
  const batchStates = new Map<string, BatchState>();
  return async (task, context): Promise<JobOutcome> => {
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) return UNKNOWN_SELLER;
    const { jobId, attempt, attempts, signal, closing } = context;
    const outcome = await app.withJobs(seller, { jobId }, (jobDeps) => {
      const deps: AuditDeps = {
        ...jobDeps,
        batchStates,
        ...paceOf(seller.requestsPerMinute),
        enqueueChunk: adding(queues, seller.name),
        onVerdict: (verdict) => onVerdict(seller.name, verdict),
      };
      if (task.kind === 'recheck') {
        const plan = recheckPlan(app.config.recheck, seller, task.tick);
        return performRecheck(deps, plan);
      }
      const { auditId, chunk } = task;
      const job = { auditId: BigInt(auditId), chunk, isLastAttempt: attempt >= attempts };
      return performAuditChunk({ ...deps, closing }, job, signal);
    });
    await queueAlerts(app, queues, outcome, context);
    const isFinished = outcome.kind === 'done' && outcome.alert?.kind === 'audit-finished';
    if (isFinished) await askForFeeds(app, queues, context.log);
    return outcome;
  };
}

/** As much as a share of the budget allows until the schedule's next instant; a day's, without one. */
export function recheckPlan(
  { share, olderThanDays }: Config['recheck'],
  { requestsPerMinute, auditCron, timeZone }: SellerConfig,
  tick: string | null,
): RecheckPlan {
  const from = tick === null || auditCron === null ? null : new Date(tick);
  const [next] = from === null ? [] : nextTicks(parseCron(auditCron ?? ''), timeZone, from, 1);
  const windowMs = from === null || next === undefined ? DAY_MS : next.getTime() - from.getTime();
  const calls = Math.floor((requestsPerMinute * share * windowMs) / 60_000);
  return {
    requestsPerMinute,
    olderThan: olderThanDays * DAY_MS,
    validOnly: false,
    limit: requestsPerMinute === 0 ? Infinity : calls,
  };
}

/** Delivers alerts. @param channels null: not configured for this worker */
export function alertHandler(
  app: App,
  channels: Readonly<Record<AlertChannelName, AlertChannel | null>>,
): JobHandler<AlertTask> {
  const dashboardUrl = app.config.dashboard.url;
  return async (alert, context): Promise<JobOutcome> => {
    const by: AlertChannelName = alert.by ?? 'webhook';
    const channel = channels[by];
    if (channel === null) {
      return {
        kind: 'retry',
        notBefore: null,
        problem: `this worker is not told where alerts by ${by} go`,
      };
    }
    const deps = { store: app.store, channel, dashboardUrl };
    return await deliverAlert(deps, alert, context.jobId, context.signal);
  };
}

/** Queues the alerts that an outcome asks for. Logs those that can't be queued; never throws. */
async function queueAlerts(
  { config }: App,
  queues: Queues,
  outcome: JobOutcome,
  context: JobContext,
): Promise<void> {
  for (const { id, task } of alertsAfter(outcome, context).flatMap((one) =>
    alertJobs(config, one),
  )) {
    try {
      await queues.add('alerts', task, id);
    } catch (error) {
      context.log.warn('an alert could not be put into the queue', { alert: id, error });
    }
  }
}

/** While look-ups go on, a line comes as often as this, milliseconds. */
const LOOKUP_LINE_MS = 60_000;

/** Writes what happens to runs as lines that carry the run's id beside what `log` carries already. */
export function runLog(log: Log): Required<Pick<JobOptions, 'onRun' | 'onProgress'>> {
  let ofRun = log;
  /** When the last line about look-ups was written. */
  let lookupLineAt = -Infinity;
  return {
    onRun(event) {
      const { runId, kind } = event;
      ofRun = log.child({ run: runId, kind });
      lookupLineAt = -Infinity;
      if (event.phase === 'started') ofRun.info('run started');
      else logEnd(ofRun, event);
    },
    // Look-ups are the one step of a run that may take long, an hour for 1,800 items.
    onProgress(progress) {
      if (progress.phase !== 'look-up') return;
      const now = performance.now();
      if (now - lookupLineAt < LOOKUP_LINE_MS) return;
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
      return line.warn('run held: more items would go than the removal guard allows', facts);
    case 'interrupted':
      return line.warn('run interrupted: nothing is half done', facts);
    case 'failed': {
      const { code, message: reason, remedy } = problem ?? {};
      return line.error('run failed', { ...facts, problem: code, reason, remedy });
    }
  }
}
