import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { enter } from '../codes/support.js';
import { openMarket, type Market } from '../catalogue/market.js';
import {
  axeFaults,
  browserTitle,
  faultsOf,
  hasBrowser,
  overhang,
  startBrowser,
  wideTables,
} from '../support/browser.js';
import { KEY, useMirror } from '../support/mirror.js';
import { storeSeller } from '../support/states.js';
import { formTokenIn, PASSWORD } from './dashboard.js';
import { serveProduct, type Served } from './served.js';
import { showcase } from './showcase.js';

const mirror = useMirror();
const DESK = { width: 1_280, height: 720 };
const PHONE = { width: 390, height: 844 };
const GROUND = { light: 'rgb(255, 255, 255)', dark: 'rgb(17, 22, 23)' };
/** Each size and each scheme once: layout does not depend on colours, nor colours on the size. */
const LOOKS = [
  [DESK, 'light'],
  [PHONE, 'dark'],
] as const;

let browser: Browser;
let served: Served | null = null;
const contexts: BrowserContext[] = [];

beforeAll(async () => {
  if (hasBrowser) browser = await startBrowser();
});

afterEach(async () => {
  await Promise.all(contexts.splice(0).map((context) => context.close()));
  await served?.stop();
  served = null;
});

afterAll(async () => {
  if (hasBrowser) await browser.close();
});

/** A marketplace with this many items, and the product serving it. */
async function openShop(items: number): Promise<Market & { served: Served }> {
  const market = await openMarket(mirror(), items);
  served = await serveProduct(mirror(), [{ name: 'main', url: market.sim.url, key: KEY }]);
  return { ...market, served };
}

/** Opens a browser window. @returns its page, and a list that collects errors */
async function newPage(
  options: BrowserContextOptions = {},
): Promise<{ page: Page; faults: string[] }> {
  const context = await browser.newContext(options);
  contexts.push(context);
  return { page: await context.newPage(), faults: faultsOf(context) };
}

