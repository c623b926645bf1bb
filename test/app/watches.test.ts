import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { watchAge } from '../../src/app/watches.js';
import { silentLog, type Log } from '../../src/domain/log.js';
import type { AlertTask } from '../../src/queue/tasks.js';

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
  const items = { live: 1, missing: 0, removed: 0 };
  const copies = names.map((sellerId) => ({
    ...{ sellerId, since: LONG_AGO, parked: false, items },
    ...{ accountMirroredAt: null, itemsMirroredAt: LONG_AGO },
  }));
  const asked: AlertTask[] = [];
  const watch = watchAge(
    {
      config: { sellers: names.map((name) => ({ name })), staleAfterHours: 26 },
      store: { sellers: { freshness: () => Promise.resolve(copies) } },
    },
    {
      addAlert: async (alert, jobId) => {
        asked.push(alert);
        await addAlert(alert);
        return { jobId, added: true };
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
    watch.stop();
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
    watch.stop();
  });

  it('begins no look while one is still under way', async () => {
    const { watch, asked } = watched(['ada'], () => new Promise(() => undefined));
    await vi.advanceTimersByTimeAsync(10 * MINUTE);
    expect(asked).toHaveLength(1);
    watch.stop();
  });

  it('goes no further once it is stopped: alerts that are left wait for the next start, the end does not wait for them', async () => {
    const slow = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5_000));
    const { watch, asked } = watched(['ada', 'grace', 'alan'], slow);
    await vi.advanceTimersByTimeAsync(MINUTE);
    watch.stop();
    await vi.advanceTimersByTimeAsync(5 * MINUTE);
    expect(asked).toHaveLength(1);
  });
});
