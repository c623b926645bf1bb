import { isUserError, UserError } from '../../domain/user-error.js';
import { setTimeout as pause } from 'node:timers/promises';
import type { FeedConfig } from '../../config/index.js';
import type { Db } from '../../db/db.js';
import { withLock } from '../../db/locks.js';
import { withSnapshot } from '../views.js';
import { Delivery, type DeliverOptions, type ViewReport } from './deliver.js';
import { folderTarget } from './folder.js';
import type { Target } from './target.js';

/**
 * Opens the target of a feed. Loads only the driver that it needs.
 * @param signal aborts the connection
 * @throws {UserError}
 */
async function openTarget({ name, target }: FeedConfig, signal: AbortSignal): Promise<Target> {
  switch (target.kind) {
    case 'folder':
      return folderTarget(target.path, target.format, name);
    case 'sqlite':
      return (await import('./sqlite.js')).sqliteTarget(target.path, name);
    case 'postgres': {
      const { postgresTarget } = await import('./postgres.js');
      return postgresTarget(new URL(target.url.reveal()), target.schema, name, signal);
    }
    case 'mysql':
      return (await import('./mysql.js')).mysqlTarget(new URL(target.url.reveal()), name, signal);
  }
}

/** Time between two tries to lock a feed that another process delivers (ms). */
const LOCK_EVERY_MS = 500;

/** Delivers a feed once, as soon as no other process of this store does. @throws {UserError} */
export async function runFeed(
  db: Db,
  feed: FeedConfig,
  options: DeliverOptions,
): Promise<ViewReport[]> {
  for (;;) {
    options.signal.throwIfAborted();
    try {
      return await withLock(
        db,
        `seller-mirror/feed/${feed.name}`,
        () => new UserError(`another process delivers feed ${feed.name}`, '', 'BUSY'),
        () => withDelivery(db, feed, options, (delivery) => delivery.run()),
      );
    } catch (error) {
      if (!isUserError(error, 'BUSY')) throw error;
      await pause(LOCK_EVERY_MS);
    }
  }
}

/**
 * Opens the store and the target of a feed for some work.
 * @throws {UserError} if the target is unreachable
 */
export function withDelivery<T>(
  db: Db,
  feed: FeedConfig,
  options: DeliverOptions,
  work: (delivery: Delivery) => Promise<T>,
): Promise<T> {
  const { signal } = options;
  return withSnapshot(db.url, signal, feed.salt?.reveal() ?? null, async (snapshot) => {
    const target = await openTarget(feed, signal);
    try {
      return await work(new Delivery(db, snapshot, await snapshot.views(), target, feed, options));
    } finally {
      await target.close();
    }
  });
}
