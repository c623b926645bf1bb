import type { FeedConfig } from '../config/index.js';
import { withExports } from '../store/exports.js';
import { deliverFeed, type DeliverOptions, type ViewReport } from './deliver.js';
import { folderTarget } from './folder.js';
import type { Target } from './target.js';

/**
 * Opens the target of a feed; a driver is loaded only for those who use it.
 * @param signal cuts its connection off
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
 * @throws {TargetError} when the target can't be reached; what was delivered stays
 */
export async function runFeed(
  databaseUrl: string,
  feed: FeedConfig,
  options: DeliverOptions,
): Promise<ViewReport[]> {
  return withExports(databaseUrl, options.signal, async (exports) => {
    // Both at once: most of a night without changes is spent on logging in.
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
