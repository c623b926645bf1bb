import { parquetReadObjects } from 'hyparquet';
import { readSheet } from 'read-excel-file/node';
import { describe, expect, it } from 'vitest';
import { StepChart } from '../../src/dashboard/charts.js';
import { printable } from '../../src/dashboard/format.js';
import { performMirrorTask } from '../../src/jobs/mirror-task.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { enter } from '../jobs/codes/support.js';
import { KEY, never } from '../support/mirror.js';
import { openDashboard, useDashboard, type Visitor } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Mirrors a seller once. */
async function mirrorSeller() {
  const catalogue = seededCatalogue({ seed: 3, count: 5 });
  const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  const deps = mirror().deps(sim.url);
  const job = { kind: 'sync', askedAt: new Date(), byHand: true } as const;
  await performMirrorTask(deps, job, never);
  return { sim, deps };
}

/** Records a running process with these schedules. */
function addProcess(
  roles: readonly string[],
  kinds: readonly ('sync' | 'account' | 'recheck')[] = [],
) {
  return mirror().store.processes.heartbeat({
    processId: crypto.randomUUID(),
    roles,
    host: 'elsewhere',
    pid: 7,
    startedAt: new Date(),
    schedules: kinds.map((kind) => {
      return { seller: 'main', kind, cron: '0 2 * * *', timeZone: 'UTC' };
    }),
  });
}

