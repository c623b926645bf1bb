/** Measured: the catalogue job as `sync items` runs it, from before the account proof to the report. */
import type * as AppModule from '../src/app.js';
import type * as ConfigModule from '../src/config/index.js';
import type * as SyncCatalogueModule from '../src/jobs/sync-catalogue.js';
import { product } from './product.js';
import { tell } from './tell.js';

const { loadConfig } = (await product('config/index.js')) as typeof ConfigModule;
const { openApp } = (await product('app.js')) as typeof AppModule;
const { syncCatalogue } = (await product('jobs/sync-catalogue.js')) as typeof SyncCatalogueModule;

const { signal } = new AbortController();
const config = loadConfig('sellers', () => null);
const app = await openApp(config, 'bench', signal);
try {
  const [seller] = config.sellers;
  if (seller === undefined) throw new Error('no seller');
  const { ms, report } = await app.withJobs(seller, {}, async (deps) => {
    const started = performance.now();
    const done = await syncCatalogue(deps, signal);
    return { ms: performance.now() - started, report: done };
  });
  if (report.state !== 'succeeded') throw new Error(report.problem?.message ?? report.state);
  tell({ ms, counts: report.counts });
} finally {
  await app.close();
}
