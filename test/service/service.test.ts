import { spawnSync } from 'node:child_process';
import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../src/domain/log.js';
import { startHeartbeat, startService } from '../../src/service/service.js';
import { marketOf, printed } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';

type App = Parameters<typeof startService>[0];
type Queues = Parameters<typeof startService>[1];

/** An app with one schedule. @param answer of each query to its store */
function appOf(shutdownTimeoutMs: number, answer: () => Promise<never>): App {
  const seller = {
    name: 'ada',
    url: new URL('https://market.example'),
    ...{ syncCron: '0 2 * * *', accountCron: null, auditCron: null, timeZone: 'UTC' },
  };
  const retention = { raw: null, runs: null, versions: null, audits: null };
  const config = {
    ...{ feeds: [], sellers: [seller], catchUp: true, shutdownTimeoutMs, retention },
    ...{ alertWebhook: null, alertMail: null },
  };
  const pool = { query: answer, connect: answer };
  return { config, db: { clock: { now: Date.now }, pool } } as unknown as App;
}

describe('a service', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: new Date('2026-11-21T12:00:00Z') });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('stops within SHUTDOWN_TIMEOUT although the store hangs', async () => {
    const app = appOf(2_000, () => new Promise(() => undefined));
    const roles = { scheduler: true, worker: false, dashboard: false, api: false };
    const events = { onJob: () => undefined, onVerdict: () => undefined };
    const queues = { times: { lookMs: 30_000 } } as Queues;
    const service = startService(app, queues, roles, silentLog, events);
    const ended = vi.fn();
    void service.stop().then(ended);
    await vi.advanceTimersByTimeAsync(1_999);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toHaveBeenCalledOnce();
  });

  it('does not end when its heartbeat fails, since a store may be away for a while', async () => {
    const { db } = appOf(0, () => Promise.reject(new Error('the store is down')));
    const stop = startHeartbeat(db, ['worker'], silentLog, { startedAt: new Date() });
    await expect(stop()).resolves.toBeUndefined();
  });
});

const mirror = useMirror();

describe('a heartbeat', () => {
  const env = async () => (await marketOf(mirror())).env;
  const insert = (host: string, pid: number, secondsAgo: number) =>
    mirror().rows(
      `INSERT INTO mirror.processes (process_id, roles, host, pid, started_at, seen_at, schedules)
       VALUES (gen_random_uuid(), '{scheduler,worker}', $1, $2, now(), now() - $3 * interval '1 second',
               '[{"kind":"sync","name":"main","cron":"0 2 * * *","timeZone":"UTC"}]')`,
      [host, pid, secondsAgo],
    );

  it('is there until the process ends', async () => {
    const { db } = mirror();
    const stop = startHeartbeat(db, ['worker'], silentLog, { startedAt: new Date() });
    const rows = () => mirror().rows('SELECT roles, host, pid FROM mirror.processes');
    await until(async () => (await rows()).length === 1);
    expect(await rows()).toEqual([{ roles: ['worker'], host: hostname(), pid: process.pid }]);
    await stop();
    expect(await rows()).toEqual([]);
  });

  const ended = (): number => spawnSync(process.execPath, ['--version']).pid;
  it.each<[string, string, () => number, number, boolean]>([
    ['of a process here', hostname(), () => process.pid, 1, true],
    ['of a process on another machine, whose pid no process has here', 'there', ended, 1, true],
    ['of a process here that was killed', hostname(), ended, 1, false],
    ['of two minutes ago', 'there', ended, 120, false],
    ['in the future, from a clock that was wrong', 'there', ended, -3_600, false],
  ])('%s: schedules count on it: %o', async (_what, host, pid, secondsAgo, isAlive) => {
    await insert(host, pid(), secondsAgo);
    const shown = await printed(['status'], {
      ...(await env()),
      TZ: 'UTC',
      SYNC_CRON: '0 2 * * *',
    });
    expect(shown.includes('no scheduler is running')).toBe(!isAlive);
  });

  it('is deleted after a day by the next one', async () => {
    await insert('there', 1, 25 * 3_600);
    await insert('there', 2, 120);
    const stop = startHeartbeat(mirror().db, [], silentLog, { startedAt: new Date() });
    const hosts = () => mirror().rows(`SELECT pid FROM mirror.processes WHERE host = 'there'`);
    await until(async () => (await hosts()).length === 1);
    expect(await hosts()).toEqual([{ pid: 2 }]);
    await stop();
  });
});
