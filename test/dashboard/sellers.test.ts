import { describe, expect, it } from 'vitest';
import { storeProcess, storeSeller } from '../support/states.js';
import { mirrorSeller, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

const schedule = { name: 'main', kind: 'sync', cron: '0 2 * * *', timeZone: 'UTC' };

describe('the page of a seller', () => {
  it('shows account, items, requests, charts with tables, and the latest runs', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(
      `INSERT INTO mirror.request_counts (seller_id, slot, requests)
       VALUES ('main', date_bin('5 minutes', now(), 'epoch'), 17)`,
    );
    const visitor = await dashboard().login();
    const text = await visitor.page('/sellers/main');
    expect(text).toContain('ada');
    expect(text).toMatch(/Live items<\/dt><dd>5</);
    expect(text).toMatch(/This seller<\/dt><dd>17</);
    for (const chart of [
      'Requests for main in the last hour',
      'Live items of main over time',
      'Balance of main over time',
    ]) {
      expect(text).toContain(`aria-label="${chart}"`);
    }
    expect(text.match(/Show as a table/g)).toHaveLength(3);
    expect(text).toContain('href="/runs/');
    for (const button of ['Sync now', 'Pause']) expect(text).toContain(`>${button}</button>`);
    expect(text).not.toContain('>Resume</button>');
  });

  it('labels large values that differ little by different figures', async () => {
    await mirrorSeller(mirror());
    for (const [hours, balance] of [87_298, 87_300].entries()) {
      await mirror().rows(
        `INSERT INTO mirror.account_versions (seller_id, username, balance, currency, social_links,
           first_seen_at, synced_run_id, valid_from, valid_to, superseded_run_id)
         SELECT seller_id, username, $2, currency, social_links, first_seen_at, synced_run_id,
                now() - (4 - $1) * interval '1 hour', now() - (3 - $1) * interval '1 hour', synced_run_id
           FROM mirror.accounts`,
        [hours, balance],
      );
    }
    await mirror().rows(
      `UPDATE mirror.accounts SET balance = 87299, changed_at = now() - interval '1 hour'`,
    );
    const page = await (await dashboard().login()).page('/sellers/main');
    const [, axis = ''] = /aria-label="Balance of main over time"><svg([^]*?)<svg/.exec(page) ?? [];
    const figures = [...axis.matchAll(/text-anchor="end">([^<]+)</g)].map(([, figure]) => figure);
    expect(figures).toContain('87,299');
    expect(new Set(figures).size).toBe(figures.length);
  });

  it('says what fills each section before the first sync', async () => {
    await storeSeller(mirror(), 'main', null);
    const text = await (await dashboard().login()).page('/sellers/main');
    for (const empty of [
      'was not mirrored yet',
      'No schedule mirrors this seller',
      'Syncs and checks of codes make them',
      'starts with the first sync of the items',
      'starts with the first sync of the account',
    ]) {
      expect(text).toContain(empty);
    }
  });

  it('is not found for an unknown seller', async () => {
    const visitor = await dashboard().login();
    expect((await visitor.get('/sellers/nobody')).status).toBe(404);
    for (const action of ['sync', 'pause', 'resume']) {
      expect((await visitor.post(`/sellers/nobody/${action}`)).status).toBe(404);
    }
  });

  it('shows when schedules of running processes fire next, or why they would not run', async () => {
    await mirrorSeller(mirror());
    const visitor = await dashboard().login();
    await storeProcess(mirror(), ['scheduler'], [schedule, { ...schedule, kind: 'recheck' }]);
    expect(await visitor.page('/sellers/main')).toContain('no worker is running');
    await storeProcess(mirror(), ['worker']);
    const text = await visitor.page('/sellers/main');
    expect(text).toContain('mirror account and items');
    expect(text).toContain('re-check known codes');
    expect(text).not.toContain('no worker is running');
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
    expect(text).toContain(tomorrow);
  });

  it('escapes the account’s name', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(`UPDATE mirror.accounts SET full_name = '<script>alert(1)</script>'`);
    const text = await (await dashboard().login()).page('/sellers/main');
    expect(text).not.toContain('<script>alert');
    expect(text).toContain('&lt;script&gt;');
  });

  it('queues one job and warns when no worker is running', async () => {
    await storeSeller(mirror(), 'main', null);
    const visitor = await dashboard().login();
    const reply = await visitor.post('/sellers/main/sync');
    expect(reply.headers.get('location')).toBe('/sellers/main?notice=no-worker');
    const text = await visitor.page('/sellers/main?notice=no-worker');
    expect(text).toContain('no worker is running: somebody must start the service');
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
  });

  it('has no buttons for viewers', async () => {
    await mirrorSeller(mirror());
    const viewer = await dashboard().login('viewer');
    const text = await viewer.page('/sellers/main');
    for (const button of ['Sync now', 'Pause', 'Resume']) {
      expect(text).not.toContain(`>${button}</button>`);
    }
  });
});

describe('Pause and Resume', () => {
  it('stop and restart the schedules of a seller, and record who did it', async () => {
    const { sim, sync } = await mirrorSeller(mirror());
    await storeProcess(mirror(), ['scheduler', 'worker'], [schedule]);
    const operator = await dashboard().login('operator');
    const requests = sim.log.length;
    const paused = await operator.post('/sellers/main/pause');
    expect(paused.headers.get('location')).toBe('/sellers/main');
    await sync({}, false);
    expect(sim.log.length).toBe(requests);
    const text = await operator.page('/sellers/main');
    expect(text).toContain('Paused by operator');
    expect(text).toContain('not while the seller is paused');
    expect(text).toContain('>Resume</button>');
    expect(text).not.toContain('>Pause</button>');

    const resumed = await operator.post('/sellers/main/resume');
    expect(resumed.headers.get('location')).toBe('/sellers/main?notice=resumed');
    await sync({}, false);
    expect(sim.log.length).toBeGreaterThan(requests);
    const actions =
      'SELECT who, action, target, outcome FROM mirror.actions ORDER BY action_id DESC';
    expect(await mirror().rows(actions)).toMatchObject([
      { who: 'operator', action: 'resume', target: 'main', outcome: 'done' },
      { who: 'operator', action: 'pause', target: 'main', outcome: 'done' },
      { action: 'log in' },
    ]);
  });

  it('keep a paused seller out of Needs you, and do not affect Sync now, which says so', async () => {
    await mirrorSeller(mirror());
    await storeSeller(mirror(), 'second', 'succeeded');
    await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
    const visitor = await dashboard().login();
    const words = 'Sync now also mirrors paused and stopped sellers';
    expect(await visitor.page('/')).toContain('main: the copy is stale');
    expect(await visitor.page('/')).not.toContain(words);
    await visitor.post('/sellers/main/pause');
    const text = await visitor.page('/');
    expect(text).not.toContain('main: the copy is stale');
    expect(text).toContain('1 paused');
    expect(text).toContain(words);
    await visitor.post('/sync');
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 2 } });
  });

  it('start a stopped seller again, whose page shows reason and remedy until then', async () => {
    const { sim, sync } = await mirrorSeller(mirror());
    sim.faults.always('any', { kind: 'key-refused' });
    await sync({}, false);
    const visitor = await dashboard().login();
    const text = await visitor.page('/sellers/main');
    expect(text).toContain('refused the API key');
    expect(text).toContain('You can correct the key in the settings, then press Sync now.');
    await visitor.post('/sellers/main/resume');
    expect(await mirror().rows('SELECT parked_at FROM mirror.sellers')).toEqual([
      { parked_at: null },
    ]);
  });
});
