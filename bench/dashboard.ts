import { gzipSync } from 'node:zlib';
import type { Client } from 'pg';
import { readConfig } from '#product/config/index.js';
import { dashboardApp } from '#product/dashboard/app.js';
import { newToken, tokenHash } from '#product/dashboard/security.js';
import { LiveProgress } from '#product/dashboard/live.js';
import { silentLog } from '#product/domain/log.js';
import { openQueues } from '#product/service/queue/queues.js';
import { openMirror } from '#product/db/mirror.js';
import { withFilledStore } from './reporting.js';
import { openDb, type Db } from '#product/db/db.js';
import { readRunning } from '#product/catalogue/overview-store.js';
import { addLoginLink } from '#product/dashboard/access-store.js';
import { readSellerStatuses } from '#product/catalogue/status-store.js';
import { readSellerFacts } from '#product/catalogue/requests-store.js';
import { bounded, milliseconds, type Line } from './table.js';

/** Maximum server time of a page (ms). */
const TARGET_MS = 50;
/** Maximum time of a statement of `status` or a scheduler (ms). */
const STATEMENT_MS = 100;
/** Maximum size of the first page and its assets, uncompressed (bytes). */
const TARGET_BYTES = 100_000;
const SELLERS = 1_000;
const ORIGIN = 'http://127.0.0.1:8791';

/**
 * Measures every page of the dashboard on a store with this many items, including the database but not the
 * network. Each page is requested several times; the minimum counts, because the rest is other work of the
 * machine.
 */
export function dashboardLines(items: number, repetitions: number): Promise<Line[]> {
  return withFilledStore(items, MORE, async (client, url) =>
    measurePages(client, url, await pagesOf(client), 2 * repetitions + 1),
  );
}

