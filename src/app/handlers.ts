import type { App } from '../app.js';
import type { Config, SellerConfig } from '../config/index.js';
import type { Verdict } from '../domain/codes/proof.js';
import type { Log } from '../domain/log.js';
import { nextTicks } from '../domain/schedule.js';
import { alertId, deliverAlert } from '../jobs/alerts.js';
import { paceOf } from '../jobs/codes/pace.js';
import { performAuditChunk, type AuditDeps } from '../jobs/codes/perform-chunk.js';
import { performRecheck, type RecheckPlan } from '../jobs/codes/recheck.js';
import type { Carried } from '../jobs/codes/types.js';
import { alertsAfter, type MirrorOutcome } from '../jobs/mirror-outcome.js';
import { performMirrorTask, type MirrorJob } from '../jobs/mirror-task.js';
import type { Progress, RunEvent } from '../jobs/types.js';
import { parseCron } from '../queue/cron.js';
import type { Queues } from '../queue/queues.js';
import type { AlertTask, AuditTask, MirrorTask } from '../queue/tasks.js';
import type { JobContext, JobHandler, JobOutcome } from '../queue/worker.js';
import type { Webhook } from '../webhook/webhook.js';
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

/** Does mirror jobs by the runs of the configured seller, and alerts people of what went wrong. */
export function mirrorHandler(app: App, queues: Queues): JobHandler<MirrorTask> {
  return async (task, context): Promise<JobOutcome> => {
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) return UNKNOWN_SELLER;
    const lines = new RunLog(context.log);
    const options = {
      jobId: context.jobId,
      onRun: (event: RunEvent) => lines.run(event),
      onProgress: (progress: Progress) => lines.progress(progress),
    };
    const outcome = await app.withJobs(seller, options, (deps) =>
      performMirrorTask(deps, jobOf(task), context.signal),
    );
    await queueAlerts(app, queues, outcome, context);
    return outcome;
  };
}

function jobOf(task: MirrorTask): MirrorJob {
  const asked = { askedAt: new Date(task.tick ?? task.askedAt), byHand: task.tick === null };
  return task.kind === 'item'
    ? { ...asked, kind: 'item', itemId: task.itemId }
    : { ...asked, kind: task.kind };
}

/** Told of a seller's code that got a verdict, or was given up. */
export type OnVerdict = (seller: string, verdict: Verdict) => void;

const DAY_MS = 86_400_000;

/**
 * Works on chunks of audits with the configured seller's client, and tells people when one ends.
 * @param onVerdict told of every code that gets a verdict here, or is given up
 */
export function auditHandler(
  app: App,
  queues: Queues,
  onVerdict: OnVerdict = () => undefined,
): JobHandler<AuditTask> {
  const carried = new Map<string, Carried>();
  return async (task, context): Promise<JobOutcome> => {
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) return UNKNOWN_SELLER;
    const outcome = await app.withJobs(seller, { jobId: context.jobId }, (deps) =>
      perform({
        deps: {
          ...deps,
          carried,
          ...paceOf(seller.requestsPerMinute),
          enqueueChunk: adding(queues, seller.name),
          onVerdict: (verdict) => onVerdict(seller.name, verdict),
        },
        plan: recheckPlan(app.config.recheck, seller, task),
        task,
        context,
      }),
    );
    await queueAlerts(app, queues, outcome, context);
    return outcome;
  };
}

interface Work {
  readonly deps: AuditDeps;
  readonly plan: RecheckPlan;
  readonly task: AuditTask;
  readonly context: JobContext;
}

function perform({ deps, plan, task, context }: Work): Promise<MirrorOutcome> {
  const { attempt, attempts, signal, closing } = context;
  if (task.kind === 'recheck') return performRecheck(deps, plan, signal);
  const { auditId, chunk } = task;
  const job = { auditId: BigInt(auditId), chunk, isLastAttempt: attempt >= attempts };
  return performAuditChunk({ ...deps, closing }, job, signal);
}

