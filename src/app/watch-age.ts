import type { App } from '../app.js';
import type { Log } from '../domain/log.js';
import { findStaleSellers } from '../jobs/stale-sellers.js';
import type { Queues } from '../queue/queues.js';
import { tell } from './tell.js';

/** How often the age of the copies is looked at. */
const EVERY_MS = 60_000;

/** Looks at the age of the copies until it is stopped. */
export interface AgeWatch {
  stop(): Promise<void>;
}

/** Tells people, once each time, of copies that grew older than they may. */
export function watchAge(app: App, queues: Queues, log: Log): AgeWatch {
  let looking: Promise<void> = Promise.resolve();
  const look = async (): Promise<void> => {
    const { sellers, staleAfterHours } = app.config;
    const names = sellers.map(({ name }) => name);
    try {
      const stale = await findStaleSellers(app.store, names, staleAfterHours, new Date());
      for (const alert of stale) await tell(queues, alert, log);
    } catch (error) {
      log.debug('the age of the copies could not be looked at', { error });
    }
  };
  const timer = setInterval(() => {
    looking = looking.then(look);
  }, EVERY_MS);
  return {
    async stop() {
      clearInterval(timer);
      await looking;
    },
  };
}
