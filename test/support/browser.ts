import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const PATH = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium';

/** Whether there is a browser. In CI there must be: there a missing one is a failure. */
export const hasBrowser = ((): boolean => {
  if (process.env['CI'] !== undefined && process.env['CI'] !== '') return true;
  try {
    accessSync(PATH, constants.X_OK);
    return true;
  } catch {
    return false;
  }
})();

/** A title that says why its tests are skipped, when they are. */
export const browserTitle = (title: string): string =>
  hasBrowser ? title : `${title} (skipped: needs Chromium at ${PATH} or CHROMIUM_PATH)`;

/** Starts Chromium, which asks nobody but the pages that it is sent to. */
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

/** What axe finds on a page that keeps people out: serious and critical faults, each with its first element. */
export async function axeFaults(page: Page): Promise<string[]> {
  // The page's policy lets no script in but its own; this one goes in past it.
  await page.evaluate(await readFile(AXE, 'utf8'));
  const { violations } = (await page.evaluate('axe.run()')) as AxeResults;
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => {
      const [first] = nodes;
      return `${id}: ${nodes.length} × ${first?.html} ${first?.failureSummary ?? ''}`;
    });
}

/** How far a page is wider than its window, in pixels; 0 when nobody has to scroll sideways. */
export function overhang(page: Page): Promise<number> {
  return page.evaluate(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );
}

/** Hears of everything that went wrong in the pages of a context, such as a refused script. */
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
