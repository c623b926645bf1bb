import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { KEY } from '../support/mirror.js';
import { park, storeSeller } from '../support/states.js';
import { holdRemovals, mirrorSeller, openDashboard, textOf, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

describe('the overview', () => {
  it('takes the age of a copy from its items, and counts copies by the states of `status`', async () => {
    await mirrorSeller(mirror());
    const visitor = await dashboard().login();
    for (const [old, summary] of [
      ['items', '1 copy stale, 27 h old'],
      ['account', '1 copy current, '],
    ] as const) {
      await mirror().rows(
        `UPDATE mirror.runs SET finished_at = CASE WHEN kind::text = $1
           THEN now() - interval '27 hours' ELSE now() END`,
        [old],
      );
      const text = await visitor.page('/');
      expect(text).toContain(`<p class="lead">${summary}`);
      expect(text.includes('the copy is stale')).toBe(old === 'items');
    }
    for (const name of ['new', 'resting']) await storeSeller(mirror(), name, null);
    await park(mirror(), 'resting', 'paused', 'paused by ada');
    expect(await visitor.page('/')).toContain('1 copy current, 1 never mirrored, 1 paused, the');
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
       VALUES ('main', 'items', 'failed', 'x', now())`,
    );
    expect(await visitor.page('/')).toContain('1 copy never mirrored, 1 failing, 1 paused, the');
    expect(await visitor.page('/sellers/main')).toContain('>failing</span>');
  });

  it('compares a balance with the first one of a seller that is younger than a day', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(
      `INSERT INTO mirror.account_versions (seller_id, username, balance, currency, social_links,
         first_seen_at, synced_run_id, valid_from, valid_to, superseded_run_id)
       SELECT seller_id, username, balance - 12.50, currency, social_links, first_seen_at,
              synced_run_id, now() - interval '2 hours', now() - interval '1 hour', synced_run_id
         FROM mirror.accounts`,
    );
    await mirror().rows("UPDATE mirror.accounts SET changed_at = now() - interval '1 hour'");
    expect(textOf(await (await dashboard().login()).page('/'))).toMatch(
      /Your balance rose by 12\.50 USD to 1,234\.50 USD\./,
    );
  });

  it('begins with a first step, syncs configured sellers before the store knows any, and takes lists for the only one', async () => {
    const empty = textOf(await (await dashboard().login()).page('/'));
    expect(empty).toContain('No copy yet.');
    expect(empty).toContain('Set MARKETPLACE_URL and MARKETPLACE_API_KEY');
    expect(empty).not.toMatch(/Nothing needs you|While you slept/);
    const settings = { MARKETPLACE_URL: 'https://market.example', MARKETPLACE_API_KEY: KEY };
    const own = await openDashboard(mirror(), {}, { settings });
    const visitor = await own.login();
    const page = await visitor.page('/');
    expect(page).toContain('No seller was mirrored yet. Press Sync now to make the first copy.');
    expect(page).toContain('>Sync now</button>');
    expect((await visitor.post('/sync', { seller: 'nobody' })).status).toBe(404);
    expect((await visitor.post('/sync')).status).toBe(303);
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
    await mirrorSeller(mirror());
    const mirrored = await visitor.page('/');
    expect(mirrored).toContain('<input type="hidden" name="seller" value="main"/>');
    expect(mirrored).toMatch(/<form class="dropbar" method="post" action="\/audits\/new"/);
    expect(await (await own.login('viewer')).page('/')).not.toContain('dropbar');
  });

  it('of 1,000 sellers stays below 100 kB, and every seller can be found', async () => {
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace)
       SELECT 'shop-' || to_char(n, 'FM0000'), 'market.example' FROM generate_series(1, 1000) n`,
    );
    const visitor = await dashboard().login();
    const first = await visitor.page('/');
    expect(first.length).toBeLessThan(100_000);
    expect(first).toContain('All 1,000 sellers');
    expect(first, 'the most urgent are shown').toContain('and 988 more things');
    expect(await visitor.page('/sellers?from=975')).toContain('href="/sellers/shop-1000"');
    expect(await visitor.page('/sellers?search=SHOP-0777')).toContain('href="/sellers/shop-0777"');
  });
});

