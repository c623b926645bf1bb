import { describe, expect, it } from 'vitest';
import { performMirrorTask } from '../../src/catalogue/mirror-task.js';
import { never } from '../support/mirror.js';
import { recordHeartbeat } from '../../src/service/processes-store.js';
import { addRequests } from '../../src/db/budget.js';
import { ensureSeller, readParking } from '../../src/catalogue/sellers-store.js';
import { listActions } from '../../src/dashboard/access-store.js';
import { mirrorSeller, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Records a running process, and schedules of a seller. */
async function addProcess(
  roles: readonly string[],
  kinds: readonly ('sync' | 'account' | 'recheck')[] = [],
) {
  const schedules = kinds.map((kind) => {
    return { name: 'main', kind, cron: '0 2 * * *', timeZone: 'UTC' };
  });
  await recordHeartbeat(mirror().db, {
    processId: crypto.randomUUID(),
    roles,
    host: 'elsewhere',
    pid: 7,
    startedAt: new Date(),
    schedules,
  });
}

describe('the page of a seller', () => {
  it('shows account, items, requests, charts with tables, and the latest runs', async () => {
    await mirrorSeller(mirror());
    await addRequests(mirror().db, 'main', 17);
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
    await ensureSeller(mirror().db, 'main', 'market.example');
    const text = await (await dashboard().login()).page('/sellers/main');
    for (const empty of [
      'Press Sync now',
      'start <code>npx seller-mirror run</code>',
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
    await mirrorSeller(mirror());
    await mirror().rows(`UPDATE mirror.accounts SET full_name = '<script>alert(1)</script>'`);
    const text = await (await dashboard().login()).page('/sellers/main');
    expect(text).not.toContain('<script>alert');
    expect(text).toContain('&lt;script&gt;');
  });

  it('queues one job and warns when no worker is running', async () => {
    await ensureSeller(mirror().db, 'main', 'market.example');
    const visitor = await dashboard().login();
    const reply = await visitor.post('/sellers/main/sync');
    expect(reply.headers.get('location')).toBe('/sellers/main?notice=no-worker');
    const text = await visitor.page('/sellers/main?notice=no-worker');
    expect(text).toContain('Start one with <code>npx seller-mirror run</code>.');
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
    const { sim, deps } = await mirrorSeller(mirror());
    await addProcess(['scheduler', 'worker'], ['sync']);
    const operator = await dashboard().login('operator');
    const requests = sim.log.length;
    const tick = () =>
      performMirrorTask(deps, { kind: 'sync', dueAt: new Date(), byHand: false }, never);

    const paused = await operator.post('/sellers/main/pause');
    expect(paused.headers.get('location')).toBe('/sellers/main');
    await tick();
    expect(sim.log.length).toBe(requests);
    const text = await operator.page('/sellers/main');
    expect(text).toContain('Paused by operator');
    expect(text).toContain('not while the seller is paused');
    expect(text).toContain('>Resume</button>');
    expect(text).not.toContain('>Pause</button>');

    const resumed = await operator.post('/sellers/main/resume');
    expect(resumed.headers.get('location')).toBe('/sellers/main?notice=resumed');
    await tick();
    expect(sim.log.length).toBeGreaterThan(requests);
    expect(await listActions(mirror().db, 10)).toMatchObject([
      { who: 'operator', action: 'resume', target: 'main', outcome: 'done' },
      { who: 'operator', action: 'pause', target: 'main', outcome: 'done' },
      { action: 'log in' },
    ]);
  });

  it('keep a paused seller out of Needs you, however old its copy is', async () => {
    await mirrorSeller(mirror());
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
    await mirrorSeller(mirror());
    const visitor = await dashboard().login();
    const words = 'Sync now also mirrors paused and stopped sellers';
    expect(await visitor.page('/')).not.toContain(words);
    await visitor.post('/sellers/main/pause');
    expect(await visitor.page('/')).toContain(words);
    await visitor.post('/sync');
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 1 } });
  });

  it('unpark a parked seller, whose page shows reason and remedy until then', async () => {
    const { sim, deps } = await mirrorSeller(mirror());
    sim.faults.always('any', { kind: 'key-refused' });
    await performMirrorTask(deps, { kind: 'sync', dueAt: new Date(), byHand: false }, never);
    const visitor = await dashboard().login();
    const text = await visitor.page('/sellers/main');
    expect(text).toContain('refused the API key');
    expect(text).toContain('Fix the key, then <code>npx seller-mirror sync --seller main</code>');
    await visitor.post('/sellers/main/resume');
    expect(await readParking(mirror().db, 'main')).toBeNull();
  });
});
