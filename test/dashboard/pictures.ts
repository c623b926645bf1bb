import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { it } from 'vitest';
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
    await page.getByText(/^sweep [2-9]\d of \d+/).waitFor({ timeout: 300_000 });
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
