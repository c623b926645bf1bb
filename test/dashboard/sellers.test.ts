import { describe, expect, it } from 'vitest';
import { storeCheck, storeProcess, storeSeller } from '../support/states.js';
import { mirrorSeller, textOf, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

const schedule = { name: 'main', kind: 'sync', cron: '0 2 * * *', timeZone: 'UTC' };

describe('the page of a seller', () => {
  it('shows copy, requests, charts with tables, and the latest runs; a viewer has no buttons', async () => {
    await mirrorSeller(mirror());
    await mirror().rows(
      `INSERT INTO mirror.request_counts (seller_id, slot, requests)
       VALUES ('main', date_bin('5 minutes', now(), 'epoch'), 17)`,
    );
    const page = await (await dashboard().login()).page('/sellers/main');
    expect(textOf(page)).toMatch(/Live 5 Balance/);
    for (const chart of ['Requests in the last hour', 'Items over time', 'Balance over time']) {
      expect(page).toContain(`aria-label="${chart}"`);
    }
    expect(page.match(/Show as a table/g)).toHaveLength(3);
    expect(textOf(page)).toMatch(/\d\d:\d\d 17 17/);
    expect(page).toContain('href="/runs/');
    // What can't be undone stands last, folded.
    expect(page.lastIndexOf('<table')).toBeLessThan(page.indexOf('<summary>Remove</summary>'));
    const viewed = await (await dashboard().login('viewer')).page('/sellers/main');
    for (const button of ['Sync now', 'Pause']) {
      expect(page).toContain(`>${button}</button>`);
      expect(viewed).not.toContain(`>${button}</button>`);
    }
    expect(page).not.toContain('>Resume</button>');
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
    const [, axis = ''] = /aria-label="Balance over time"><svg([^]*?)<svg/.exec(page) ?? [];
    const figures = [...axis.matchAll(/text-anchor="end">([^<]+)</g)].map(([, figure]) => figure);
    expect(figures).toContain('87,299');
    expect(new Set(figures).size).toBe(figures.length);
  });

  it('says what fills each section before the first sync, which it queues; an unknown seller has no page', async () => {
    await storeSeller(mirror(), 'main', null);
    const visitor = await dashboard().login();
    const page = await visitor.page('/sellers/main');
    for (const empty of [
      'No schedule mirrors this seller',
      'No requests in the last hour.',
      'starts with the first sync of the items',
      'starts with the first sync of the account',
    ]) {
      expect(page).toContain(empty);
    }
    const synced = await visitor.post('/sellers/main/sync');
    const queued = await visitor.page(synced.headers.get('location') ?? '');
    expect(queued).toContain('no worker is running: somebody must start the service');
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
    expect((await visitor.get('/sellers/nobody')).status).toBe(404);
    for (const action of ['sync', 'pause', 'resume', 'remove']) {
      expect((await visitor.post(`/sellers/nobody/${action}`)).status).toBe(404);
    }
  });

  it('shows when schedules of running processes fire next, or why they would not run', async () => {
    await mirrorSeller(mirror());
    const visitor = await dashboard().login();
    await storeProcess(mirror(), ['scheduler'], [schedule, { ...schedule, kind: 'recheck' }]);
    expect(await visitor.page('/sellers/main')).toContain('no worker is running');
    await storeProcess(mirror(), ['worker']);
    const text = textOf(await visitor.page('/sellers/main'));
    expect(text).toMatch(/mirror account and items 0 2 \* \* \* UTC \w{3} \d+ \w+ 02:00/);
    expect(text).toContain('re-check known codes');
    expect(text).not.toContain('no worker is running');
  });

  it('is removed by whoever types its name, but not while its check is running', async () => {
    await mirrorSeller(mirror());
    await storeCheck(mirror(), 'main', 'running');
    const visitor = await dashboard().login();
    const remove = (name: string) => visitor.post('/sellers/main/remove', { name });
    expect((await remove('mian')).status).toBe(422);
    expect(textOf(await (await remove('main')).text())).toContain(
      'is running Wait, or press Cancel on the page of the check. ',
    );
    await mirror().rows(`UPDATE mirror.audits SET state = 'cancelled'`);
    expect((await remove('main')).headers.get('location')).toBe('/?notice=seller-removed');
    expect((await visitor.get('/sellers/main')).status).toBe(404);
  });
});

it('the page of a run that failed says what one can do', async () => {
  const run = await storeSeller(mirror(), 'main', 'failed');
  const visitor = await dashboard().login();
  for (const [code, words] of [
    ['refused', 'You can correct the API key in the settings, then press Run again.'],
    ['unavailable', 'You can press Run again to try again; the copy is as it was before.'],
    ['unreadable', 'You can press Run again to try again; the copy is as it was before.'],
    ['account-twice', 'You can use one name for the account: take one of the two sellers'],
  ]) {
    await mirror().rows('UPDATE mirror.runs SET problem_code = $1', [code]);
    const text = textOf(await visitor.page(`/runs/${run}`));
    expect(text).toContain(`The marketplace failed with HTTP 500. ${words}`);
  }
});

it('Pause and Resume stop and restart the schedules of a seller, and record who did it; Sync now mirrors it all the same', async () => {
  const { sim, sync } = await mirrorSeller(mirror());
  await storeSeller(mirror(), 'second', 'succeeded');
  await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
  await storeProcess(mirror(), ['scheduler', 'worker'], [schedule]);
  const operator = await dashboard().login('operator');
  const words = 'Sync now also mirrors paused and stopped sellers';
  const before = await operator.page('/');
  expect(before).toContain('main: the copy is stale');
  expect(before).not.toContain(words);
  const requests = sim.log.length;
  await operator.post('/sellers/main/pause');
  await sync({}, false);
  expect(sim.log.length).toBe(requests);
  const page = await operator.page('/sellers/main');
  expect(page).toContain('Paused by operator; schedules skip this seller');
  expect(page).toContain('not while the seller is paused');
  expect(page).toContain('>Resume</button>');
  expect(page).not.toContain('>Pause</button>');
  const overview = await operator.page('/');
  expect(overview, 'needs nobody').not.toContain('main: the copy is stale');
  expect(overview).toContain('1 paused');
  expect(overview).toContain(words);
  const resumed = await operator.post('/sellers/main/resume');
  expect(resumed.headers.get('location')).toBe('/sellers/main?notice=resumed');
  await sync({}, false);
  expect(sim.log.length).toBeGreaterThan(requests);
  const actions = 'SELECT who, action, target FROM mirror.actions ORDER BY action_id DESC LIMIT 2';
  expect(await mirror().rows(actions)).toEqual([
    { who: 'operator', action: 'resume', target: 'seller main' },
    { who: 'operator', action: 'pause', target: 'seller main' },
  ]);
  // A seller that was stopped shows why until it is resumed.
  sim.faults.always('any', { kind: 'key-refused' });
  await sync({}, false);
  const stopped = textOf(await operator.page('/sellers/main'));
  expect(stopped).toContain('refused the API key');
  expect(stopped).toContain('You can correct the API key in the settings, then press Sync now.');
  await operator.post('/sync');
  expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 2 } });
  await operator.post('/sellers/main/resume');
  const parked = `SELECT parked_at FROM mirror.sellers WHERE seller_id = 'main'`;
  expect(await mirror().rows(parked)).toEqual([{ parked_at: null }]);
});
