import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { App } from '../../src/app.js';
import { startHeartbeat, startService } from '../../src/service/service.js';
import { silentLog } from '../../src/domain/log.js';
import type { Queues } from '../../src/service/queue/queues.js';
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
      clock: { now: Date.now },
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

describe('the heartbeat', () => {
  it('lists the process with its roles until it stops', async () => {
    const { db } = mirror();
    const heartbeat = startHeartbeat(db, ['worker', 'scheduler'], silentLog, {
      startedAt: new Date(),
    });
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
    await expect(
      startHeartbeat(down, ['worker'], silentLog, { startedAt: new Date() })(),
    ).resolves.toBeUndefined();
  });
});
