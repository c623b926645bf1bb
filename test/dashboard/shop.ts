import { beforeEach } from 'vitest';
import type { App } from '../../src/app.js';
import { auditHandler } from '../../src/service/handlers.js';
import { auditDeps, openShop, progress, type Shop } from '../codes/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { closeDashboards, openDashboard, type TestDashboard, type Visitor } from './dashboard.js';

const SELLER = { SELLER_NAME: 'main', REQUESTS_PER_MINUTE: '0', MARKETPLACE_API_KEY: KEY };

/** For each test of a file: a marketplace with purchase codes, a dashboard for it, and an operator. */
export function useShop() {
  const mirror = useMirror();
  let shop: Shop;
  let dashboard: TestDashboard;
  let operator: Visitor;
  beforeEach(async () => {
    shop = await openShop();
    const settings = { ...SELLER, MARKETPLACE_URL: shop.sim.url };
    dashboard = await openDashboard(mirror(), {}, { settings });
    operator = await dashboard.login();
  });
  closeDashboards();

  async function isFinished(auditId: bigint): Promise<boolean> {
    return (await progress(mirror(), auditId)).state === 'finished';
  }

  /** Runs a worker until the audit has finished. */
  async function finish(auditId: bigint): Promise<void> {
    const app = {
      db: mirror().db,
      config: {
        sellers: [{ name: 'main', requestsPerMinute: 0, auditCron: null, timeZone: 'UTC' }],
        alerts: null,
      },
      withMarketplace: (_seller: unknown, _options: unknown, work: (deps: unknown) => unknown) =>
        work({ ...auditDeps(mirror(), shop.marketplace), callCount: () => shop.sim.requestCount }),
    } as unknown as App;
    const { queues } = dashboard;
    // No test waits a minute for the second check.
    await mirror().rows(`UPDATE mirror.audits SET confirm_after_ms = 0`);
    const worker = queues.work('audits', auditHandler(app, queues), { concurrency: 1 });
    try {
      await until(() => isFinished(auditId));
    } finally {
      await worker.stop(1_000);
    }
  }

  return {
    mirror,
    shop: () => shop,
    dashboard: () => dashboard,
    operator: () => operator,
    isFinished,
    finish,
    /** Environment of a command on the same store and marketplace. */
    env: () => ({
      ...SELLER,
      MARKETPLACE_URL: shop.sim.url,
      DATABASE_URL: mirror().databaseUrl,
    }),
  };
}
