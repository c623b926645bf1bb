import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { enqueueNext } from '../jobs/codes/perform-chunk.js';
import type { Queues } from '../queue/queues.js';

/** How often audits that run are looked at. */
const EVERY_MS = 60_000;
/** Audits that are looked at, the newest. */
const LATEST = 500;

/** Looks after audits until it is stopped. */
export interface AuditWatch {
  /** Puts nothing more into the queue; what is being put there is not waited for. */
  stop(): void;
}

/**
 * Sees to it that the chunks of every audit that runs are in the queue, now and once a minute: a queue
 * that lost its jobs, or a process that was killed before it could add one, holds up no audit.
 */
export function watchAudits(
  app: {
    readonly config: Pick<App['config'], 'sellers'>;
    readonly store: Pick<App['store'], 'audits'>;
  },
  queues: Pick<Queues, 'addChunk'>,
  log: Log,
): AuditWatch {
  const { store } = app;
  const sellerIds = app.config.sellers.map(({ name }) => name);
  let looking = false;
  let stopped = false;
  const look = async (): Promise<void> => {
    const audits = await store.audits.list({ sellerIds, limit: LATEST });
    for (const { auditId, sellerId, state } of audits) {
      if (stopped) return;
      if (state === 'running') await enqueueNext(store, auditId, adding(queues, sellerId));
    }
  };
  const begin = (): void => {
    if (looking) return;
    looking = true;
    void look()
      // The next look does it; of an outage tell those whose it is.
      .catch((error: unknown) => log.debug('the watch over audits was cut short', { error }))
      .finally(() => (looking = false));
  };
  const timer = setInterval(begin, EVERY_MS);
  begin();
  return {
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}

/** Puts chunks of a seller's audits into the queue. @param options as of `addChunk` */
export function adding(
  queues: Pick<Queues, 'addChunk'>,
  sellerId: string,
  options: { readonly afresh?: boolean } = {},
): (auditId: bigint, chunk: number) => Promise<void> {
  return async (auditId, chunk) => {
    await queues.addChunk(sellerId, auditId, chunk, options);
  };
}
