import { parquetReadObjects } from 'hyparquet';
import { Client } from 'pg';
import { readSheet } from 'read-excel-file/node';
import { describe, expect, it } from 'vitest';
import { seededPurchases } from '../../src/simulator/index.js';
import { auditDeps, enter, workThrough } from '../codes/support.js';
import { openMarket } from '../catalogue/market.js';
import { KEY } from '../support/mirror.js';
import { until } from '../support/until.js';
import { storeSeller } from '../support/states.js';
import { textOf, unescaped, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Sells item 1001 in two currencies, audits the codes, and changes a price. */
async function sellItems(): Promise<void> {
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

describe('/reports', () => {
  it('says what fills each empty report', async () => {
    const visitor = await dashboard().login();
    const page = textOf(await visitor.page('/reports?period=all'));
    expect(page).toContain('No purchase is known yet');
    expect(page).toContain('No price changed in the last 90 days');
    expect(page).toContain('No items were mirrored yet');
  });

  it('keeps currencies apart: each has its own bars, rows and top items', async () => {
    await sellItems();
    const visitor = await dashboard().login();
    const html = await visitor.page('/reports?period=all');
    expect(html).toContain('aria-label="Revenue by month in USD"');
    expect(html).toContain('aria-label="Revenue by month in EUR"');
    const page = textOf(html);
    expect(page).toMatch(
      /30\.50 USD 2 purchases, Aug 2026 to Aug 2026 .*Aug 2026 2 30\.50 .*Total 2 30\.50/,
    );
    expect(page).toMatch(
      /40\.00 EUR 1 purchase, Oct 2026 to Oct 2026 .*Oct 2026 1 40\.00 .*Total 1 40\.00/,
    );
    expect(page).not.toContain('70.50');
  });

  it('counts a period, and compares its months with a year before', async () => {
    await sellItems();
    const visitor = await dashboard().login();
    const day = (monthsAgo: number): string => {
      const now = new Date();
      return new Date(
        Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo, 1),
      ).toISOString();
    };
    const codes = await mirror().rows<{ id: string }>(
      'SELECT code_id::text AS id FROM mirror.purchase_codes ORDER BY code_id',
    );
    for (const [n, monthsAgo] of [0, 12, 30].entries()) {
      await mirror().rows(
        `UPDATE mirror.purchase_codes SET purchased_at = $2, currency = 'USD', price = $3 WHERE code_id = $1`,
        [codes[n]?.id, day(monthsAgo), [15, 10, 99][n]],
      );
    }
    const period = async (name: string): Promise<string> =>
      textOf(await visitor.page(`/reports?period=${name}`));
    const lately = await period('12');
    expect(lately).toMatch(/15\.00 USD 1 purchase, /);
    expect(lately).toContain('+50.0 %');
    expect(lately, 'the item of the period').toMatch(/the first 12 .* 1 15\.00 USD/);
    expect(await period('all')).toMatch(/124\.00 USD 3 purchases, /);
    const file = await visitor.get('/reports/revenue-by-month.csv?period=12');
    expect((await file.text()).trimEnd().split('\r\n')).toHaveLength(2);
  });

  it('shows raised and cut prices in two colours, up and down from zero', async () => {
    await sellItems();
    const visitor = await dashboard().login();
    const page = await visitor.page('/reports');
    expect(textOf(page)).toMatch(/1 raised 0 cut|0 raised 1 cut/);
    expect(page).toMatch(
      /<title>\d+ \w+: raised \d, cut \d<\/title><rect class="bar-(?:full|cut)"/,
    );
  });

  it('shows a month without purchases as a gap', async () => {
    await sellItems();
    const visitor = await dashboard().login();
    await mirror().rows(`UPDATE mirror.purchase_codes SET currency = 'USD'`);
    expect(await visitor.page('/reports?period=all')).toContain('<title>Sept: 0.00 USD</title>');
  });

  it('can be filtered by seller; an unknown seller gets 404', async () => {
    await sellItems();
    await storeSeller(mirror(), 'other', null);
    const visitor = await dashboard().login();
    expect(textOf(await visitor.page('/reports?period=all&seller=main'))).toContain('30.50 USD');
    expect(textOf(await visitor.page('/reports?period=all&seller=other'))).toContain(
      'No purchase is known yet',
    );
    expect((await visitor.get('/reports?seller=nobody')).status).toBe(404);
    expect((await visitor.get('/reports/price-moves.csv?seller=nobody')).status).toBe(404);
  });

  it('responds while the first figures are still being computed', async () => {
    const visitor = await dashboard().login();
    const client = new Client(mirror().databaseUrl);
    await client.connect();
    await client.query('BEGIN; LOCK TABLE mirror.purchase_codes');
    const reply = await visitor.get('/reports');
    await client.end();
    expect(reply.headers.get('refresh')).toBe('2');
    expect(await reply.text()).toContain('Computing the figures');
    await until(async () =>
      (await visitor.page('/reports?period=all')).includes('No purchase is known yet'),
    );
  });

  it('shows changes within seconds, despite its cache', async () => {
    const visitor = await dashboard().login();
    await visitor.page('/reports?period=all');
    await sellItems();
    await expect
      .poll(async () => textOf(await visitor.page('/reports?period=all')), {
        timeout: 30_000,
        interval: 300,
      })
      .toContain('30.50 USD');
  });
});

describe('a download', () => {
  it('as CSV equals the result of the report’s SQL', async () => {
    await sellItems();
    const visitor = await dashboard().login();
    const page = await visitor.page('/reports?period=all&seller=main');
    const section = /href="(\/reports\/([\w-]+)\.csv\?[^"]*)"[^]*?<pre[^>]*>([^<]+)</g;
    const reports = [...page.matchAll(section)];
    expect(reports).toHaveLength(5);
    for (const [, link = '', name = '', sql = ''] of reports) {
      const reply = await visitor.get(unescaped(link));
      expect(reply.headers.get('content-disposition')).toBe(`attachment; filename="${name}.csv"`);
      const lines = (await reply.text()).trimEnd().split('\r\n');
      const rows = await mirror().rows(unescaped(sql));
      expect(lines, name).toHaveLength(rows.length + 1);
      expect(lines[0]).toBe(Object.keys(rows[0] ?? {}).join(','));
    }
  });

  it('as Parquet has exact amounts, and months as dates', async () => {
    await sellItems();
    const visitor = await dashboard().login();
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

  it('as a workbook has amounts as numbers; CSV can have decimal commas', async () => {
    await sellItems();
    const visitor = await dashboard().login();
    const page = await visitor.page('/reports?period=all&seller=main');
    for (const name of ['Excel', 'CSV, decimal comma']) {
      const [, path = ''] =
        new RegExp(`href="([^"]+)" aria-label="${name}[^"]*: Revenue by month"`).exec(page) ?? [];
      const reply = await visitor.get(unescaped(path));
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

  it('that nobody reads does not count as a parallel download', async () => {
    const visitor = await dashboard().login();
    const path = '/reports/revenue-by-month.csv';
    for (let n = 0; n < 5; n++) expect((await visitor.get(path)).status).toBe(200);
  });

  it.each(['/reports/items.csv', '/reports/price-moves.xls', '/reports/price-moves'])(
    'of an unknown report or format is not found: %s',
    async (path) => {
      const visitor = await dashboard().login();
      expect((await visitor.get(path)).status).toBe(404);
    },
  );

  it('quotes the seller’s name in its SQL', async () => {
    const name = `o'; DROP TABLE mirror.items; --\\`;
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ($1, 'm.example')`,
      [name],
    );
    const visitor = await dashboard().login();
    const path = `/reports/catalogue-size.csv?seller=${encodeURIComponent(name)}`;
    expect(await (await visitor.get(path)).text()).toBe(
      'day,live,missing,added,removed,changed\r\n',
    );
    expect((await mirror().rows('SELECT count(*) FROM mirror.items'))[0]).toEqual({ count: '0' });
  });
});
