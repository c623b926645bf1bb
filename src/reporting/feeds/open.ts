import type { FeedConfig } from '../../config/index.js';
import { withExports } from '../exports.js';
import { deliverFeed, type DeliverOptions, type ViewReport } from './deliver.js';
import { folderTarget } from './folder.js';
import type { Target } from './target.js';

/**
 * Opens the target of a feed. Loads only the driver that it needs.
 * @param signal aborts the connection
 * @throws {TargetError}
 */
export async function openTarget(
  { name, target }: FeedConfig,
  signal: AbortSignal,
): Promise<Target> {
  switch (target.kind) {
    case 'folder':
      return folderTarget(target.path, target.format);
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

/**
 * Delivers a feed once.
 * @throws {TargetError} if the target is unreachable; rows delivered before stay
 */
export async function runFeed(
  databaseUrl: string,
  feed: FeedConfig,
  options: DeliverOptions,
): Promise<ViewReport[]> {
  return withExports(databaseUrl, options.signal, async (exports) => {
    // In parallel: logging in takes most of the time of a night without changes.
    const [connected, target] = await Promise.allSettled([
      exports.connect(),
      openTarget(feed, options.signal),
    ]);
    if (target.status === 'rejected') throw target.reason;
    try {
      if (connected.status === 'rejected') throw connected.reason;
      return await deliverFeed(exports, target.value, feed, options);
    } finally {
      await target.value.close();
    }
  });
}
