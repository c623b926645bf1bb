import type { App } from '../app.js';
import type { Wanted } from '../catalogue/requests.js';
import { askRuns } from '../catalogue/requests-store.js';
import { hostName } from '../domain/address.js';
import type { Queues } from './queue/queues.js';

/** What was asked for. */
export interface Asked {
  /** The number of the first run. It gets another one when it begins, and can be found by both. */
  readonly runId: bigint;
  readonly askedAt: Date;
  /** Why the queue does not know of it yet; null: it does. A worker looks by itself within a minute. */
  readonly queueProblem: string | null;
}

/**
 * Asks for runs of a seller, which a worker performs. They stand in the store, so that a worker does them even if the
 * queue can't be reached now. The same request that nobody has begun is not made twice.
 * @param askedBy the person or program, as runs name it
 */
export async function askForRuns(
  { config, db }: Pick<App, 'config' | 'db'>,
  queues: Pick<Queues, 'add'>,
  seller: string,
  wanted: Wanted,
  askedBy: string,
): Promise<Asked> {
  const url = config.sellers.find(({ name }) => name === seller)?.url;
  const place = { seller, marketplace: url === undefined ? '' : hostName(url) };
  const { runId, askedAt } = await askRuns(db, place, wanted, askedBy);
  const due = { seller, dueAt: askedAt.toISOString(), byHand: true } as const;
  const queueProblem = await queues
    .add('mirror', wanted.kind === 'item' ? { ...wanted, ...due } : { kind: wanted.kind, ...due })
    .then(
      () => null,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
  return { runId, askedAt, queueProblem };
}
