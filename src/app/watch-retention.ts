import type { App } from '../app.js';
import { keepsForEver, planRetention } from '../domain/retention.js';
import type { Log } from '../domain/log.js';
import { PruneBusyError } from '../store/prune/prune.js';

/** How often to look whether it is time. */
const EVERY_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** What is needed of an app to prune its store. */
interface Prunable {
  readonly config: Pick<App['config'], 'retention'>;
  readonly store: Pick<App['store'], 'prune'>;
}

/** Prunes the store until it is stopped. */
export interface RetentionWatch {
  /** Begins no other portion; what one has deleted stays deleted. */
  stop(): void;
}

/**
 * Deletes what is older than the settings say, once a day, the first time an hour after the start.
 * Of several processes one does, and the others find little left.
 */
export function watchRetention(app: Prunable, log: Log): RetentionWatch {
  const stopping = new AbortController();
  let doneAt: number | null = null;
  let pruning = false;
  const look = async (): Promise<void> => {
    const now = new Date();
    if (doneAt !== null && now.getTime() - doneAt < DAY_MS - EVERY_MS / 2) return;
    const { signal } = stopping;
    const pruned = await app.store.prune(planRetention(app.config.retention, now), { signal });
    doneAt = now.getTime();
    const rows = pruned.reduce((sum, one) => sum + one.rows, 0);
    if (rows > 0) log.info('what was kept for long enough is deleted', { rows });
  };
  const begin = (): void => {
    if (pruning) return;
    pruning = true;
    void look()
      .catch((error: unknown) => tell(log, error, stopping.signal))
      .finally(() => (pruning = false));
  };
  const timer = keepsForEver(app.config.retention) ? undefined : setInterval(begin, EVERY_MS);
  return {
    stop() {
      stopping.abort(new Error('the service is stopping'));
      clearInterval(timer);
    },
  };
}

function tell(log: Log, error: unknown, signal: AbortSignal): void {
  if (signal.aborted || error instanceof PruneBusyError) return;
  log.warn('old rows could not be deleted; the next look tries again', { error });
}
