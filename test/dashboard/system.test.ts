import { describe, expect, it } from 'vitest';
import { until } from '../support/until.js';
import { recordHeartbeat } from '../../src/service/processes-store.js';
import {
  requestFeedViews,
  readFeedRequest,
  recordDelivery,
} from '../../src/reporting/feeds-store.js';
import { listActions } from '../../src/dashboard/access-store.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { enterLookUp } from '../../src/codes/look-up-store.js';
import { useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Makes a job fail without further attempts. @returns its id */
async function failedJob(problem = 'the key is refused'): Promise<string> {
  const { queues } = dashboard();
  const worker = queues.work('mirror', () => Promise.resolve({ kind: 'give-up', problem }), {
    concurrency: 1,
  });
  await addSync();
  await until(async () => (await queues.counts()).mirror.failed === 1);
  await worker.stop(0);
  return (await queues.failedJobs('mirror', 1))[0]?.jobId ?? '';
}

function addSync() {
  const dueAt = new Date().toISOString();
  const task = { kind: 'sync', seller: 'main', dueAt, byHand: true } as const;
  return dashboard().queues.add('mirror', task);
}

describe('the system page', () => {
  it('shows queues, checks, processes, accounts and actions, and how to fill empty sections', async () => {
    await addSync();
    const visitor = await dashboard().login('operator');
    const text = await visitor.page('/system');
    expect(text).toMatch(/<td>mirror<\/td><td class="figure">1<\/td>/);
    expect(text).toContain('schema: up to date');
    expect(text).toContain('queue: in the database');
    expect(text).toContain('configuration: no seller to mirror');
    expect(text).toContain('set MARKETPLACE_URL');
    expect(text).toContain('Start <code>npx seller-mirror run</code>');
    expect(text).toContain('No failed jobs.');
    expect(text).toContain('No alerts yet.');
    expect(text).toContain('<td>operator</td>');
    expect(text).toContain('<td>log in</td>');
  });

  it('hides the password of the database', async () => {
    const { password } = new URL(mirror().databaseUrl);
    const text = await (await dashboard().login()).page('/system');
    expect(text).toContain('store: ');
    if (password !== '') expect(text).not.toContain(password);
  });

  it('tells running processes from killed ones', async () => {
    const base = { roles: ['worker'], host: 'elsewhere', startedAt: new Date(), schedules: [] };
    for (const [pid, processId] of [
      [11, '00000000-0000-4000-8000-000000000011'],
      [12, '00000000-0000-4000-8000-000000000012'],
    ] as const) {
      await recordHeartbeat(mirror().db, { ...base, pid, processId });
    }
    await mirror().rows(
      `UPDATE mirror.processes SET seen_at = now() - interval '5 minutes' WHERE pid = 12`,
    );
    const text = await (await dashboard().login()).page('/system');
    expect(text).toMatch(/11 on elsewhere.*?alive/);
    expect(text).toMatch(/12 on elsewhere(?:(?!alive).)*?gone/);
  });

  it('shows what the look-up API asked today, once somebody asks', async () => {
    const visitor = await dashboard().login();
    expect(await visitor.page('/system')).not.toContain('Look-up API');
    await ensureSeller(mirror().db, 'main', 'market.example');
    await enterLookUp(mirror().db, 'main', 'a-code');
    await mirror().pool.query('UPDATE mirror.audits SET api_calls = 7, denied = 1');
    const text = await visitor.page('/system');
    const words = text.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');
    expect(words).toContain('Codes asked Calls Share used Pending main 1 7 – 1 ');
  });

  it('shows the state of feeds, and why one fails', async () => {
    const { db } = mirror();
    const problem = 'MySQL at db: connect ECONNREFUSED';
    await requestFeedViews(db, 'lake', ['items']);
    const { askedAt } = await readFeedRequest(db, 'lake');
    await recordDelivery(db, 'lake', {
      problem: null,
      views: [{ view: 'items', problem: null }],
      askedAt,
      isFull: false,
    });
    await requestFeedViews(db, 'warehouse', ['items', 'purchases']);
    const views = ['items', 'purchases'].map((view) => ({ view, problem }));
    await recordDelivery(db, 'warehouse', { problem, views, askedAt, isFull: false });
    const visitor = await dashboard().login('viewer');
    const text = await visitor.page('/system');
    expect(text).toMatch(/<td>lake<\/td>.*?<span class="state good">ok<\/span>/);
    expect(text).toMatch(/<td>warehouse<\/td>.*?failed.*?items, purchases.*?connect ECONNREFUSED/);
  });

  it('lists alerts with their outcome', async () => {
    const message = { content: { title: 'main: removals wait for you' } };
    await mirror().rows(
      `INSERT INTO mirror.alerts (alert_id, channel, type, happened_at, message, ended_at, outcome, note)
       VALUES ('run-held.17', 'mail', 'run.held', now(), $1, now(), 'dropped', 'nothing is held any more')`,
      [JSON.stringify(message)],
    );
    const text = await (await dashboard().login()).page('/system');
    expect(text).toContain('main: removals wait for you');
    expect(text).toContain('dropped: nothing is held any more');
  });
});

describe('Retry', () => {
  it('requeues a failed job and logs the action', async () => {
    const job = await failedJob('no <b>such</b> key');
    const operator = await dashboard().login('operator');
    const text = await operator.page('/system');
    expect(text).toContain('sync of main');
    expect(text).toContain('no &lt;b&gt;such&lt;/b&gt; key');
    expect(text).toContain('>Retry</button>');
    const reply = await operator.post('/system/retry', { queue: 'mirror', job });
    expect(reply.headers.get('location')).toBe('/system?notice=retried');
    // The store says that its runs have ended, so new ones are asked for.
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 2, failed: 0 } });
    const asked = await mirror().rows(`SELECT asked_by FROM mirror.runs WHERE state = 'asked'`);
    expect(asked).toEqual([{ asked_by: 'operator' }, { asked_by: 'operator' }]);
    expect(await listActions(mirror().db, 1)).toMatchObject([
      { who: 'operator', action: 'retry job', target: job, outcome: 'done' },
    ]);
  });

  it('refuses a job that is gone, was retried already, or is in an unknown queue', async () => {
    const job = await failedJob();
    const operator = await dashboard().login('operator');
    await operator.post('/system/retry', { queue: 'mirror', job });
    for (const fields of [{ queue: 'mirror', job }, { queue: 'other', job }, { job: 'x' }, {}]) {
      expect((await operator.post('/system/retry', fields)).status).toBe(409);
    }
  });

  it('is neither offered nor allowed to viewers', async () => {
    const job = await failedJob();
    const viewer = await dashboard().login('viewer');
    expect(await viewer.page('/system')).not.toContain('>Retry</button>');
    expect((await viewer.post('/system/retry', { queue: 'mirror', job })).status).toBe(403);
    expect(await dashboard().queues.counts()).toMatchObject({ mirror: { failed: 1 } });
  });
});
