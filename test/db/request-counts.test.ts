import { describe, expect, it } from 'vitest';
import { requestCounter } from '../../src/app.js';
import { useMirror } from '../support/mirror.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { readRequestsOfLastHour, addRequests } from '../../src/db/budget.js';
import { until } from '../support/until.js';

const mirror = useMirror();

const sum = (slots: readonly { readonly own: number; readonly all: number }[]) => ({
  own: slots.reduce((all, { own }) => all + own, 0),
  all: slots.reduce((total, { all }) => total + all, 0),
});

describe('request counts', () => {
  it('are kept for the seller and for all sellers on the budget of its marketplace', async () => {
    const { db } = mirror();
    for (const name of ['main', 'second']) await ensureSeller(db, name, 'market.example');
    await ensureSeller(db, 'elsewhere', 'other.example');
    for (const [name, requests] of Object.entries({ main: 3, second: 4, elsewhere: 5 })) {
      const counter = requestCounter((count) => addRequests(db, name, count));
      for (let n = 0; n < requests; n++) counter.add(1);
      counter.close();
    }
    await until(
      async () => (await mirror().rows('SELECT FROM mirror.request_counts')).length === 3,
    );
    const slots = await readRequestsOfLastHour(db, 'main');
    expect(slots).toHaveLength(12);
    expect(sum(slots)).toEqual({ own: 3, all: 7 });
    expect(slots.at(-1)?.at.getTime()).toBeGreaterThan(Date.now() - 300_000);
  });

  it('are added up, and deleted after a day', async () => {
    const { db } = mirror();
    await ensureSeller(db, 'main', 'market.example');
    await mirror().rows(
      `INSERT INTO mirror.request_counts VALUES ('main', now() - interval '25 hours', 9)`,
    );
    await addRequests(db, 'main', 2);
    await addRequests(db, 'main', 3);
    expect(sum(await readRequestsOfLastHour(db, 'main'))).toEqual({ own: 5, all: 5 });
    const rows = await mirror().rows(
      'SELECT requests FROM mirror.request_counts WHERE requests = 9',
    );
    expect(rows).toEqual([]);
  });

  it('cause no error when the store fails', async () => {
    const counter = requestCounter(() => Promise.reject(new Error('gone')));
    counter.add(1);
    counter.close();
    await new Promise((resolve) => setImmediate(resolve));
  });
});