/** As much as a share of the budget allows until the schedule's next instant; a day's, without one. */
export function recheckPlan(
  { share, olderThanDays }: Config['recheck'],
  { requestsPerMinute, auditCron, timeZone }: SellerConfig,
  task: AuditTask,
): RecheckPlan {
  const tick = task.kind === 'recheck' && task.tick !== null ? new Date(task.tick) : null;
  const [next] =
    tick === null || auditCron === null ? [] : nextTicks(parseCron(auditCron), timeZone, tick, 1);
  const windowMs = tick === null || next === undefined ? DAY_MS : next.getTime() - tick.getTime();
  const olderThan = olderThanDays * DAY_MS;
  return { requestsPerMinute, share, windowMs, olderThan, validOnly: false };
}

/** Delivers alerts. */
export function alertHandler(app: App, webhook: Webhook): JobHandler<AlertTask> {
  return async (task, context): Promise<JobOutcome> =>
    await deliverAlert({ store: app.store, webhook }, task, context.jobId, context.signal);
}

/** Queues the alerts that an outcome asks for. Logs those that can't be queued; never throws. */
async function queueAlerts(
  app: App,
  queues: Queues,
  outcome: MirrorOutcome,
  context: JobContext,
): Promise<void> {
  if (app.config.alerts === null) return;
  for (const alert of alertsAfter(outcome, context)) {
    const id = alertId(alert);
    try {
      await queues.addAlert(alert, id);
    } catch (error) {
      context.log.warn('an alert could not be put into the queue', { alert: id, error });
    }
  }
}

/** While look-ups go on, a line comes as often as this, milliseconds. */
const LOOKUP_LINE_MS = 60_000;

/** Writes what happens to runs as lines that carry the run's id beside what `log` carries already. */
export class RunLog {
  readonly #log: Log;
  #ofRun: Log;
  /** When the last line about look-ups was written; null before the run's first. */
  #lookupLineAt: number | null = null;

  constructor(log: Log) {
    this.#log = log;
    this.#ofRun = log;
  }

  run(event: RunEvent): void {
    const { runId, kind } = event;
    this.#ofRun = this.#log.child({ run: runId, kind });
    this.#lookupLineAt = null;
    if (event.phase === 'started') this.#ofRun.info('run started');
    else logEnd(this.#ofRun, event);
  }

  /** Look-ups are the one step of a run that may take long, an hour for 1,800 items. */
  progress(progress: Progress): void {
    if (progress.phase !== 'look-up') return;
    const now = performance.now();
    if (this.#lookupLineAt !== null && now - this.#lookupLineAt < LOOKUP_LINE_MS) return;
    this.#lookupLineAt = now;
    const { total: items, done: checked, leastMs } = progress;
    const atLeast = leastMs === null ? {} : { atLeastSeconds: Math.round(leastMs / 1000) };
    this.#ofRun.info('checking missing items', { items, checked, ...atLeast });
  }
}

function logEnd(line: Log, event: Extract<RunEvent, { phase: 'finished' }>): void {
  const { state, counts, problem, durationMs } = event;
  const facts = { state, durationMs: Math.round(durationMs), ...figures(counts) };
  switch (state) {
    case 'succeeded':
      line.info('run succeeded', facts);
      break;
    case 'held':
      line.warn('run held: more items would go than the removal guard allows', facts);
      break;
    case 'interrupted':
      line.warn('run interrupted: nothing is half done', facts);
      break;
    case 'failed':
      line.error('run failed', {
        ...facts,
        problem: problem?.code,
        reason: problem?.message,
        remedy: problem?.remedy,
      });
  }
}

/** The figures that are not zero. */
function figures(counts: Extract<RunEvent, { phase: 'finished' }>['counts']): object {
  return Object.fromEntries(
    Object.entries(counts).filter(([, value]) => typeof value === 'number' && value > 0),
  );
}
