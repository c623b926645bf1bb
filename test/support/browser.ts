import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const PATH = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

/** Whether Chromium is installed. In CI always true, so that its absence fails the tests. */
export const hasBrowser = ((): boolean => {
  if (process.env['CI'] !== undefined && process.env['CI'] !== '') return true;
  try {
    accessSync(PATH, constants.X_OK);
    return true;
  } catch {
    return false;
  }
})();

/** Adds the reason to the title of skipped tests. */
export const browserTitle = (title: string): string =>
  hasBrowser ? title : `${title} (skipped: needs Chromium at ${PATH} or CHROMIUM_PATH)`;

/** Starts Chromium without its background requests. */
export function startBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: PATH,
    args: [
      '--headless',
      ...(process.geteuid?.() === 0 ? ['--no-sandbox'] : []),
      ...['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
      ...['--disable-component-update', '--disable-sync'],
    ],
  });
}

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly impact: string | null;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** Serious and critical faults that axe finds on a page, each with its first element. */
export async function axeFaults(page: Page): Promise<string[]> {
  // `evaluate` is not subject to the page's content security policy.
  await page.evaluate(await readFile(AXE, 'utf8'));
  const { violations } = (await page.evaluate('axe.run()')) as AxeResults;
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => {
      const [first] = nodes;
      return `${id}: ${nodes.length} × ${first?.html} ${first?.failureSummary ?? ''}`;
    });
}

/** How much wider the page is than its window (pixels); 0 without horizontal scrolling. */
export function overhang(page: Page): Promise<number> {
  return page.evaluate(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );
}

/** Tables that scroll sideways by more than a column's padding, each with its surplus (pixels). */
export async function wideTables(page: Page): Promise<string[]> {
  const found = await page.evaluate(`[...document.querySelectorAll('.table')]
    .map((one) => [one.getAttribute('aria-label'), one.scrollWidth - one.clientWidth])`);
  return (found as [string, number][])
    .filter(([, surplus]) => surplus > 24)
    .map(([name, surplus]) => `the table ${name} is ${surplus} pixels too wide`);
}

/** Collects errors and dialogs of all pages in a context, such as a blocked script. */
export function faultsOf(context: BrowserContext): string[] {
  const faults: string[] = [];
  context.on('console', (message) => {
    if (message.type() === 'error') faults.push(message.text());
  });
  context.on('weberror', (error) => faults.push(error.error().message));
  context.on('dialog', (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return faults;
}
