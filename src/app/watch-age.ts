import type { Config } from '../config/index.js';
import type { Log } from '../domain/log.js';
import { alertId } from '../jobs/alerts.js';
import { findStaleSellers } from '../jobs/stale-sellers.js';
import type { Queues } from '../queue/queues.js';
import type { Store } from '../store/store.js';

/** How often the age of the copies is looked at. */
const EVERY_MS = 60_000;

/** What is needed of an app to look at its copies. */
interface Copies {
  readonly config: Pick<Config, 'staleAfterHours'> & {
    readonly sellers: readonly { readonly name: string }[];
  };
  readonly store: Pick<Store, 'freshness'>;
}

/** Looks at the age of the copies until it is stopped. */
export interface AgeWatch {
  /** Puts nothing more into the queue; what is being put there is not waited for. */
  stop(): void;
}

/** Tells people, once each time, of copies that grew older than they may. */
export function watchAge(app: Copies, queues: Pick<Queues, 'addAlert'>, log: Log): AgeWatch {
  let looking = false;
  let stopped = false;
  const look = async (): Promise<void> => {
    const { sellers, staleAfterHours } = app.config;
    const names = sellers.map(({ name }) => name);
    for (const alert of await findStaleSellers(app.store, names, staleAfterHours, new Date())) {
      if (stopped) return;
      await queues.addAlert(alert, alertId(alert));
    }
  };
  const timer = setInterval(() => {
    if (looking) return;
    looking = true;
    void look()
      // The next look tells whoever is left; of an outage tell those whose it is.
      .catch((error: unknown) => log.debug('the watch over stale copies was cut short', { error }))
      .finally(() => (looking = false));
  }, EVERY_MS);
  return {
    stop() {
      stopped = true;
      clearInterval(timer);
    },
  };
}
