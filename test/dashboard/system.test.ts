import { describe, expect, it } from 'vitest';
import { until } from '../support/until.js';
import { storeFeed, storeProcess, storeSeller } from '../support/states.js';
import { textOf, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Makes a job fail without further attempts. @returns its id */
async function failedJob(problem: string): Promise<string> {
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
    expect(text).toContain('No process is running');
    expect(text).not.toContain('npx');
    expect(text).toContain('No alerts yet.');
    expect(text).toContain('<bdi class="untrusted">operator</bdi>');
    expect(text).toContain('<td>log in</td>');
    const { password } = new URL(mirror().databaseUrl);
    expect(text).toContain('store: ');
    if (password !== '') expect(text).not.toContain(password);
  });

  it('tells running processes from killed ones, and what alerts and the look-up API did, once there is any', async () => {
    const visitor = await dashboard().login();
    expect(await visitor.page('/system')).not.toContain('Look-up API');
    await storeProcess(mirror(), ['worker'], [], { pid: 11 });
    await storeProcess(mirror(), ['worker'], [], { pid: 12, secondsAgo: 300 });
    await storeSeller(mirror(), 'main', null);
    await mirror().rows(
      `INSERT INTO mirror.audits (seller_id, state, source, is_look_ups, layout, columns, lines, rejected, codes,
              reused, valid, invalid, unproven, pending, denied, api_calls)
       VALUES ('main', 'running', 'look-ups', true, '{}', '{code}', 1, 0, 1, 0, 0, 0, 0, 1, 1, 7)`,
    );
    const message = { content: { title: 'main: removals wait for you' } };
    await mirror().rows(
      `INSERT INTO mirror.alerts (alert_id, channel, type, happened_at, message, ended_at, outcome, note)
       VALUES ('run-held.17', 'mail', 'run.held', now(), $1, now(), 'dropped', 'nothing is held any more')`,
      [JSON.stringify(message)],
    );
    const page = await visitor.page('/system');
    expect(page).toMatch(/11 on elsewhere.*?alive/);
    expect(page).toMatch(/12 on elsewhere(?:(?!alive).)*?gone/);
    const text = textOf(page);
    expect(text).toContain('Codes asked Calls Share used Pending main 1 7 – 1 ');
    expect(text).toContain('main: removals wait for you');
    expect(text).toContain('dropped: nothing is held any more');
  });

  it('shows the state of feeds, and why one fails', async () => {
    const problem = 'MySQL at db: connect ECONNREFUSED';
    await storeFeed(mirror(), 'lake');
    await storeFeed(mirror(), 'warehouse', { problem, waitingHours: 1 });
    const visitor = await dashboard().login('viewer');
    const text = textOf(await visitor.page('/feeds'));
    expect(text).toMatch(/lake current .*warehouse failing .*items .*connect ECONNREFUSED/);
  });
});

it('a failed job is retried by operators, once, and the action is logged', async () => {
  const job = await failedJob('no <b>such</b> key');
  const viewer = await dashboard().login('viewer');
  expect(await viewer.page('/jobs')).not.toContain('>Retry</button>');
  expect((await viewer.post(`/jobs/mirror-${job}/retry`)).status).toBe(403);
  const operator = await dashboard().login('operator');
  const text = await operator.page('/jobs');
  expect(textOf(text)).toMatch(/sync just now 1 no /);
  expect(text).toContain('no &lt;b&gt;such&lt;/b&gt; key');
  expect(text).toContain('>Retry</button>');
  const reply = await operator.post(`/jobs/mirror-${job}/retry`);
  expect(reply.headers.get('location')).toBe('/?notice=retried');
  // The store says that its runs have ended, so new ones are asked for.
  expect(await dashboard().queues.counts()).toMatchObject({ mirror: { waiting: 2, failed: 0 } });
  const asked = await mirror().rows(`SELECT asked_by FROM mirror.runs WHERE state = 'asked'`);
  expect(asked).toEqual([{ asked_by: 'operator' }, { asked_by: 'operator' }]);
  const action = 'SELECT who, target, outcome FROM mirror.actions ORDER BY action_id DESC LIMIT 1';
  expect(await mirror().rows(action)).toEqual([
    { who: 'operator', target: `job mirror-${job}`, outcome: 'done' },
  ]);
  for (const id of [`mirror-${job}`, `other-${job}`, 'x']) {
    expect((await operator.post(`/jobs/${id}/retry`)).status, id).toBe(404);
  }
});