describe('the page of a seller', () => {
  it('shows account, items, requests, charts with tables, and the latest runs', async () => {
    await mirrorSeller();
    await mirror().store.requests.add('main', 17);
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

  it('says what fills each section before the first sync', async () => {
    await mirror().store.sellers.ensure('main', 'market.example');
    const text = await (await dashboard().login()).page('/sellers/main');
    for (const empty of [
      'Press Sync now',
      'start <code>seller-mirror run</code>',
      'Syncs and audits make them',
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
    await mirrorSeller();
    const visitor = await dashboard().login();
    await addProcess(['scheduler'], ['sync', 'recheck']);
    expect(await visitor.page('/sellers/main')).toContain('no worker is running');
    await addProcess(['worker']);
    const text = await visitor.page('/sellers/main');
    expect(text).toContain('mirror account and items');
    expect(text).toContain('re-check known codes');
    expect(text).not.toContain('no worker is running');
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
    expect(text).toContain(tomorrow);
  });

  it('escapes the account’s name', async () => {
    await mirrorSeller();
    await mirror().rows(`UPDATE mirror.accounts SET full_name = '<script>alert(1)</script>'`);
    const text = await (await dashboard().login()).page('/sellers/main');
    expect(text).not.toContain('<script>alert');
    expect(text).toContain('&lt;script&gt;');
  });
});

/** Ids of the items that a search finds. */
async function search(visitor: Visitor, text: string): Promise<(string | undefined)[]> {
  const page = await visitor.page(`/items?q=${encodeURIComponent(text)}`);
  return [...page.matchAll(/\/items\/main\/(\d+)/g)].map(([, id]) => id);
}

describe('the search for items', () => {
  it('finds part of a name, a tag and an id, and accepts numbers of any length', async () => {
    await mirrorSeller();
    await mirror().rows(`UPDATE mirror.items SET name = 'Menu 99% ' || item_id, tags = '{}'`);
    await mirror().rows(`UPDATE mirror.items SET tags = '{1001}' WHERE item_id = 1005`);
    await mirror().rows(`UPDATE mirror.items SET name = 'Shop' WHERE item_id = 1001`);
    const visitor = await dashboard().login();
    expect(await search(visitor, '9% 1')).toEqual(['1002', '1003', '1004', '1005']);
    expect(await search(visitor, 'sHo')).toEqual(['1001']);
    expect(await search(visitor, '1001')).toEqual(['1001', '1005']);
    for (const text of ['01001', '9'.repeat(19), '9'.repeat(40), '0x3e9']) {
      expect(await search(visitor, text), text).toEqual([]);
    }
  });

  it.each([
    ['any letter case', ['QUIK', 'qUiK', 'ik']],
    ['letters beyond ASCII', ['körbe', 'KÖRBE q']],
    ['a letter whose lower case is in ASCII', ['kelvin', 'K']],
    ['wildcards of patterns', ['_\\ (', '%', '_']],
    ['digits and punctuation', ['273.15', ' (']],
  ])('matches part of a name with %s', async (_, texts) => {
    await mirrorSeller();
    await mirror().rows(`UPDATE mirror.items SET name = 'Other'`);
    const name = 'Körbe Quik%_\\ (273.15 \u212Aelvin)';
    await mirror().rows(`UPDATE mirror.items SET name = $1 WHERE item_id = 1003`, [name]);
    const visitor = await dashboard().login();
    for (const text of texts) expect(await search(visitor, text), text).toEqual(['1003']);
  });
});

describe('the summary of the overview', () => {
  it.each([
    ['its items are old', 'items', '1 copy stale, 27 h old'],
    ['only its account is old', 'account', '1 copy current, 0 s old'],
  ])('takes the age of a copy from its items, as `status` does: %s', async (_, kind, summary) => {
    await mirrorSeller();
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
    await mirrorSeller();
    const { sellers } = mirror().store;
    for (const name of ['new', 'resting']) await sellers.ensure(name, 'm');
    await sellers.pause('resting', 'paused by ada');
    const visitor = await dashboard().login();
    expect(await visitor.page('/')).toContain('1 copy current, 1 never mirrored, 1 paused, the');
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
       VALUES ('main', 'items', 'failed', 'x', now())`,
    );
    expect(await visitor.page('/')).toContain('1 copy never mirrored, 1 failing, 1 paused, the');
    expect(await visitor.page('/sellers/main')).toContain('>failing</span>');
  });
});

describe('Sync now', () => {
  it('queues one job and warns when no worker is running', async () => {
    await mirror().store.sellers.ensure('main', 'market.example');
    const visitor = await dashboard().login();
    const reply = await visitor.post('/sellers/main/sync');
    expect(reply.headers.get('location')).toBe('/sellers/main?notice=no-worker');
    const text = await visitor.page('/sellers/main?notice=no-worker');
    expect(text).toContain('Start one with <code>seller-mirror run</code>.');
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
  });

  it('mirrors the configured sellers before the store knows any', async () => {
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
});

describe('Pause and Resume', () => {
  it('stop and restart the schedules of a seller, and record who did it', async () => {
    const { sim, deps } = await mirrorSeller();
    await addProcess(['scheduler', 'worker'], ['sync']);
    const operator = await dashboard().login('operator');
    const requests = sim.log.length;
    const tick = () =>
      performMirrorTask(deps, { kind: 'sync', askedAt: new Date(), byHand: false }, never);

    const paused = await operator.post('/sellers/main/pause');
    expect(paused.headers.get('location')).toBe('/sellers/main');
    await tick();
    expect(sim.log.length).toBe(requests);
    const text = await operator.page('/sellers/main');
    expect(text).toContain('Paused by operator');
    expect(text).toContain('not while paused');
    expect(text).toContain('>Resume</button>');
    expect(text).not.toContain('>Pause</button>');

    const resumed = await operator.post('/sellers/main/resume');
    expect(resumed.headers.get('location')).toBe('/sellers/main?notice=resumed');
    await tick();
    expect(sim.log.length).toBeGreaterThan(requests);
    expect(await mirror().store.access.actions(10)).toMatchObject([
      { who: 'operator', action: 'resume', target: 'main', outcome: 'done' },
      { who: 'operator', action: 'pause', target: 'main', outcome: 'done' },
      { action: 'log in' },
    ]);
  });

  it('keep a paused seller out of Needs you, however old its copy is', async () => {
    await mirrorSeller();
    await mirror().rows(`UPDATE mirror.runs SET finished_at = now() - interval '27 hours'`);
    const visitor = await dashboard().login();
    expect(await visitor.page('/')).toContain('the copy is stale');
    await visitor.post('/sellers/main/pause');
    const text = await visitor.page('/');
    expect(text).toContain('Nothing needs you');
    expect(text).not.toContain('stale');
    expect(text).toContain('1 copy paused');
  });

  it('do not affect Sync now on the overview, which says so', async () => {
    await mirrorSeller();
    const visitor = await dashboard().login();
    const words = 'Sync now also mirrors paused and parked sellers';
    expect(await visitor.page('/')).not.toContain(words);
    await visitor.post('/sellers/main/pause');
    expect(await visitor.page('/')).toContain(words);
    await visitor.post('/sync');
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
  });

  it('unpark a parked seller, whose page shows reason and remedy until then', async () => {
    const { sim, deps } = await mirrorSeller();
    sim.faults.always('any', { kind: 'key-refused' });
    await performMirrorTask(deps, { kind: 'sync', askedAt: new Date(), byHand: false }, never);
    const visitor = await dashboard().login();
    const text = await visitor.page('/sellers/main');
    expect(text).toContain('refused the API key');
    expect(text).toContain('fix the key, then <code>seller-mirror sync --seller main</code>');
    await visitor.post('/sellers/main/resume');
    expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
  });
});

describe('a viewer', () => {
  it('gets no buttons on the page of a seller, and can’t act', async () => {
    await mirrorSeller();
    const viewer = await dashboard().login('viewer');
    const text = await viewer.page('/sellers/main');
    for (const button of ['Sync now', 'Pause', 'Resume']) {
      expect(text).not.toContain(`>${button}</button>`);
    }
    for (const action of ['sync', 'pause', 'resume']) {
      expect((await viewer.post(`/sellers/main/${action}`)).status).toBe(403);
    }
    expect(await mirror().store.sellers.parkingOf('main')).toBeNull();
  });
});

describe('Needs you', () => {
  it('says how many items a held run lacks, and links to the decision', async () => {
    const { sim, deps } = await mirrorSeller();
    for (let id = 1_001; id <= 1_004; id++) sim.seller(KEY).catalogue.remove(id);
    const guard = { items: 1, percent: 1 };
    const job = { kind: 'sync', askedAt: new Date(), byHand: true } as const;
    await performMirrorTask({ ...deps, removalGuard: guard }, job, never);
    const visitor = await dashboard().login();
    const [{ id } = { id: '' }] = await mirror().rows<{ id: string }>(
      'SELECT max(run_id)::text AS id FROM mirror.held_items',
    );
    for (const [path, words] of [
      ['/', '4 of 5 items are missing from the list, more than'],
      ['/sellers/main', '4 of 5 items are no longer listed'],
    ] as const) {
      const text = await visitor.page(path);
      expect(text.replaceAll(/<[^>]+>/g, ''), path).toContain(words);
      expect(text, path).toContain(`href="/runs/${id}/decide"`);
    }
    const page = await visitor.page(`/runs/${id}/decide`);
    // The form comes first: on a phone, it would be below thousands of items.
    expect(page.indexOf('Type the number of items')).toBeLessThan(page.indexOf('<table'));
    await visitor.post(`/runs/${id}/decide`, { decision: 'rejected', items: '4' });
    expect(await visitor.page(`/runs/${id}/decide`)).not.toContain('until you decide');
  });

  it('is replaced by a first step while no seller was mirrored', async () => {
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain('No copy yet.');
    expect(text).toContain('<code>seller-mirror sync</code>');
    expect(text).not.toContain('Nothing needs you');
    expect(text).not.toContain('Last 24 hours');
  });

  it('starts with held runs, before stale copies', async () => {
    const { store } = mirror();
    for (let n = 0; n < 30; n++) await store.sellers.ensure(`never-mirrored-${n}`, 'm');
    await store.sellers.ensure('zoe', 'm');
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
       VALUES ('zoe', 'items', 'held', 'x', now())`,
    );
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain('zoe: a run needs your decision');
    expect(text).toContain('and 19 more sellers');
  });

  it('contains failed audits', async () => {
    const auditId = await enter(mirror(), 'm', ['0'.repeat(36)], { source: 'list.csv' });
    await mirror().store.audits.fail(auditId, 'the key was refused');
    const text = await (await dashboard().login()).page('/');
    expect(text).toContain(`Audit ${auditId} failed`);
    expect(text).toContain('the key was refused');
  });
});

it('a chart labels large values that differ little', () => {
  const day = (n: number, value: number) => ({ at: new Date(Date.UTC(2026, 0, n)), value });
  const points = [day(1, 87_298), day(2, 87_300), day(3, 87_299)];
  const until = new Date(Date.UTC(2026, 0, 4));
  const chart: { toString(): unknown } | null | undefined = StepChart({
    label: 'Live items',
    points,
    until,
  });
  const [, ...drawings] = String(chart?.toString()).split('<svg');
  expect(drawings).toHaveLength(2);
  for (const one of drawings) {
    const figures = [...one.matchAll(/text-anchor="end">([^<]+)</g)].map(([, figure]) => figure);
    expect(figures).toContain('87,299');
    expect(new Set(figures).size).toBe(figures.length);
  }
});

describe('changes', () => {
  it('separate the entries of a changed list', async () => {
    await mirrorSeller();
    await mirror().rows(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'main', 1, max(run_id), now(), 'text', 'tags', '["red","blue"]', '["green","grey"]'
         FROM mirror.runs`,
    );
    const text = await (await dashboard().login()).page('/changes');
    expect(text.replaceAll(/<[^>]+>/g, '')).toContain('red, blue → green, grey');
  });

  it('have unchanged texts and formatted prices in every download', async () => {
    await mirrorSeller();
    await mirror().rows(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'main', 1, max(run_id), '2026-03-01 02:00:00.5Z', c.class::mirror.change_class, c.field, c.old, c.new
         FROM mirror.runs, (VALUES ('price', 'price_regular', '"10.00"'::jsonb, '"8.00"'::jsonb),
                                   ('text', 'name', '"1.5"', '"=1+1"')) AS c (class, field, old, new)
        GROUP BY c.class, c.field, c.old, c.new`,
    );
    const visitor = await dashboard().login();
    const page = await visitor.page('/changes?class=price');
    expect(page).toContain('/changes.csv?class=price&amp;decimal=comma');
    const comma = await (await visitor.get('/changes.csv?item=1&decimal=comma')).text();
    expect(comma).toMatch(/;text;name;1\.5;'=1\+1;\r\n/);
    expect(comma).toMatch(/;price;price_regular;10,00;8,00;-20,00\r\n/);
    const book = await visitor.get('/changes.xlsx?class=text');
    const [, cells] = await readSheet(Buffer.from(await book.arrayBuffer()));
    expect(cells?.slice(1, 4)).toEqual([new Date('2026-03-01T02:00:00.500Z'), 'main', 1]);
    expect(cells?.slice(7, 9)).toEqual(['1.5', '=1+1']);
    const parquet = await visitor.get('/changes.parquet?class=price');
    expect(await parquetReadObjects({ file: await parquet.arrayBuffer() })).toMatchObject([
      { item_id: 1n, old_value: '10.00', percent: -20 },
    ]);
    expect((await visitor.get('/changes.doc')).status).toBe(404);
  });
});

it('printable text has a limited number of stacked marks', () => {
  expect(printable(`e${'\u0301'.repeat(400)}`)).toHaveLength(7);
  expect(printable('Tiếng Việt')).toBe('Tiếng Việt');
});

describe('the overview of 1,000 sellers', () => {
  it('stays below 100 kB, and every seller can be found', async () => {
    await mirror().rows(
      `INSERT INTO mirror.sellers (seller_id, marketplace)
       SELECT 'shop-' || to_char(n, 'FM0000'), 'market.example' FROM generate_series(1, 1000) n`,
    );
    const visitor = await dashboard().login();
    const first = await visitor.page('/');
    expect(first.length).toBeLessThan(100_000);
    expect(first).toContain('>More</a>');
    expect(await visitor.page('/?from=980')).toContain('href="/sellers/shop-1000"');
    expect(await visitor.page('/?seller=SHOP-0777')).toContain('href="/sellers/shop-0777"');
  });
});
