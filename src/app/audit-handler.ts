import type { App } from '../app.js';
import type { Config, SellerConfig } from '../config/index.js';
import type { Verdict } from '../domain/codes/proof.js';
import { nextTicks } from '../domain/schedule.js';
import { paceOf } from '../jobs/codes/pace.js';
import { performAuditChunk, type AuditDeps } from '../jobs/codes/perform-chunk.js';
import type { Carried } from '../jobs/codes/types.js';
import { performRecheck, type RecheckPlan } from '../jobs/codes/recheck.js';
import { alertsAfter, type MirrorOutcome } from '../jobs/mirror-outcome.js';
import { parseCron } from '../queue/cron.js';
import type { Queues } from '../queue/queues.js';
import type { AuditTask, JobContext, JobHandler, JobOutcome } from '../queue/types.js';
import { tell } from './tell.js';
import { adding } from './watch-audits.js';

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
    if (seller === undefined) {
      // Another one may know the seller: a new sellers file comes to some of a fleet before others.
      const problem = 'this seller is not configured for this worker';
      return { kind: 'retry', problem, notBefore: null };
    }
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
    if (app.config.alerts !== null) {
      for (const alert of alertsAfter(outcome, context)) await tell(queues, alert, context.log);
    }
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
