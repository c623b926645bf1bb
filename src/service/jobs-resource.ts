import { UserError } from '../domain/user-error.js';
import type { Resource } from '../listing/resource.js';
import { fewRows } from '../listing/table-listing.js';
import type { EndedJob, Queues } from './queue/queues.js';
import { QUEUE_NAMES } from './queue/tasks.js';

/** Where failed jobs are read from. */
export interface JobsSource {
  /** Opens the queues, unless they are open. */
  readonly queues: () => Promise<Queues>;
}

/** More failed jobs of a queue are not read. */
const MAX_JOBS = 500;

async function failedJobs({ queues }: JobsSource): Promise<readonly EndedJob[]> {
  const opened = await queues();
  const found = await Promise.all(QUEUE_NAMES.map((name) => opened.failedJobs(name, MAX_JOBS)));
  return found.flat().sort((a, b) => b.endedAt.getTime() - a.endedAt.getTime());
}

/** Names a job among those of all queues, such as `mirror-42`. */
function idOf({ queue, jobId }: EndedJob): string {
  return `${queue}-${jobId}`;
}

/** Jobs that failed for good: listed and tried again. */
export const JOB: Resource<EndedJob, EndedJob, JobsSource> = {
  listing: {
    name: 'jobs',
    about: 'Jobs that failed for good. A later run may have succeeded since.',
    none: 'There is no failed job.',
    columns: [
      { name: 'job', type: 'word', value: idOf },
      { name: 'kind', type: 'word', value: ({ kind }) => kind },
      { name: 'seller', type: 'seller', value: ({ seller }) => seller },
      { name: 'failed', type: 'moment', value: ({ endedAt }) => endedAt },
      { name: 'attempts', type: 'count', value: ({ attempts }) => attempts },
      { name: 'problem', type: 'sentence', value: ({ problem }) => problem },
    ],
    json: ({ queue, jobId, seller, ...job }) => ({
      ...{ job: idOf({ queue, jobId, seller, ...job }), queue, sellerId: seller },
      ...job,
    }),
    ...fewRows<EndedJob, JobsSource>(
      [
        {
          name: 'queue',
          about: 'jobs of this queue',
          type: 'choice',
          choices: QUEUE_NAMES,
          matches: ({ queue }: EndedJob, wanted) => queue === wanted,
        },
        {
          name: 'seller',
          about: 'jobs of this seller',
          type: 'seller',
          matches: ({ seller }: EndedJob, wanted) => seller === wanted,
        },
      ],
      failedJobs,
    ),
  },
  one: 'job',
  ids: 'name',
  async find(source, id) {
    return (await failedJobs(source)).filter((job) => idOf(job) === id);
  },
  sellerOf: ({ seller }) => seller,
  actions: [
    {
      name: 'retry',
      label: 'Retry',
      logged: 'retry job',
      about: 'do the job again, with all its attempts',
      isPossible: () => true,
      async perform({ source: { queues }, ask }, job) {
        const task = await (await queues()).retry(job.queue, job.jobId);
        if (task === null) {
          throw new UserError(
            'this failed job no longer exists',
            'somebody may have retried it already',
            'FAILED',
          );
        }
        // The store says that its runs have ended, so a person must ask for new ones.
        if ('byHand' in task) {
          const wanted =
            task.kind === 'item'
              ? ({ kind: 'item', itemId: task.itemId } as const)
              : ({ kind: task.kind } as const);
          await ask(task.seller, wanted);
        }
        return { text: `job ${idOf(job)} is in the queue again`, notice: 'retried' };
      },
    },
  ],
};
