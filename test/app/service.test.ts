import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { App } from '../../src/app.js';
import { startHeartbeat, startService } from '../../src/app/service.js';
import { watchAge } from '../../src/app/watches.js';
import { type Log, silentLog } from '../../src/domain/log.js';
import type { Queues } from '../../src/queue/queues.js';
import type { AlertTask } from '../../src/queue/tasks.js';
import { useMirror } from '../support/mirror.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** An app with one schedule whose store answers nothing any more. */
function appOfSilentStore(shutdownTimeoutMs: number): App {
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
    store: { schedules: { read: () => new Promise(() => undefined) } },
  } as unknown as App;
}

describe('a service', () => {
  it('ends in the time it is given although the store answers nothing: what the scheduler was about is done again', async () => {
    const app = appOfSilentStore(2_000);
    const roles = { scheduler: true, worker: false, dashboard: false };
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

const MINUTE_MS = 60_000;

describe('a process that works', () => {
  it('is known to live, with what it does, from its start to its end', async () => {
    const { processes } = mirror().store;
    const heartbeat = startHeartbeat(processes, ['worker', 'scheduler'], silentLog);
    const seen = async () => {
      for (;;) {
        const found = await processes.live(MINUTE_MS, 'worker');
        if (found.length > 0) return found;
      }
    };
    expect(await seen()).toMatchObject([
      { roles: ['worker', 'scheduler'], host: hostname(), pid: process.pid },
    ]);
    await heartbeat();
    expect(await processes.live(MINUTE_MS)).toEqual([]);
  });

  it('goes on with its work when the store can’t be told', async () => {
    const away = {
      beat: () => Promise.reject(new Error('the store is away')),
      end: () => Promise.reject(new Error('the store is away')),
    };
    await expect(startHeartbeat(away, ['worker'], silentLog)()).resolves.toBeUndefined();
  });
});

const MINUTE = 60_000;
const LONG_AGO = new Date('2026-01-01T00:00:00Z');

beforeEach(() => {
  vi.useFakeTimers({ now: new Date('2026-11-21T12:00:00Z') });
});

afterEach(() => {
  vi.useRealTimers();
});

/** The copies of some sellers, all of them stale, and a queue that does as it is told. */
function watched(names: readonly string[], addAlert: (alert: AlertTask) => Promise<unknown>) {
  const said: string[] = [];
  const note = (message: string): void => void said.push(message);
  const log: Log = { ...silentLog, info: note, warn: note, error: note };
  const copies = names.map((sellerId) => ({
    sellerId,
    knownSince: LONG_AGO,
    itemsMirroredAt: LONG_AGO,
    parked: null,
  }));
  const asked: AlertTask[] = [];
  const watch = watchAge(
    {
      config: {
        sellers: names.map((name) => ({ name })),
        staleAfterHours: 26,
        alertWebhook: {},
        alertMail: null,
      },
      store: { sellers: { statuses: () => Promise.resolve(copies) } },
    } as unknown as App,
    {
      add: async (_queue, task) => {
        const alert = task as AlertTask;
        asked.push(alert);
        await addAlert(alert);
        return { jobId: 'an alert', added: true };
      },
    },
    log,
  );
  return { watch, asked, said };
}

describe('the watch over the age of copies', () => {
  it('puts an alert of each stale copy into the queue, which knows those it had already', async () => {
    const { watch, asked } = watched(['ada', 'grace'], () => Promise.resolve());
    await vi.advanceTimersByTimeAsync(2 * MINUTE);
    expect(asked.map((alert) => 'seller' in alert && alert.seller)).toEqual([
      ...['ada', 'grace'],
      ...['ada', 'grace'],
    ]);
    watch();
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(asked).toHaveLength(4);
  });

  it('tries one alert a minute while the queue is away and leaves it to the queue to tell, or a thousand stale copies would fill the log', async () => {
    const away = async (): Promise<never> => {
      await new Promise((resolve) => setTimeout(resolve, 5_000));
      throw new Error('the queue is away');
    };
    const { watch, asked, said } = watched(['ada', 'grace', 'alan', 'edsger'], away);
    await vi.advanceTimersByTimeAsync(3 * MINUTE + 10_000);
    expect(asked).toHaveLength(3);
    expect(said).toEqual([]);
    watch();
  });

  it('begins no look while one is still under way', async () => {
    const { watch, asked } = watched(['ada'], () => new Promise(() => undefined));
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    expect(asked).toHaveLength(1);
    watch();
  });

  it('goes no further once it is stopped: alerts that are left wait for the next start, the end does not wait for them', async () => {
    const slow = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5_000));
    const { watch, asked } = watched(['ada', 'grace', 'alan'], slow);
    await vi.advanceTimersByTimeAsync(MINUTE);
    watch();
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(asked).toHaveLength(1);
  });
});
