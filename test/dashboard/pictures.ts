import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { readSheet } from 'read-excel-file/node';
import { expect, it } from 'vitest';
import { codesMarket, codesOf, freePath, run, settings } from '../cli/support.js';
import { inline, workbookOf } from '../codes/lists/zip.js';
import { enter } from '../codes/support.js';
import { startBrowser } from '../support/browser.js';
import { useMirror } from '../support/mirror.js';
import { serveProduct } from './served.js';
import { showcase } from './showcase.js';

const FOLDER = fileURLToPath(new URL('../../docs/images/', import.meta.url));
const mirror = useMirror();

it('takes the screenshots for the docs', async () => {
  const { sellers, item, newCodes, sim } = await showcase(mirror());
  const served = await serveProduct(mirror(), sellers, { REQUESTS_PER_MINUTE: '240' });
  const auditId = await enter(mirror(), new URL(sim.url).host, newCodes, {
    source: 'autumn-sale.csv',
  });
  const pages = { overview: '/', item, audit: `/audits/${auditId}`, reports: '/reports' };
  const browser = await startBrowser();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
    const page = await context.newPage();
    await page.goto(await served.link());
    // Wait until the progress bar shows some progress.
    await page
      .locator('.bar [data-live-text]', { hasText: /[2-9]\d of \d/ })
      .waitFor({ timeout: 300_000 });
    await mkdir(FOLDER, { recursive: true });
    for (const [name, path] of Object.entries(pages)) {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await page.goto(served.url + path);
        // Wait for the freshness mark and for progress.
        await page.waitForTimeout(2_500);
        await page.screenshot({ path: `${FOLDER}${name}-${colorScheme}.png` });
      }
    }
  } finally {
    await browser.close();
    await served.stop();
  }
});

it('draws a list in Excel before and after its check', async () => {
  const sim = await codesMarket(mirror());
  const [refunded = '', first = '', second = '', third = ''] = codesOf(sim, 4);
  const mistyped = `${second.slice(0, -4)}0000`;
  const customers = [
    ['Ada Lindqvist', inline('B2', first)],
    ['Ben Okafor', inline('B3', mistyped)],
    ['Cleo Martin', inline('B4', third)],
    ['Dora Weiss', '<c r="B5"><v>4.6123E+31</v></c>'],
    ['Emil Novak', inline('B6', refunded)],
  ].map(([name = '', code], n) => `<row r="${n + 2}">${inline(`A${n + 2}`, name)}${code}</row>`);
  const head = `<row r="1">${inline('A1', 'Customer')}${inline('B1', 'Purchase code')}</row>`;
  const [list, out] = [freePath('xlsx'), freePath('xlsx')];
  await writeFile(list, await workbookOf([head, ...customers].join('')));
  const { stderr } = await run(
    ['codes', 'check', list, '--out', out],
    settings(mirror().databaseUrl, sim.url),
  );
  const [before, after] = [await rowsOf(list), await rowsOf(out)];
  expect(after[0], stderr).toContain('verdict');
  const shown = ['Customer', 'Purchase code', 'verdict', 'reason', 'item_name', 'support'];
  const html = `<style>${SHEET_STYLE}</style>
    ${sheet('customers.xlsx', before, shown)}
    <p>npx seller-mirror codes check customers.xlsx --out result.xlsx</p>
    ${sheet('result.xlsx', after, shown)}`;
  const browser = await startBrowser();
  try {
    const page = await browser.newPage({ viewport: { width: 1420, height: 200 } });
    await page.setContent(html);
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const path = `${FOLDER}checked-list-${colorScheme}.png`;
      await page.screenshot({ path, fullPage: true });
    }
  } finally {
    await browser.close();
  }
});

async function rowsOf(path: string): Promise<string[][]> {
  const rows = await readSheet(await readFile(path));
  return rows.map((cells) =>
    cells.map((cell) => (cell === null ? '' : String(cell).replace(/e\+/, 'E+'))),
  );
}

/** A sheet as HTML, with the letters of its columns. Columns that are not named are hidden, as in Excel. */
function sheet(title: string, rows: readonly string[][], names: readonly string[]): string {
  const columns = (rows[0] ?? []).flatMap((name, n) => (names.includes(name) ? [n] : []));
  const letters = columns.map((n) => `<th>${String.fromCodePoint(65 + n)}</th>`).join('');
  const lines = rows.map((cells, n) => {
    const texts = columns.map((column) => `<td>${cells[column] ?? ''}</td>`).join('');
    return `<tr><th>${n + 1}</th>${texts}</tr>`;
  });
  return `<table><caption>${title}</caption><tr><th></th>${letters}</tr>${lines.join('')}</table>`;
}

const SHEET_STYLE = `
  :root { color-scheme: light dark; --line: light-dark(#d0d5da, #444b53); --head: light-dark(#f1f3f5, #262b31); }
  body { margin: 20px 24px; font: 15px system-ui, sans-serif; background: light-dark(#fff, #16191d); }
  table { border-collapse: collapse; }
  caption { text-align: left; font-weight: 600; padding: 6px 2px; }
  th, td { border: 1px solid var(--line); padding: 5px 10px; text-align: left; white-space: nowrap; }
  th { background: var(--head); font-weight: 400; text-align: center; color: light-dark(#5a6470, #a3adb8); }
  tr:nth-child(2) td { font-weight: 600; }
  p { margin: 14px 0 8px; font-family: monospace; }
  p::before { content: '$ '; color: light-dark(#5a6470, #a3adb8); }`;
