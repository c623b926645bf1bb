import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { App } from '../../src/app.js';
import { startHeartbeat, startService } from '../../src/service/service.js';
import { watchStaleCopies } from '../../src/service/watches.js';
import { type Log, silentLog } from '../../src/domain/log.js';
import type { Queues } from '../../src/service/queue/queues.js';
import type { AlertTask } from '../../src/service/queue/tasks.js';
import { listLiveProcesses } from '../../src/service/processes-store.js';
import { openDb } from '../../src/db/db.js';
import { useMirror } from '../support/mirror.js';

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-11-21T12:00:00Z') });
});

afterEach(() => {
  vi.useRealTimers();
});

/** An app with one schedule, whose store never answers. */
function appOfHangingStore(shutdownTimeoutMs: number): App {
  const seller = {
    name: 'ada',
    url: new URL('https://market.example'),
    syncCron: '0 2 * * *',
    accountCron: null,
    auditCron: null,
    timeZone: 'UTC',
  };
  const retention = { raw: null, runs: null, versions: null, audits: null };
  return {
    config: {
      feeds: [],
      sellers: [seller],
      catchUp: true,
      alertWebhook: null,
      alertMail: null,
      shutdownTimeoutMs,
      retention,
    },
    db: {
      pool: {
        query: () => new Promise(() => undefined),
        connect: () => new Promise(() => undefined),
      },
    },
  } as unknown as App;
}

describe('a service', () => {
  it('stops within SHUTDOWN_TIMEOUT although the store hangs', async () => {
    const app = appOfHangingStore(2_000);
    const roles = { scheduler: true, worker: false, dashboard: false, api: false };
    const service = startService(app, {} as Queues, roles, silentLog, {
      onJob: () => undefined,
      onVerdict: () => undefined,
    });
    const ended = vi.fn();
    void service.stop().then(ended);
    await vi.advanceTimersByTimeAsync(1_999);
    expect(ended).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(ended).toHaveBeenCalledOnce();
  });
});

const mirror = useMirror();
const MINUTE = 60_000;

describe('the heartbeat', () => {
  it('lists the process with its roles until it stops', async () => {
    const { db } = mirror();
    const heartbeat = startHeartbeat(db, ['worker', 'scheduler'], silentLog);
    const seen = async () => {
      for (;;) {
        const found = await listLiveProcesses(db, 'worker');
        if (found.length > 0) return found;
      }
    };
    expect(await seen()).toMatchObject([
      { roles: ['worker', 'scheduler'], host: hostname(), pid: process.pid },
    ]);
    await heartbeat();
    expect(await listLiveProcesses(db)).toEqual([]);
  });

  it('does not throw when the store is down', async () => {
    const down = openDb('postgresql://nobody@127.0.0.1:1/none', 'test');
    onTestFinished(() => down.close());
    await expect(startHeartbeat(down, ['worker'], silentLog)()).resolves.toBeUndefined();
  });
});

const LONG_AGO = new Date('2026-01-01T00:00:00Z');

/** Watches stale copies of the sellers. @param addAlert called when an alert is enqueued */
function watched(names: readonly string[], addAlert: (alert: AlertTask) => Promise<unknown>) {
  const logged: string[] = [];
  const write = (message: string): void => void logged.push(message);
  const log: Log = { ...silentLog, info: write, warn: write, error: write };
  const copies = names.map((sellerId) => ({
    sellerId,
    knownSince: LONG_AGO,
    itemsMirroredAt: LONG_AGO,
    parked: null,
    username: null,
    running: null,
    lastProblem: null,
    lastWide: null,
  }));
  const added: AlertTask[] = [];
  const stop = watchStaleCopies(
    {
      config: {
        sellers: names.map((name) => ({ name })),
        staleAfterHours: 26,
        alertWebhook: {},
        alertMail: null,
      },
      db: { pool: { query: () => Promise.resolve({ rows: copies }) } },
    } as unknown as App,
    {
      add: async (_queue, task) => {
        const alert = task as AlertTask;
        added.push(alert);
        await addAlert(alert);
        return { jobId: 'an alert', added: true };
      },
    },
    log,
  );
  return { stop, added, logged };
}

describe('the watch for stale copies', () => {
  it('enqueues an alert for each stale copy every minute; the queue drops duplicates', async () => {
    const { stop, added } = watched(['ada', 'grace'], () => Promise.resolve());
    await vi.advanceTimersByTimeAsync(2 * MINUTE);
    expect(added.map((alert) => 'seller' in alert && alert.seller)).toEqual([
      ...['ada', 'grace'],
      ...['ada', 'grace'],
    ]);
    stop();
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(added).toHaveLength(4);
  });

  it('tries one alert a minute while the queue is down, and leaves logging to the queue', async () => {
    const fail = async (): Promise<never> => {
      await new Promise((resolve) => setTimeout(resolve, 5_000));
      throw new Error('the queue is down');
    };
    const { stop, added, logged } = watched(['ada', 'grace', 'alan', 'edsger'], fail);
    await vi.advanceTimersByTimeAsync(3 * MINUTE + 10_000);
    expect(added).toHaveLength(3);
    expect(logged).toEqual([]);
    stop();
  });

  it('starts no check while one is still running', async () => {
    const { stop, added } = watched(['ada'], () => new Promise(() => undefined));
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    expect(added).toHaveLength(1);
    stop();
  });

  it('enqueues no more alerts after it was stopped', async () => {
    const slow = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5_000));
    const { stop, added } = watched(['ada', 'grace', 'alan'], slow);
    await vi.advanceTimersByTimeAsync(MINUTE);
    stop();
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(added).toHaveLength(1);
  });
});
