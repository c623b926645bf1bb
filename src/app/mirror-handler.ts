import type { App } from '../app.js';
import { alertsAfter } from '../jobs/mirror-outcome.js';
import { performMirrorTask, type MirrorJob } from '../jobs/mirror-task.js';
import type { Queues } from '../queue/queues.js';
import type { JobHandler, JobOutcome, MirrorTask } from '../queue/types.js';
import { RunLog } from './run-log.js';
import { tell } from './tell.js';

/** Does mirror jobs by the runs of the configured seller, and tells people of what went wrong. */
export function mirrorHandler(app: App, queues: Queues): JobHandler<MirrorTask> {
  return async (task, context): Promise<JobOutcome> => {
    const { log } = context;
    const seller = app.config.sellers.find(({ name }) => name === task.seller);
    if (seller === undefined) {
      // Another one may know the seller: a new sellers file comes to some of a fleet before others.
      const problem = 'this seller is not configured for this worker';
      return { kind: 'retry', problem, notBefore: null };
    }
    const lines = new RunLog(log);
    const outcome = await app.withJobs(
      seller,
      {
        jobId: context.jobId,
        onRun: (event) => lines.run(event),
        onProgress: (progress) => lines.progress(progress),
      },
      (deps) => performMirrorTask(deps, jobOf(task), context.signal),
    );
    if (app.config.alerts !== null) {
      for (const alert of alertsAfter(outcome, context)) await tell(queues, alert, log);
    }
    return outcome;
  };
}

function jobOf(task: MirrorTask): MirrorJob {
  const asked = { askedAt: new Date(task.tick ?? task.askedAt), byHand: task.tick === null };
  return task.kind === 'item'
    ? { ...asked, kind: 'item', itemId: task.itemId }
    : { ...asked, kind: task.kind };
}
