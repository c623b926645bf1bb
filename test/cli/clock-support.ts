import { Webhook as Verifier } from 'standardwebhooks';
import { expect, onTestFinished } from 'vitest';
import { seededCatalogue, seededPurchases, startSimulator } from '../../src/simulator/index.js';
import { startServer } from '../support/http-server.js';
import { KEY } from '../support/mirror.js';
import { query } from '../support/query.js';
import { type Running, run, settings } from './support.js';

const SECRET = `whsec_${Buffer.alloc(32, 3).toString('base64')}`;

/** A marketplace, whose clock is right, and a receiver of alerts. */
export async function worldOf(databaseUrl: string) {
  const seller = {
    key: KEY,
    username: 'ada',
    catalogue: seededCatalogue({ seed: 3, count: 12 }),
    purchases: seededPurchases({ seed: 5, count: 20 }),
  };
  const sim = await startSimulator({ sellers: [seller] });
  onTestFinished(() => sim.close());
  const receiver = await startServer({ status: 204 });
  const env = settings(databaseUrl, sim.url, {
    ALERT_WEBHOOK_URL: receiver.url.href,
    ALERT_WEBHOOK_SECRET: SECRET,
    ALLOW_PLAIN_HTTP: 'true',
    HEALTH_LISTEN: 'off',
    DASHBOARD_LISTEN: 'off',
    TZ: 'UTC',
  });
  expect((await run(['migrate'], env)).code).toBe(0);
  return {
    sim,
    env,
    /** Types of the alerts. A receiver refuses what was signed at another time than its own. */
    alerts: () =>
      receiver.requests.map(({ body, headers }) => {
        return (new Verifier(SECRET).verify(body, headers) as { readonly type: string }).type;
      }),
    /** Times of the schedule for which items were mirrored while the clock showed a time of this interval. */
    mirrored: async (from: number, to = Infinity): Promise<readonly string[]> => {
      const rows = await query(
        databaseUrl,
        `SELECT started_at, due_at FROM mirror.runs
          WHERE kind = 'items' AND state = 'succeeded' ORDER BY run_id`,
      );
      return rows
        .filter(({ started_at: at }) => Number(at) >= from && Number(at) < to)
        .map(({ due_at: at }) => (at as Date).toISOString().slice(11, 19));
    },
  };
}

export async function stop(service: Running): Promise<void> {
  service.process.kill('SIGTERM');
  expect((await service.ended).code).toBe(0);
}
