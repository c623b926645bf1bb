import { syncAccount } from '../../src/catalogue/account.js';
import { syncItem } from '../../src/catalogue/sync-item.js';
import { syncItems } from '../../src/catalogue/sync-items.js';
import type { RunDeps, RunReport } from '../../src/catalogue/types.js';
import { seededCatalogue, type SimulatorOptions } from '../../src/simulator/index.js';
import { KEY, never, type Mirror } from '../support/mirror.js';

/** One run, as a worker performs it. */
export { syncAccount, syncItems, type RunDeps, type RunReport };

/** A simulated seller with `count` items, and functions that mirror them. */
export async function openMarket(
  mirror: Mirror,
  count: number,
  options: Partial<SimulatorOptions> = {},
  more: Partial<RunDeps> = {},
) {
  const catalogue = seededCatalogue({ seed: 7, count });
  const sellers = [{ key: KEY, username: 'ada', catalogue }];
  const sim = await mirror.simulate({ sellers, ...options });
  const deps = mirror.deps(sim.url, more);
  return {
    sim,
    catalogue,
    deps,
    sync: (signal = never): Promise<RunReport> => syncItems(deps, signal),
    syncItem: (id: number): Promise<RunReport> => syncItem(deps, id, never),
    /** Mirrors the account. @param fields override `deps` */
    syncAccount: async (fields: Partial<RunDeps> = {}): Promise<RunReport> =>
      (await syncAccount({ ...deps, ...fields }, never)).report,
  };
}

export type Market = Awaited<ReturnType<typeof openMarket>>;

/** `openMarket`, mirrored once. */
export async function openSynced(...args: Parameters<typeof openMarket>): Promise<Market> {
  const market = await openMarket(...args);
  await market.sync();
  return market;
}