/** Opens a window and logs an operator in. */
async function operatorPage(served: Served, options?: BrowserContextOptions) {
  const opened = await newPage(options);
  await opened.page.goto(await served.link());
  return opened;
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const heading = (page: Page, name: string) => page.getByRole('heading', { name, exact: true });

describe.skipIf(!hasBrowser)(browserTitle('the dashboard in a browser'), () => {
  it('Sync now shows live progress and the result without a reload', async () => {
    const shop = await openShop(2_500);
    await shop.syncAccount();
    await shop.sync();
    const { page, faults } = await operatorPage(shop.served);
    shop.catalogue.change(1_001, { name: 'Renamed overnight' });
    shop.sim.faults.next('list', { kind: 'slow', chunkBytes: 20_000, pauseMs: 250 });
    await button(page, 'Sync now').click();
    // A reload would lose this.
    await page.evaluate('globalThis.sameDocument = true');
    const bar = page.locator('.bar [data-live-text]').first();
    await bar.waitFor({ timeout: 60_000 });
    const texts = new Set<string>();
    const look = async (): Promise<number> => {
      const text = await bar.textContent({ timeout: 500 }).catch(() => null);
      return text === null ? texts.size : texts.add(text).size;
    };
    await expect.poll(look, { timeout: 60_000, interval: 100 }).toBeGreaterThan(1);
    await heading(page, 'Running').waitFor({ state: 'detached', timeout: 60_000 });
    await expect
      .poll(() => page.locator('main').textContent(), { timeout: 30_000 })
      .toContain('1 item changed');
    expect(await page.evaluate('globalThis.sameDocument')).toBe(true);
    expect(faults).toEqual([]);
  });

  it('accepting held removals requires the number of items; the note survives a wrong one', async () => {
    const shop = await openShop(40);
    await shop.syncAccount();
    await shop.sync();
    for (let id = 1_001; id <= 1_020; id++) shop.catalogue.remove(id);
    const { runId } = await shop.sync();
    const { page } = await operatorPage(shop.served);
    await page.getByRole('link', { name: 'Review 20 items' }).click();
    expect(page.url()).toBe(`${shop.served.url}/runs/${runId}`);
    const field = page.getByLabel('To accept, type the number of items that it removes, 20');
    await page.getByLabel('Note').fill('withdrawn by us');
    await field.fill('19');
    await button(page, 'Accept removals').click();
    expect(await page.textContent('main')).toContain('The number of items does not match');
    await field.fill('20');
    // Enter must not accept: the form stays.
    await field.press('Enter');
    await button(page, 'Accept removals').click();
    await page.getByText('Removals accepted.').waitFor();
    expect(await page.textContent('main')).toContain('Accepted by ada@laptop: withdrawn by us');
    const states = await mirror().rows(
      `SELECT count(*)::int AS removed FROM mirror.items WHERE state = 'removed'`,
    );
    expect(states).toEqual([{ removed: 20 }]);
  });

  it('the keyboard suffices: skip link, visible focus, shortcuts, search and help', async () => {
    const shop = await openShop(5);
    await shop.sync();
    const { page } = await operatorPage(shop.served);
    await page.keyboard.press('Tab');
    const skip = page.getByRole('link', { name: 'Skip to content' });
    expect(await skip.evaluate('document.activeElement.textContent')).toBe('Skip to content');
    expect((await skip.boundingBox())?.y).toBeGreaterThanOrEqual(0);
    expect(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle')).toBe(
      'solid',
    );
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keyboard shortcuts' });
    await help.waitFor();
    await page.keyboard.press('Escape');
    await help.waitFor({ state: 'hidden' });
    // The button closes it too, repeatedly.
    for (let n = 0; n < 2; n++) {
      await page.keyboard.press('?');
      await help.waitFor();
      await button(page, 'Close').press('Enter');
      await help.waitFor({ state: 'hidden' });
    }
    await page.keyboard.press('g');
    await page.keyboard.press('r');
    await page.waitForURL('**/runs');
    await page.keyboard.press('/');
    await page.waitForURL('**/items#search');
    expect(await page.evaluate('document.activeElement.name')).toBe('search');
    // Letters typed into a field are text.
    await page.keyboard.type('gr?');
    expect(await page.getByLabel('Search').inputValue()).toBe('gr?');
    await page.keyboard.press('Enter');
    await page.getByText('No items match the filter.').waitFor();
  });

  it('filters and Sync now work without JavaScript', async () => {
    const shop = await openShop(12);
    await shop.syncAccount();
    await shop.sync();
    shop.catalogue.change(1_003, { name: 'Renamed overnight' });
    const { page } = await operatorPage(shop.served, { javaScriptEnabled: false });
    await button(page, 'Sync now').click();
    await page.getByText('Queued. The job starts').waitFor();
    await expect
      .poll(async () => (await page.reload(), page.locator('main').textContent()), {
        timeout: 60_000,
      })
      .toContain('1 item changed');
    await page.getByRole('link', { name: 'Items', exact: true }).click();
    await page.getByLabel('Search').fill('Renamed');
    await button(page, 'Filter').click();
    expect(await page.locator('tbody tr').count()).toBe(1);
    await page.getByRole('link', { name: 'Renamed overnight' }).click();
    await heading(page, 'Renamed overnight').waitFor();
  });

  it('shows when it was last updated, also after error responses, and when the server is gone', async () => {
    const shop = await openShop(3);
    const { page } = await operatorPage(shop.served);
    const mark = page.getByRole('status').first();
    let refused = 0;
    await page.route('**/events', (route) =>
      refused++ < 2 ? route.fulfill({ status: 503, body: 'not now' }) : route.continue(),
    );
    const connected = page.waitForResponse(
      (reply) => reply.url().endsWith('/events') && reply.status() === 200,
      { timeout: 60_000 },
    );
    await page.reload();
    await connected;
    await page.getByText(/^updated \d+ s ago$/).waitFor();
    await served?.stop();
    served = null;
    await page.getByText(/no response for/).waitFor({ timeout: 60_000 });
    expect(await mark.getAttribute('data-freshness')).toBe('gone');
    const [color, dot] = (await page.evaluate(
      `[undefined, '::before'].map((part) =>
        getComputedStyle(document.querySelector('[data-freshness]'), part))
        .map((style, n) => (n === 0 ? style.color : style.backgroundColor))`,
    )) as string[];
    expect(dot).toBe(color);
    for (const size of [DESK, PHONE]) {
      await page.setViewportSize(size);
      expect(await mark.isVisible()).toBe(true);
      expect(await overhang(page)).toBe(0);
    }
  });

  /** Causes a live update. The content before it gets the attribute `data-old`. */
  async function causeUpdate(page: Page): Promise<void> {
    await page.evaluate(`document.querySelector('main').dataset.old = ''`);
    await mirror().rows(
      `INSERT INTO mirror.actions (who, action, outcome) VALUES ('ada', 'sync now', 'done')`,
    );
  }
  const isUpdated = (page: Page) => page.locator('main[data-old]').waitFor({ state: 'detached' });

  it('a live update keeps focus, scroll, open tables and a notice', async () => {
    const shop = await openShop(5);
    await shop.syncAccount();
    await shop.sync();
    const { page } = await operatorPage(shop.served);
    for (const [path, prepare, isKept] of [
      [
        '/',
        `document.querySelector('main .seller').focus()`,
        `document.activeElement.matches('main .seller')`,
      ],
      [
        '/runs',
        `document.adoptedStyleSheets = [new CSSStyleSheet()];
         document.adoptedStyleSheets[0].replaceSync('.table { width: 90px }');
         document.querySelector('.table').scrollLeft = 70`,
        `document.querySelector('.table').scrollLeft === 70`,
      ],
      [
        '/sellers/main',
        `document.querySelector('details').open = true`,
        `document.querySelector('details').open`,
      ],
      ['/?notice=queued', '', `/Queued/.test(document.querySelector('main').textContent)`],
    ] as const) {
      await page.goto(shop.served.url + path);
      await page.evaluate(prepare);
      await causeUpdate(page);
      await isUpdated(page);
      expect(await page.evaluate(isKept), path).toBe(true);
    }
  });

  it('a live update waits for a field that was typed into, also while the page is fetched', async () => {
    const shop = await openShop(5);
    await shop.sync();
    const { page } = await operatorPage(shop.served);
    await page.goto(`${shop.served.url}/items`);
    const field = page.getByLabel('Search');
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route('**/items', async (route) => {
      await held;
      await route.continue();
    });
    const fetched = page.waitForRequest('**/items');
    await causeUpdate(page);
    const answered = (await fetched).response();
    await field.fill('typed');
    await field.blur();
    release();
    await (await answered)?.finished();
    await page.evaluate('new Promise((done) => setTimeout(done, 200))');
    expect(await field.inputValue()).toBe('typed');
    await field.fill('');
    await field.blur();
    await isUpdated(page);
  });

  it('nine tabs are live, although a browser opens six connections to a host; a login in one shows in the others, and its end leads to the login', async () => {
    const shop = await openShop(3);
    await shop.served.addUser('viewer');
    const { page } = await operatorPage(shop.served);
    const tabs = [page];
    for (let n = 1; n < 9; n++) {
      const tab = await page.context().newPage();
      tabs.push(tab);
      await tab.goto(`${shop.served.url}/runs`);
      await tab.getByText(/^updated \d+ s ago$/).waitFor();
    }
    const other = tabs.pop() ?? page;
    await other.goto(`${shop.served.url}/login`);
    await other.getByLabel('Name').fill('viewer');
    await other.getByLabel('Password').fill(PASSWORD);
    await button(other, 'Log in').click();
    await page.getByText('viewer · viewer').waitFor();
    await mirror().rows('DELETE FROM mirror.sessions');
    const [, open = page] = tabs;
    await button(open, 'Log in').waitFor({ timeout: 60_000 });
    expect(open.url()).toBe(`${shop.served.url}/login?to=%2Fruns`);
  });

  it('a refused upload says why and keeps the form, also before a large list is sent whole; of two dropped files one is taken', async () => {
    const shop = await openShop(3);
    const { page } = await operatorPage(shop.served);
    await page.goto(`${shop.served.url}/audits/new`);
    const message = page.locator('[data-upload-error]');
    await page.evaluate(`(() => {
      const dataTransfer = new DataTransfer();
      for (const name of ['a.csv', 'b.csv'])
        dataTransfer.items.add(new File(['code,note\\n1,2\\n'], name));
      document.dispatchEvent(new DragEvent('drop', { dataTransfer, cancelable: true }));
    })()`);
    expect(await message.textContent()).toContain('Only a.csv was taken');
    await page.evaluate(
      `document.querySelector('.dropbar [name=token]').value = 'of a session before'`,
    );
    await button(page, 'Read list').click();
    await message.getByText(/has expired/).waitFor();
    expect(page.url()).toBe(`${shop.served.url}/audits/new`);
    expect(await page.evaluate(`document.querySelector('[type=file]').files[0].name`)).toBe(
      'a.csv',
    );
    expect(await button(page, 'Read list').isEnabled()).toBe(true);
    await page.reload();
    const path = join(mkdtempSync(join(tmpdir(), 'seller-mirror-list-')), 'a.csv');
    onTestFinished(() => rmSync(dirname(path), { recursive: true }));
    writeFileSync(path, Buffer.alloc(130 * 1024 ** 2, 'x'));
    await page.locator('[type=file]').setInputFiles(path);
    await button(page, 'Read list').click();
    await message.getByText('The list is too large').waitFor();
  });

  it('every page is accessible and needs no horizontal scrolling: desktop and phone, light and dark', async () => {
    const show = await showcase(mirror());
    served = await serveProduct(mirror(), show.sellers, { REQUESTS_PER_MINUTE: '300' });
    await enter(mirror(), new URL(show.sim.url).host, show.newCodes, { source: 'more.csv' });
    const { page, faults } = await operatorPage(served);
    const found: string[] = [];
    const visited = await visitAll(page, served.url, async (path) => {
      for (const [size, colorScheme] of LOOKS) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme });
        const shown = `${path}, ${colorScheme}, ${size.width} pixels wide`;
        const wider = await overhang(page);
        if (wider > 0) found.push(`${shown}, is ${wider} pixels too wide`);
        for (const fault of [...(await axeFaults(page)), ...(await wideTables(page))]) {
          found.push(`${shown}: ${fault}`);
        }
        const ground = await page.evaluate('getComputedStyle(document.body).backgroundColor');
        expect(ground, shown).toBe(GROUND[colorScheme]);
      }
    });
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
    expect(visited).toEqual(
      expect.arrayContaining(['/', '/runs', '/changes', '/items', '/reports']),
    );
  }, 600_000);

  it('a hostile catalogue runs no script and breaks no page', async () => {
    const shop = await openShop(40);
    await shop.syncAccount();
    await shop.sync();
    HOSTILE.forEach((text, n) => {
      shop.catalogue.change(1_001 + n, {
        name: text,
        description: text,
        category: text,
        subCategory: text,
        version: text,
        tags: [text],
        options: [text],
        demoLink: text,
        thumbnail: text,
        screenshots: [text],
      });
      shop.catalogue.change(1_020 + n, { previewImage: `javascript:globalThis.hacked=${n}` });
    });
    shop.catalogue.breakRecord(1_015, JSON.stringify({ id: 1_015, name: { a: HOSTILE } }));
    shop.sim.seller(KEY).account = { ...shop.sim.seller(KEY).account, heading: HOSTILE.join('') };
    await shop.syncAccount();
    const { runId } = await shop.sync();
    await storeSeller(mirror(), 'n'.repeat(63), null);
    await enter(mirror(), new URL(shop.sim.url).host, ['0'.repeat(36)], {
      source: HOSTILE.join('').slice(0, 200),
    });
    const { page, faults } = await operatorPage(shop.served);
    const items = HOSTILE.map((_text, n) => `/items/main/${1_001 + n}`);
    const found: string[] = [];
    await visitAll(
      page,
      shop.served.url,
      async (path) => {
        for (const size of [DESK, PHONE]) {
          await page.setViewportSize(size);
          const wider = await overhang(page);
          if (wider > 0) found.push(`${path} is ${wider} pixels too wide of ${size.width}`);
        }
        const ran = await page.evaluate('String(globalThis.hacked)');
        if (ran !== 'undefined') found.push(`${path} ran ${ran as string}`);
        const links = await page.evaluate(`[...document.querySelectorAll('a[href], form[action]')]
          .map((one) => one.getAttribute('href') ?? one.getAttribute('action'))
          .filter((target) => !/^(?:[/?#]|https?:)/.test(target))`);
        for (const link of links as string[]) found.push(`${path} links to ${link}`);
        const injected = await page.evaluate(
          `document.querySelectorAll('main :is(script, img, iframe, object, style)').length`,
        );
        if (injected !== 0) found.push(`${path} contains injected elements`);
        const text = (await page.textContent('body')) ?? '';
        // oxlint-disable-next-line no-control-regex -- finds control characters
        if (/[\u0000-\u0008\u001b\u202a-\u202e\u2066-\u2069]/.test(text)) {
          found.push(`${path} contains control characters`);
        }
      },
      [...items, `/runs/${runId}`, '/items?search=script', '/changes?class=text'],
    );
    expect(found).toEqual([]);
    expect(faults).toEqual([]);
  });
});

