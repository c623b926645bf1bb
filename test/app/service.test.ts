import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { App } from '../../src/app.js';
import { startService } from '../../src/app/service.js';
import { silentLog } from '../../src/domain/log.js';
import type { Queues } from '../../src/queue/queues.js';

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

/** An app with one schedule whose store answers nothing any more. */
function appOfSilentStore(shutdownTimeoutMs: number): App {
  const seller = {
    ...{ name: 'ada', url: new URL('https://market.example') },
    ...{ syncCron: '0 2 * * *', accountCron: null, auditCron: null, timeZone: 'UTC' },
  };
  const retention = { raw: null, runs: null, versions: null, audits: null };
  return {
    config: { sellers: [seller], catchUp: true, alerts: null, shutdownTimeoutMs, retention },
    store: { schedules: { read: () => new Promise(() => undefined) } },
  } as unknown as App;
}

describe('a service', () => {
  it('ends in the time it is given although the store answers nothing: what the scheduler was about is done again', async () => {
    const app = appOfSilentStore(2_000);
    const roles = { scheduler: true, worker: false };
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
