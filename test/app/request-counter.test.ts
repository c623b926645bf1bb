import { describe, expect, it } from 'vitest';
import { requestCounter } from '../../src/app.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';

const mirror = useMirror();

const sum = (slots: readonly { readonly own: number; readonly all: number }[]) => ({
  own: slots.reduce((all, { own }) => all + own, 0),
  all: slots.reduce((total, { all }) => total + all, 0),
});

describe('request counts', () => {
  it('are kept for the seller and for all sellers on the budget of its marketplace', async () => {
    const { store } = mirror();
    for (const name of ['main', 'second']) await store.sellers.ensure(name, 'market.example');
    await store.sellers.ensure('elsewhere', 'other.example');
    for (const [name, requests] of Object.entries({ main: 3, second: 4, elsewhere: 5 })) {
      const counter = requestCounter(store, name);
      for (let n = 0; n < requests; n++) counter.add(1);
      counter.close();
    }
    await until(
      async () => (await mirror().rows('SELECT FROM mirror.request_counts')).length === 3,
    );
    const slots = await store.requests.lastHour('main');
    expect(slots).toHaveLength(12);
    expect(sum(slots)).toEqual({ own: 3, all: 7 });
    expect(slots.at(-1)?.at.getTime()).toBeGreaterThan(Date.now() - 300_000);
  });

  it('are added up, and deleted after a day', async () => {
    const { store } = mirror();
    await store.sellers.ensure('main', 'market.example');
    await mirror().rows(
      `INSERT INTO mirror.request_counts VALUES ('main', now() - interval '25 hours', 9)`,
    );
    await store.requests.add('main', 2);
    await store.requests.add('main', 3);
    expect(sum(await store.requests.lastHour('main'))).toEqual({ own: 5, all: 5 });
    const rows = await mirror().rows(
      'SELECT requests FROM mirror.request_counts WHERE requests = 9',
    );
    expect(rows).toEqual([]);
  });

  it('cause no error when the store fails', async () => {
    const requests = {
      add: () => Promise.reject(new Error('gone')),
      lastHour: () => Promise.reject(new Error()),
    };
    const counter = requestCounter({ requests }, 'main');
    counter.add(1);
    counter.close();
    await new Promise((resolve) => setImmediate(resolve));
  });
});
