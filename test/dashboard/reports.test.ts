import { parquetReadObjects } from 'hyparquet';
import { Client } from 'pg';
import { readSheet } from 'read-excel-file/node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { REPORTS, reportSql } from '../../src/store/reports.js';
import { seededPurchases } from '../../src/simulator/index.js';
import { auditDeps, enter, workThrough } from '../jobs/codes/support.js';
import { openMarket } from '../jobs/market.js';
import { until } from '../queue/support.js';
import { KEY, useMirror } from '../support/mirror.js';
import { openDashboard, type TestDashboard } from './dashboard.js';

const mirror = useMirror();
let dashboard: TestDashboard;

beforeEach(async () => {
  dashboard = await openDashboard(mirror());
});

afterEach(async () => {
  await dashboard.close();
});

/** Purchases of item 1001 in two currencies, an audit that found them, and a price that moved. */
async function sold(): Promise<void> {
  const market = await openMarket(mirror(), 30);
  const seller = market.sim.seller(KEY);
  seller.purchases = seededPurchases({ seed: 1, count: 0 });
  const sales = [
    ['2026-08-03T10:00:00Z', 'USD', 1_000],
    ['2026-08-09T10:00:00Z', 'USD', 2_050],
    ['2026-10-01T10:00:00Z', 'EUR', 4_000],
  ] as const;
  const codes = sales.map(([date, currency, priceCents], n) => {
    const code = `${n}`.repeat(36);
    seller.purchases.add({ code, itemId: 1_001, date, currency, priceCents });
    return code;
  });
  await market.syncAccount();
  await market.sync();
  market.catalogue.change(1_002, { priceRegularCents: 9_900 });
  await market.sync();
  const auditId = await enter(mirror(), new URL(market.sim.url).host, codes);
  await workThrough(auditDeps(mirror(), market.deps.marketplace), [auditId]);
}

const text = (html: string): string => html.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');

describe('/reports', () => {
  it('says of each report what fills it while there is nothing', async () => {
    const visitor = await dashboard.login();
    const page = text(await visitor.page('/reports'));
    expect(page).toContain('No purchase is known yet');
    expect(page).toContain('No price changed in the last 90 days');
    expect(page).toContain('No items were mirrored yet');
  });

  it('adds no currency to another: each has its own bars, rows and best items', async () => {
    await sold();
    const visitor = await dashboard.login();
    const html = await visitor.page('/reports');
    expect(html).toContain('aria-label="Revenue by month in USD"');
    expect(html).toContain('aria-label="Revenue by month in EUR"');
    const page = text(html);
    expect(page).toContain('Aug 2026 2 30.50 USD');
    expect(page).toContain('Oct 2026 1 40.00 EUR');
    expect(page).not.toContain('70.50');
  });

  it('shows a month without purchases as an empty place between its neighbours', async () => {
    await sold();
    const visitor = await dashboard.login();
    await mirror().rows(`UPDATE mirror.purchase_codes SET currency = 'USD'`);
    expect(await visitor.page('/reports')).toContain('<title>Sept 2026: 0.00 USD</title>');
  });

  it('is of one seller where one is chosen, and knows who there is', async () => {
    await sold();
    await mirror().store.sellers.ensure('other', 'other.example');
    const visitor = await dashboard.login();
    expect(text(await visitor.page('/reports?seller=main'))).toContain('30.50 USD');
    expect(text(await visitor.page('/reports?seller=other'))).toContain('No purchase is known yet');
    expect((await visitor.get('/reports?seller=nobody')).status).toBe(404);
    expect((await visitor.get('/reports/price-moves.csv?seller=nobody')).status).toBe(404);
  });

  it('answers while its first figures take long: on a silent connection no answer would arrive', async () => {
    const visitor = await dashboard.login();
    const client = new Client(mirror().databaseUrl);
    await client.connect();
    await client.query('BEGIN; LOCK TABLE mirror.purchase_codes');
    const reply = await visitor.get('/reports');
    await client.end();
    expect(reply.headers.get('refresh')).toBe('2');
    expect(await reply.text()).toContain('Computing the figures');
    await until(async () => (await visitor.page('/reports')).includes('No purchase is known yet'));
  });

  it('shows what changed within seconds, though it keeps its figures', async () => {
    const visitor = await dashboard.login();
    await visitor.page('/reports');
    await sold();
    await expect
      .poll(async () => text(await visitor.page('/reports')), { timeout: 30_000, interval: 300 })
      .toContain('30.50 USD');
  });
});

