import type { App } from '../app.js';
import type { SellerConfig } from '../config/index.js';
import { silentLog } from '../domain/log.js';
import type { MirrorTask } from '../queue/tasks.js';

/** A job that was put into the queue. */
export interface Enqueued {
  readonly seller: string;
  readonly jobId: string;
}

/**
 * Puts the mirroring of each seller into the queue instead of doing it here.
 * @param itemId mirrors only this item
 * @throws {QueueError} when the queue can't be reached
 */
export async function enqueue(
  app: App,
  sellers: readonly SellerConfig[],
  kind: 'sync' | 'account' | 'items' | 'item',
  itemId: number | null,
): Promise<readonly Enqueued[]> {
  const { redis, queuePrefix, keepJobsDays } = app.config;
  const { openQueues } = await import('../queue/queues.js'); // slow to load, and seldom wanted
  const queues = await openQueues({
    target: redis,
    databaseUrl: app.database.url,
    prefix: queuePrefix,
    keepJobsDays,
    applicationName: 'seller-mirror sync --queue',
    log: silentLog,
  });
  try {
    const enqueued: Enqueued[] = [];
    for (const { name: seller } of sellers) {
      const asked = { seller, tick: null, askedAt: new Date().toISOString() };
      const task: MirrorTask =
        kind === 'item' ? { ...asked, kind, itemId: itemId ?? 0 } : { ...asked, kind };
      const { jobId } = await queues.addMirror(task);
      enqueued.push({ seller, jobId });
    }
    return enqueued;
  } finally {
    await queues.close();
  }
}
