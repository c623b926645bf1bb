import { describe, expect, it } from 'vitest';
import { performMirrorTask } from '../../src/catalogue/mirror-task.js';
import { enter } from '../codes/support.js';
import { KEY, never } from '../support/mirror.js';
import { ensureSeller, pauseSeller } from '../../src/catalogue/sellers-store.js';
import { failAudit } from '../../src/codes/audits-store.js';
import { mirrorSeller, openDashboard, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

describe('the overview', () => {
  it.each([
    ['its items are old', 'items', '1 copy stale, 27 h old'],
    ['only its account is old', 'account', '1 copy current, '],
  ])('takes the age of a copy from its items, as `status` does: %s', async (_, kind, summary) => {
    await mirrorSeller(mirror());
    await mirror().rows(
      `UPDATE mirror.runs SET finished_at = CASE WHEN kind::text = $1
         THEN now() - interval '27 hours' ELSE now() END`,
      [kind],
    );
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain(`<p class="lead">${summary}`);
    expect(text.includes('the copy is stale')).toBe(kind === 'items');
  });

  it('counts copies by the states of `status`', async () => {
    await mirrorSeller(mirror());
    const { db } = mirror();
    for (const name of ['new', 'resting']) await ensureSeller(db, name, 'm');
    await pauseSeller(db, 'resting', 'paused by ada');
    const visitor = await dashboard().login();
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
    expect(await (await dashboard().login()).page('/')).toMatch(/Balance[^]{0,200}\+12\.50/);
  });

  it('syncs the configured sellers before the store knows any', async () => {
    const settings = {
      MARKETPLACE_URL: 'https://market.example',
      MARKETPLACE_API_KEY: KEY,
      SELLER_NAME: 'main',
    };
    const visitor = await (await openDashboard(mirror(), {}, { settings })).login();
    const page = await visitor.page('/');
    expect(page).toContain('No seller was mirrored yet. Press Sync now');
    expect(page).toContain('>Sync now</button>');
    expect((await visitor.post('/sync', { seller: 'nobody' })).status).toBe(404);
    expect((await visitor.post('/sync')).status).toBe(303);
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
  });

  it('of 1,000 sellers stays below 100 kB, and every seller can be found', async () => {
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace)
       SELECT 'shop-' || to_char(n, 'FM0000'), 'market.example' FROM generate_series(1, 1000) n`,
    );
    const visitor = await dashboard().login();
    const first = await visitor.page('/');
    expect(first.length).toBeLessThan(100_000);
    expect(first).toContain('>Next</a>');
    expect(await visitor.page('/?from=980')).toContain('href="/sellers/shop-1000"');
    expect(await visitor.page('/?seller=SHOP-0777')).toContain('href="/sellers/shop-0777"');
  });
});

describe('Needs you', () => {
  it('names a seller without items, since a list does not name the only item of an account', async () => {
    await mirrorSeller(mirror());
    await mirror().rows('DELETE FROM mirror.items');
    await mirror().rows('UPDATE mirror.sellers SET live_items = 0');
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain('main: no items');
    expect(text).toContain('sync item ID');
  });

  it('says how many items a held run lacks, and links to the decision', async () => {
    const { sim, deps } = await mirrorSeller(mirror());
    for (let id = 1_001; id <= 1_004; id++) sim.seller(KEY).catalogue.remove(id);
    const guard = { items: 1, percent: 1 };
    const job = { kind: 'sync', askedAt: new Date(), byHand: true } as const;
    await performMirrorTask({ ...deps, removalGuard: guard }, job, never);
    const visitor = await dashboard().login();
    const [{ id } = { id: '' }] = await mirror().rows<{ id: string }>(
      'SELECT max(run_id)::text AS id FROM mirror.held_items',
    );
    for (const path of ['/', '/sellers/main']) {
      const text = await visitor.page(path);
      expect(text.replaceAll(/<[^>]+>/g, ''), path).toContain('4 of 5 items are no longer listed');
      expect(text, path).toContain(`href="/runs/${id}/decide"`);
    }
    const page = await visitor.page(`/runs/${id}/decide`);
    // The form comes first: on a phone, it would be below thousands of items.
    expect(page.indexOf('type the number of items')).toBeLessThan(page.indexOf('<table'));
    await visitor.post(`/runs/${id}/decide`, { decision: 'rejected' });
    expect(await visitor.page(`/runs/${id}/decide`)).not.toContain('until you decide');
  });

  it('asks for the number of items that an approval removes, not for those it can’t remove', async () => {
    const { sim, deps } = await mirrorSeller(mirror());
    for (let id = 1_001; id <= 1_004; id++) sim.seller(KEY).catalogue.remove(id);
    const guard = { items: 1, percent: 1 };
    const job = { kind: 'sync', askedAt: new Date(), byHand: true } as const;
    await performMirrorTask({ ...deps, removalGuard: guard }, job, never);
    await mirror().rows(
      'UPDATE mirror.held_items SET confirmed = false WHERE item_id IN (1001, 1002)',
    );
    const visitor = await dashboard().login();
    const [{ id } = { id: '' }] = await mirror().rows<{ id: string }>(
      'SELECT max(run_id)::text AS id FROM mirror.held_items',
    );
    const path = `/runs/${id}/decide`;
    expect(await visitor.page(path)).toContain('type the number of items it removes, 2');
    const approve = (items: string): Promise<Response> =>
      visitor.post(path, { decision: 'approved', items });
    expect((await approve('4')).status).toBe(422);
    expect((await approve('2')).status).toBe(303);
    for (const page of ['/runs', `/runs/${id}`]) {
      expect(await visitor.page(page)).toMatch(/<span class="state \w+">approved<\/span>/);
    }
    expect(
      await mirror().rows(
        `SELECT item_id::int FROM mirror.items WHERE state = 'removed' ORDER BY 1`,
      ),
    ).toEqual([{ item_id: 1_003 }, { item_id: 1_004 }]);
  });

  it('is replaced by a first step while no seller was mirrored', async () => {
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain('No copy yet.');
    expect(text).toContain('<code>npx seller-mirror sync</code>');
    expect(text).not.toContain('Nothing needs you');
    expect(text).not.toContain('Last 24 hours');
  });

  it('starts with held runs, before stale copies', async () => {
    const { db } = mirror();
    for (let n = 0; n < 30; n++) await ensureSeller(db, `never-mirrored-${n}`, 'm');
    await ensureSeller(db, 'zoe', 'm');
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
       VALUES ('zoe', 'items', 'held', 'x', now())`,
    );
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain('zoe: a run needs your decision');
    expect(text).toContain('and 19 more, which');
  });

  it('contains failed audits', async () => {
    const auditId = await enter(mirror(), 'm', ['0'.repeat(36)], { source: 'list.csv' });
    await failAudit(mirror().db, auditId, 'the key was refused');
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain(`main: check ${auditId} can’t go on`);
    expect(text).toContain('the key was refused');
  });
});