it('an upload gets its response although reading the list takes longer than a silent connection is kept', async () => {
  const shop = await openShop(3);
  await shop.sync();
  const { url } = shop.served;
  const login = await fetch(await shop.served.link(), { redirect: 'manual' });
  const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
  const home = await (await fetch(url, { headers: { cookie } })).text();
  const form = new FormData();
  form.set('token', formTokenIn(home));
  form.set('seller', 'main');
  form.set('list', '0'.repeat(36));
  const busy = mirror().rows('LOCK TABLE mirror.purchase_codes; SELECT pg_sleep(18)');
  const headers = { cookie, origin: url };
  const sent = fetch(`${url}/audits/new`, {
    method: 'POST',
    redirect: 'manual',
    headers,
    body: form,
  });
  const [reply] = await Promise.all([sent, busy]);
  expect(reply.headers.get('location')).toMatch(/^\/audits\/\d+$/);
});

const HOSTILE = [
  '<script>globalThis.hacked = 1</script>',
  '"><img src=x onerror="globalThis.hacked = 2">',
  `'"></title></textarea><svg/onload=globalThis.hacked=3>`,
  'javascript:globalThis.hacked=4',
  'https://market.example/"onmouseover="globalThis.hacked=5',
  '\u202egnp.elif\u202c \u2066abc\u2069 שלום עולם مرحبا',
  '\u001b[31mred\u001b[0m\u001b]0;title\u0007',
  '=HYPERLINK("https://evil.example","click")',
  'W'.repeat(5_000),
  '\u0301'.repeat(400),
  '{{constructor.constructor("globalThis.hacked = 6")()}}',
  '&lt;script&gt;globalThis.hacked = 7&lt;/script&gt;',
];

/** Follows links to one page of each kind: either `/runs/1` or `/runs/2`. @returns the visited paths */
async function visitAll(
  page: Page,
  url: string,
  look: (path: string) => Promise<void>,
  more: readonly string[] = [],
): Promise<string[]> {
  const kindOf = (path: string): string =>
    more.includes(path) ? path : path.replace(/\d+/g, '1').replace(/\?.*/, '');
  const visited = new Map<string, string>();
  const waiting = ['/', ...more];
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    if (visited.has(kindOf(path)) || /\.(?:csv|xlsx|parquet|json|ndjson)\b|\/result/.test(path))
      continue;
    visited.set(kindOf(path), path);
    const reply = await page.goto(url + path);
    if (reply === null || reply.status() !== 200) throw new Error(`${path}: ${reply?.status()}`);
    await look(path);
    const links = await page.evaluate(`[...document.querySelectorAll('a[href^="/"]')]
      .map((link) => link.getAttribute('href'))`);
    waiting.push(...(links as string[]));
  }
  return [...visited.values()];
}
