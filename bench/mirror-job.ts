/** Measured: the catalogue job as `sync items` runs it, from before the account proof to the report. */
import { openApp } from '#product/app.js';
import { loadConfig } from '#product/config/index.js';
import { syncCatalogue } from '#product/jobs/sync-catalogue.js';
import { tell } from './tell.js';

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
  tell({ ms });
} finally {
  await app.close();
}