describe('a download', () => {
  it('as CSV is what the SQL of the report gives', async () => {
    await sold();
    const visitor = await dashboard.login();
    for (const report of REPORTS) {
      const reply = await visitor.get(`/reports/${report}.csv?seller=main`);
      expect(reply.headers.get('content-disposition')).toBe(`attachment; filename="${report}.csv"`);
      const lines = (await reply.text()).trimEnd().split('\r\n');
      const rows = await mirror().rows(reportSql(report, 'main'));
      expect(lines, report).toHaveLength(rows.length + 1);
      expect(lines[0]).toBe(Object.keys(rows[0] ?? {}).join(','));
    }
  });

  it('as Parquet has amounts with all their digits, and months as dates', async () => {
    await sold();
    const visitor = await dashboard.login();
    const reply = await visitor.get('/reports/revenue-by-month.parquet');
    const rows = await parquetReadObjects({ file: await reply.arrayBuffer() });
    expect(rows).toEqual([
      {
        month: new Date('2026-08-01'),
        currency: 'USD',
        purchases: 2n,
        without_price: 0n,
        revenue: 30.5,
      },
      {
        month: new Date('2026-10-01'),
        currency: 'EUR',
        purchases: 1n,
        without_price: 0n,
        revenue: 40,
      },
    ]);
  });

  it('as a workbook has amounts as numbers; with decimal commas it is CSV for an Excel that has them', async () => {
    await sold();
    const visitor = await dashboard.login();
    const page = await visitor.page('/reports?seller=main');
    for (const name of ['Excel', 'CSV 0,5, with decimal commas']) {
      const [, path = ''] =
        new RegExp(`href="([^"]+)" aria-label="${name}: Revenue by month"`).exec(page) ?? [];
      const reply = await visitor.get(path.replaceAll('&amp;', '&'));
      if (name === 'Excel') {
        const [, row = []] = await readSheet(Buffer.from(await reply.arrayBuffer()));
        expect(row).toEqual([new Date('2026-08-01'), 'USD', 2, 0, 30.5]);
      } else {
        const bytes = Buffer.from(await reply.arrayBuffer());
        expect(bytes.toString('utf8').split('\r\n').slice(0, 2)).toEqual([
          '\uFEFFmonth;currency;purchases;without_price;revenue',
          '2026-08-01;USD;2;0;30,50',
        ]);
      }
    }
  });

  it('that nobody reads, as after HEAD, takes no place among the few that there are', async () => {
    const visitor = await dashboard.login();
    const path = '/reports/revenue-by-month.csv';
    for (let n = 0; n < 5; n++) expect((await visitor.get(path)).status).toBe(200);
  });

  it.each(['/reports/items.csv', '/reports/price-moves.xls', '/reports/price-moves'])(
    'of what is no report is none: %s',
    async (path) => {
      const visitor = await dashboard.login();
      expect((await visitor.get(path)).status).toBe(404);
    },
  );

  it('a seller’s name is a text of the statement, whatever is in it', async () => {
    const name = `o'; DROP TABLE mirror.items; --\\`;
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, 'm.example')`,
      [name],
    );
    const visitor = await dashboard.login();
    const path = `/reports/catalogue-size.csv?seller=${encodeURIComponent(name)}`;
    expect(await (await visitor.get(path)).text()).toBe(
      'day,live,missing,added,removed,changed\r\n',
    );
    expect((await mirror().rows('SELECT count(*) FROM mirror.items'))[0]).toEqual({ count: '0' });
  });
});
