import { describe, expect, it } from 'vitest';
import type { App } from '../../src/app.js';
import { silentLog } from '../../src/domain/log.js';
import type { RunEvent } from '../../src/catalogue/types.js';
import { ping } from '../../src/service/handlers.js';
import { Secret } from '../../src/domain/secret.js';
import { mayHaveEffects, queueEffects, type EndedRun } from '../../src/service/effects.js';
import { startServer } from '../support/http-server.js';
import { useMirror } from '../support/mirror.js';
import { recordingLog } from './queue/support.js';
import { marketOf, run } from '../cli/support.js';

const mirror = useMirror();

type Counts = Extract<RunEvent, { phase: 'finished' }>['counts'];
const ended = (kind: EndedRun['kind'], counts: Partial<Counts>): EndedRun => {
  return { runId: 7n, kind, state: 'succeeded', counts: counts as Counts };
};

async function idsOf(runs: readonly EndedRun[], config: object = {}): Promise<string[]> {
  const ids: string[] = [];
  const seller = { name: 'main', accountCron: '0 * * * *' };
  const all = { sellers: [seller], alertWebhook: {}, alertMail: null, feeds: [], ...config };
  const app = { config: all, db: mirror().db } as unknown as App;
  const add = (_queue: string, _task: unknown, id = '') => {
    ids.push(id);
    return Promise.resolve({ jobId: id, added: true });
  };
  const queues = { add, addFeed: add } as unknown as Parameters<typeof queueEffects>[1];
  const ending = { seller: 'main', alerts: [], runs, hasNewData: false };
  await queueEffects(app, queues, ending, silentLog);
  return ids;
}

describe('news', () => {
  it('is told of removed items and of a changed balance, unless it is turned off', async () => {
    const removed = ended('items', { removed: 3 });
    const account = ended('account', { changed: 1 });
    expect(await idsOf([removed, account])).toEqual(['items-removed.7', 'balance-changed.7']);
    expect(await idsOf([removed, account], { alertsOff: ['items.removed'] })).toEqual([
      'balance-changed.7',
    ]);
    expect(await idsOf([ended('items', { removed: 0 })])).toEqual([]);
  });

  it('of a balance needs ACCOUNT_CRON: a nightly run would tell a day’s sales too late', async () => {
    const sellers = [{ name: 'main', accountCron: null }];
    expect(await idsOf([ended('account', { changed: 1 })], { sellers })).toEqual([]);
  });
});

it('a command without alerts and feeds never opens the queue', () => {
  const config = { alertWebhook: null, alertMail: null, feeds: [] };
  const ending = { seller: 'main', alerts: [], runs: [ended('items', {})], hasNewData: true };
  expect(mayHaveEffects({ config } as unknown as App, ending)).toBe(false);
});

it('a run that `sync` started and the removal guard held sends an alert', async () => {
  const { catalogue, sync, env } = await marketOf(mirror(), 40);
  await sync();
  for (const { id } of [...catalogue.truth()].slice(0, 30)) catalogue.remove(id);
  const receiver = { ALERT_WEBHOOK_URL: 'http://127.0.0.1:9/x', ALERT_FORMAT: 'slack' };
  const { code } = await run(['sync', 'items'], { ...env, ...receiver });
  expect(code).toBe(3);
  const queues = await mirror().queues();
  expect((await queues.counts()).alerts.waiting).toBe(1);
});

it('a monitor is told of start, success and failure, and its address is never logged', async () => {
  const server = await startServer({ status: 200 });
  const url = new Secret(`${server.url.href}secret-token/{seller}`);
  const { log, lines } = recordingLog();
  for (const state of ['start', 'success', 'fail'] as const) await ping(url, state, 'a b', log);
  expect(server.requests.map(({ url }) => url.pathname)).toEqual([
    '/secret-token/a%20b/start',
    '/secret-token/a%20b',
    '/secret-token/a%20b/fail',
  ]);
  await ping(new Secret('http://127.0.0.1:9/secret-token'), 'start', 'a', log);
  expect(lines.map(({ message }) => message)).toEqual(['PING_URL could not be reached']);
  expect(JSON.stringify(lines)).not.toContain('secret-token');
});
