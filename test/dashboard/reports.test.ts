import { parquetReadObjects } from 'hyparquet';
import { Client } from 'pg';
import { readSheet } from 'read-excel-file/node';
import { expect, it } from 'vitest';
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

/** The text of the page of reports. */
const shown = async (query: string): Promise<string> =>
  textOf(await (await dashboard().login()).page(`/reports?${query}`));

it('the page of reports says what fills each empty report, and shows changes within seconds despite its cache', async () => {
  const page = await shown('period=all');
  expect(page).toContain('No purchase is known yet');
  expect(page).toContain('No price changed in the last 90 days');
  expect(page).toContain('No items were mirrored yet');
  await sellItems();
  await expect
    .poll(() => shown('period=all'), { timeout: 30_000, interval: 300 })
    .toContain('30.50 USD');
});

it('the page of reports keeps currencies, sellers, raised and cut prices apart, and shows months without purchases', async () => {
  await sellItems();
  await storeSeller(mirror(), 'other', null);
  const visitor = await dashboard().login();
  const html = await visitor.page('/reports?period=all&seller=main');
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
  expect(page).toMatch(/1 raised 0 cut|0 raised 1 cut/);
  expect(html).toMatch(/<title>\d+ \w+: raised \d, cut \d<\/title><rect class="bar-(?:full|cut)"/);
  expect(await shown('period=all&seller=other')).toContain('No purchase is known yet');
  await mirror().rows(`UPDATE mirror.purchase_codes SET currency = 'USD'`);
  await expect
    .poll(() => visitor.page('/reports?period=all'), { timeout: 30_000, interval: 300 })
    .toContain('<title>Sept: 0.00 USD</title>');
});

it('a report counts a period, and compares its months with a year before', async () => {
  await sellItems();
  const codes = await mirror().rows<{ id: string }>(
    'SELECT code_id::text AS id FROM mirror.purchase_codes ORDER BY code_id',
  );
  for (const [n, monthsAgo] of [0, 12, 30].entries()) {
    await mirror().rows(
      `UPDATE mirror.purchase_codes SET currency = 'USD', price = $2,
              purchased_at = date_trunc('month', now(), 'UTC') - $3 * interval '1 month' WHERE code_id = $1`,
      [codes[n]?.id, [15, 10, 99][n], monthsAgo],
    );
  }
  const lately = await shown('period=12');
  expect(lately).toMatch(/15\.00 USD 1 purchase, /);
  expect(lately).toContain('+50.0 %');
  expect(lately, 'the item of the period').toMatch(/the first 12 .* 1 15\.00 USD/);
  expect(await shown('period=all')).toMatch(/124\.00 USD 3 purchases, /);
  const visitor = await dashboard().login();
  const file = await visitor.get('/reports/revenue-by-month.csv?period=12');
  expect((await file.text()).trimEnd().split('\r\n')).toHaveLength(2);
});

it('the page of reports responds while the first figures are still being computed', async () => {
  const visitor = await dashboard().login();
  const client = new Client(mirror().databaseUrl);
  await client.connect();
  await client.query('BEGIN; LOCK TABLE mirror.purchase_codes');
  const reply = await visitor.get('/reports');
  await client.end();
  expect(reply.headers.get('refresh')).toBe('2');
  expect(await reply.text()).toContain('Computing the figures');
  await until(async () => (await shown('period=all')).includes('No purchase is known yet'));
});

it('a download equals the report’s SQL, with exact amounts and dates in each format', async () => {
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
  const bytesOf = async (format: string): Promise<Buffer> => {
    const pattern = `href="([^"]+)" aria-label="${format}[^"]*: Revenue by month"`;
    const [, path = ''] = new RegExp(pattern).exec(page) ?? [];
    return Buffer.from(await (await visitor.get(unescaped(path))).arrayBuffer());
  };
  const [, row = []] = await readSheet(await bytesOf('Excel'));
  expect(row).toEqual([new Date('2026-08-01'), 'USD', 2, 0, 30.5]);
  expect((await bytesOf('CSV, decimal comma')).toString().split('\r\n').slice(0, 2)).toEqual([
    '\uFEFFmonth;currency;purchases;without_price;revenue',
    '2026-08-01;USD;2;0;30,50',
  ]);
  const { buffer, byteOffset, length } = await bytesOf('Parquet');
  const file = buffer.slice(byteOffset, byteOffset + length) as ArrayBuffer;
  expect(await parquetReadObjects({ file })).toMatchObject([
    { month: new Date('2026-08-01'), currency: 'USD', purchases: 2n, revenue: 30.5 },
    { month: new Date('2026-10-01'), currency: 'EUR', purchases: 1n, revenue: 40 },
  ]);
});

it('a download that nobody reads does not count as a parallel one, and its SQL quotes the seller’s name', async () => {
  const visitor = await dashboard().login();
  const path = '/reports/revenue-by-month.csv';
  for (let n = 0; n < 5; n++) expect((await visitor.get(path)).status).toBe(200);
  const name = `o'; DROP TABLE mirror.items; --\\`;
  await storeSeller(mirror(), name, null);
  const size = `/reports/catalogue-size.csv?seller=${encodeURIComponent(name)}`;
  expect(await (await visitor.get(size)).text()).toBe('day,live,missing,added,removed,changed\r\n');
  expect(await mirror().rows('SELECT FROM mirror.items')).toEqual([]);
});