it('pages are outdated each minute, since their ages are', async () => {
  onTestFinished(() => void vi.useRealTimers());
  const visitor = await dashboard().login();
  const minute = Math.ceil(Date.now() / 60_000) * 60_000;
  const versionAfter = async (seconds: number): Promise<string | undefined> => {
    vi.useFakeTimers({ toFake: ['Date'], now: minute + seconds * 1_000 });
    return /data-version="([^"]+)"/.exec(await visitor.page('/'))?.[1];
  };
  const version = await versionAfter(0);
  expect(version).toBeDefined();
  expect(await versionAfter(59)).toBe(version);
  expect(await versionAfter(60)).not.toBe(version);
});

describe('While you slept', () => {
  it('tells the last day in three sentences, and leaves out what did not happen', async () => {
    const { sim, sync } = await mirrorSeller(mirror());
    const visitor = await dashboard().login();
    expect(await visitor.page('/')).toContain('Nothing changed.');
    const { catalogue } = sim.seller(KEY);
    catalogue.change(1001, { priceRegularCents: 100 });
    catalogue.change(1002, { priceRegularCents: 90_000 });
    catalogue.remove(1003);
    await sync();
    const text = textOf(await visitor.page('/'));
    expect(text).toMatch(
      /2 items changed, 1 (?:is missing|was removed)\. 1 price was cut, 1 was raised\./,
    );
    expect(text).not.toMatch(/\b0 items|no longer valid|balance rose|balance fell/);
    expect(text).toMatch(/Your copy last 30 nights .*Live items 4/);
  });
});

describe('Needs you', () => {
  it('says how many items are held, and links to the run, where one can keep them', async () => {
    const id = await holdRemovals(mirror());
    const visitor = await dashboard().login();
    for (const path of ['/', '/sellers/main']) {
      const text = await visitor.page(path);
      expect(text.replaceAll(/<[^>]+>/g, ''), path).toContain('4 of 5 items are no longer listed');
      expect(text, path).toContain(`href="/runs/${id}"`);
    }
    const page = await visitor.page(`/runs/${id}`);
    // The form comes first: on a phone, it would be below thousands of items.
    expect(page.indexOf('type the number of items')).toBeLessThan(page.indexOf('<table'));
    const kept = await visitor.post(`/runs/${id}/keep`, {});
    expect([kept.status, kept.headers.get('location')]).toEqual([303, `/runs/${id}?notice=kept`]);
    expect(await visitor.page(`/runs/${id}`)).toContain('They are kept as missing.');
    expect(await visitor.page('/')).toContain('Nothing needs you.');
    expect(await mirror().rows('SELECT action, target FROM mirror.actions')).toContainEqual({
      action: 'keep held items',
      target: `run ${id}`,
    });
  });

  it('asks for the number of items that can be removed, and leads to the run that removed them', async () => {
    const id = await holdRemovals(mirror(), 2);
    const visitor = await dashboard().login();
    const path = `/runs/${id}`;
    expect(await visitor.page(path)).toContain('type the number of items that it removes, 2');
    const accept = (items: string): Promise<Response> =>
      visitor.post(`${path}/accept`, { items, note: 'withdrawn' });
    expect((await accept('4')).status).toBe(422);
    const accepted = await accept('2');
    expect(accepted.status).toBe(303);
    const page = await visitor.page(accepted.headers.get('location') ?? '');
    expect(page).toContain('Removals accepted.');
    expect(page.replaceAll(/<[^>]+>/g, '')).toMatch(
      new RegExp(`Accepted by .*: withdrawn: the removals that run ${id} shows`),
    );
    expect(page).toContain('2 of 4 are not proven to be gone, and stay missing');
    expect(page).toMatch(/removed<\/dt>\s*<dd[^>]*>2</i);
    expect(await visitor.page(path)).toMatch(
      /<a href="\/runs\/\d+">by run \d+, which removed them/,
    );
    expect(
      await mirror().rows(
        `SELECT count(*)::int AS removed FROM mirror.items WHERE state = 'removed'`,
      ),
    ).toEqual([{ removed: 2 }]);
  });
});