async function measurePages(
  client: Client,
  databaseUrl: string,
  pages: readonly Page[],
  times: number,
): Promise<Line[]> {
  const env = { DATABASE_URL: databaseUrl };
  const config = readConfig(env, { cwd: '/', needs: 'store' });
  const db = openDb(databaseUrl, 'bench');
  const mirror = await openMirror({ databaseUrl });
  const queues = await openQueues({
    target: null,
    databaseUrl,
    prefix: 'bench',
    keepJobsDays: 1,
    applicationName: 'bench',
    log: silentLog,
  });
  const live = new LiveProgress(() => readRunning(db));
  const endpoint = { hosts: [], isSecure: false, isBehindProxy: false };
  const database = { url: databaseUrl, location: null };
  const uploads = { maxBytes: 1024 ** 2, ended: new AbortController().signal };
  const withMarketplace = () => Promise.reject(new Error('the bench has no marketplace'));
  const parts = {
    config,
    db,
    mirror,
    queues,
    live,
    endpoint,
    database,
    uploads,
    withMarketplace,
  };
  const app = dashboardApp({ ...parts, log: silentLog });
  try {
    const link = newToken();
    await addLoginLink(db, tokenHash(link), 'bench');
    const reply = await app.request(`${ORIGIN}/login?token=${link}`);
    const cookie = reply.headers.get('set-cookie')?.split(';')[0] ?? '';
    const fetchPage = async (path: string): Promise<Uint8Array> => {
      const answer = await app.request(`${ORIGIN}${path}`, { headers: { cookie } });
      const bytes = new Uint8Array(await answer.arrayBuffer());
      if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}`);
      return bytes;
    };
    const lines: Line[] = [];
    for (const [what, path] of pages) {
      const took = await least(times, () => fetchPage(path));
      lines.push(bounded(`dashboard: ${what}`, took, TARGET_MS, milliseconds));
    }
    const first = await fetchPage('/');
    const html = Buffer.from(first).toString();
    const assets = [...html.matchAll(/"(\/assets\/[^"]+)"/g)].map(([, path]) => path ?? '');
    const parts = [first];
    for (const path of new Set(assets)) parts.push(await fetchPage(path));
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    const packed = parts.reduce((sum, part) => sum + gzipSync(part).length, 0);
    return [
      ...lines,
      {
        ...bounded('dashboard: weight of the first page', bytes, TARGET_BYTES, kilobytes),
        ratio: `${kilobytes(packed)} behind a proxy that compresses`,
      },
      ...(await sellerLines(db, client, times)),
    ];
  } finally {
    live.close();
    await queues.close();
    await mirror.close();
    await db.close();
  }
}

/** Measures what `status` and a scheduler read and write about all sellers. */
async function sellerLines(db: Db, client: Client, times: number): Promise<Line[]> {
  const line = async (what: string, work: () => Promise<unknown>): Promise<Line> =>
    bounded(`${SELLERS} sellers: ${what}`, await least(times, work), STATEMENT_MS, milliseconds);
  const sellers = (await readSellerStatuses(db)).map(({ sellerId }) => sellerId);
  const lines = [
    await line('status', () => readSellerStatuses(db)),
    await line('what schedules ask', () => readSellerFacts(db, sellers, 'recheck')),
  ];
  await client.query(
    `INSERT INTO mirror.runs (seller_id, kind, state, started_at, holder)
     SELECT seller_id, 'items', 'running', now(), 'bench' FROM mirror.sellers`,
  );
  await client.query(
    `SELECT pg_advisory_lock(hashtextextended('seller-mirror/seller/' || seller_id, 0)) FROM mirror.sellers`,
  );
  return [...lines, await line('status while each has a run', () => readSellerStatuses(db))];
}

/** Returns the shortest of several runs (ms), after a first one that does not count. */
async function least(times: number, work: () => Promise<unknown>): Promise<number> {
  await work();
  const took: number[] = [];
  for (let n = 0; n < times; n++) {
    const before = performance.now();
    await work();
    took.push(performance.now() - before);
  }
  return Math.min(...took);
}

const kilobytes = (bytes: number): string => `${(bytes / 1_000).toFixed(1)} kB`;

/** A page, and its path with the query. */
type Page = readonly [what: string, path: string];

/** Every page; those of a seller, run, audit, item or code show the largest one. */
async function pagesOf(client: Client): Promise<Page[]> {
  const { rows } = await client.query<{ run: string; held: string; audit: string; code: string }>(
    `SELECT (SELECT run_id FROM mirror.item_changes WHERE seller_id = 'large' GROUP BY 1
              ORDER BY count(*) DESC LIMIT 1)::text AS run,
            (SELECT max(run_id) FROM mirror.held_items)::text AS held,
            (SELECT max(audit_id) FROM mirror.audits)::text AS audit,
            (SELECT max(code_id) FROM mirror.purchase_codes)::text AS code`,
  );
  const [{ run, held, audit, code } = { run: '', held: '', audit: '', code: '' }] = rows;
  return [
    ['overview', '/'],
    ['overview, the last sellers', `/?from=${SELLERS - 10}`],
    ['a seller', '/sellers/large'],
    ['runs', '/runs'],
    ['runs, failed', '/runs?state=failed'],
    ['runs of a seller', '/runs?seller=large'],
    ['a run', `/runs/${run}`],
    ['a held run', `/runs/${held}`],
    ['changes', '/changes'],
    ['changes of prices', '/changes?class=price'],
    ['changes of a seller', '/changes?seller=small'],
    ['changes of an item', '/changes?item=4711&seller=large'],
    ['changes of a run', `/changes?run=${run}`],
    ['changes since a day', `/changes?since=${lastWeek()}`],
    ['items', '/items'],
    ['items by name', '/items?q=item+4711'],
    ['items by a word that none has', '/items?q=zebra'],
    ['items by price', '/items?sort=price&seller=large'],
    ['items missing', '/items?state=missing'],
    ['items on a later page', '/items?from=5000'],
    ['items as of a day', `/items?as-of=${lastWeek()}`],
    ['an item', '/items/large/4711'],
    ['audits', '/audits'],
    ['a new audit', '/audits/new'],
    ['an audit of 100,000 codes', `/audits/${audit}`],
    ['codes', '/codes'],
    ['a code', `/codes/${code}`],
    ['reports', '/reports'],
    ['system', '/system'],
  ];
}

function lastWeek(): string {
  return new Date(Date.now() - 7 * 86_400_000).toISOString().slice(0, 10);
}

/** Adds what only the dashboard shows: many sellers, a held run, an audit and actions. */
const MORE = [
  `INSERT INTO mirror.sellers (seller_id, marketplace, created_at)
   SELECT 'shop-' || n, 'market.example', now() - interval '60 days'
     FROM generate_series(1, ${SELLERS - 2}) AS n`,
  `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder, listed)
   SELECT 'shop-' || n, k::mirror.run_kind, (CASE WHEN n % 100 = 0 AND d = 0 THEN 'failed' ELSE 'succeeded' END)::mirror.run_state,
          now() - interval '1 day' * d - interval '2 hours', now() - interval '1 day' * d - interval '1 hour', 'bench', 10
     FROM generate_series(60, 0, -1) AS d, unnest('{items,account}'::text[]) AS k,
          generate_series(1, ${SELLERS - 2}) AS n`,
  `INSERT INTO mirror.accounts (seller_id, username, balance, currency, social_links, first_seen_at,
                                changed_at, synced_run_id, extra, raw)
   SELECT 'shop-' || n, 'shop-' || n, 1000, 'USD', '{}', now(), now(), 1, '{}', '{}'
     FROM generate_series(1, ${SELLERS - 2}) AS n`,
  `WITH run AS (
     INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder, listed, problem)
     VALUES ('large', 'items', 'held', now() - interval '1 hour', now(), 'bench', 10, 'held') RETURNING run_id)
   INSERT INTO mirror.held_items (run_id, item_id, seller_id, confirmed)
   SELECT run_id, item_id, 'large', true FROM run, mirror.items
    WHERE seller_id = 'large' AND state = 'live' ORDER BY item_id LIMIT 20000`,
  `INSERT INTO mirror.audits (seller_id, state, source, layout, columns, lines, rejected, codes,
                              reused, valid, invalid, unproven, pending, finished_at)
   SELECT 'large', 'finished', 'list-' || n || '.csv', '{}', '{code}', 100000, 0, 100000, 0, 90000,
          9990, 10, 0, now() FROM generate_series(1, 20) AS n`,
  `INSERT INTO mirror.audit_codes (audit_id, position, seller_id, code_id, verdict, reused)
   SELECT a.audit_id, row_number() OVER (ORDER BY c.code_id) - 1, 'large', c.code_id, c.verdict, false
     FROM (SELECT max(audit_id) AS audit_id FROM mirror.audits) a,
          (SELECT * FROM mirror.purchase_codes WHERE seller_id = 'large' ORDER BY code_id LIMIT 100000) c`,
  `INSERT INTO mirror.actions (who, action, target, outcome, at)
   SELECT 'alice', 'sync now', 'large', 'done', now() FROM generate_series(1, 10000)`,
  'VACUUM (ANALYZE)',
];
