import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Mirror } from '../support/mirror.js';
import { fillStore, ODD_CURRENCY } from './data.js';

let mirror: Mirror;
beforeAll(async () => {
  mirror = await Mirror.open();
  await fillStore(mirror);
});
afterAll(() => mirror.close());

/** Rows as arrays, each value as PostgreSQL writes it, in UTC. */
async function table(sql: string): Promise<(string | null)[][]> {
  const client = await mirror.pool.connect();
  try {
    await client.query(`SET timezone = 'UTC'`);
    const types = { getTypeParser: () => (value: string) => value };
    const { rows } = await client.query<(string | null)[]>({ text: sql, rowMode: 'array', types });
    return rows;
  } finally {
    client.release(true);
  }
}

const NEW_SELLER = `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('new', 'market.example')`;

/** A day in UTC, so many before yesterday, the day of the last night. */
const YESTERDAY = `((now() AT TIME ZONE 'UTC')::date - 1)`;
const DAYS_AGO = `${YESTERDAY} - (changed_at AT TIME ZONE 'UTC')::date`;

describe('reporting.item_changes', () => {
  it('tells what changed and nothing of first lists, with new items and states', async () => {
    const changes = await table(
      `SELECT seller_id, item_id, ${DAYS_AGO}, class, field, old_value, new_value
         FROM reporting.item_changes WHERE class NOT IN ('price', 'release') ORDER BY seq`,
    );
    expect(changes).toEqual([
      ['main', '1002', '2', 'text', 'name', expect.any(String), '"Renamed"'],
      ['main', '1007', '2', 'added', 'state', null, '"live"'],
      ['main', '1003', '2', 'removed', 'state', '"live"', '"removed"'],
      ['main', '1003', '1', 'restored', 'state', '"removed"', '"live"'],
      ['second', '1001', '1', 'text', 'name', expect.any(String), '"Renamed by itself"'],
      ['main', '1005', '0', 'missing', 'state', '"live"', '"missing"'],
      ['main', '1006', '0', 'missing', 'state', '"live"', '"missing"'],
    ]);
  });
});

describe('reporting.price_changes', () => {
  it('has amounts and currencies as they were, and percentages only of what can be compared', async () => {
    const changes = await table(
      `SELECT seller_id, item_id, ${DAYS_AGO}, price, old_price, new_price, old_currency, currency, percent
         FROM reporting.price_changes ORDER BY seq`,
    );
    expect(changes).toEqual([
      // Its currency changed by itself two nights later, which is no change of an amount.
      ['main', '1001', '2', 'regular', '10.00', '12.50', 'USD', 'USD', '25.00'],
      ['main', '1001', '2', 'extended', '50.00', '40.00', 'USD', 'USD', '-20.00'],
      ['main', '1004', '1', 'regular', '10.00', '20.00', 'USD', 'EUR', null],
      ['second', '1002', '0', 'regular', '10.00', null, 'EUR', 'EUR', null],
    ]);
  });

  it('can take every amount, from nothing and from less than nothing too', async () => {
    await mirror.pool.query(
      `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'edge', n, 1, now(), 'price', 'price_regular', old, new FROM (VALUES
         (1, '"0.00"'::jsonb, '"5.00"'::jsonb), (2, NULL, '"5.00"'), (3, '"-2.00"', '"-1.00"'),
         (4, '"0.01"', '"999999999999.99"'), (5, '"3.00"', '"4.00"')) AS t (n, old, new)`,
    );
    const percent = await table(
      `SELECT item_id, item_name, percent FROM reporting.price_changes WHERE seller_id = 'edge' ORDER BY 1`,
    );
    await mirror.pool.query(`DELETE FROM mirror.item_changes WHERE seller_id = 'edge'`);
    expect(percent).toEqual([
      ['1', null, null],
      ['2', null, null],
      ['3', null, '50.00'],
      ['4', null, '9999999999999800.00'],
      ['5', null, '33.33'],
    ]);
  });
});

describe('reporting.balance_history', () => {
  it('has a row for each balance, and none for a change of the profile', async () => {
    const balances = await table(
      `SELECT seller_id, balance, currency, change, ${YESTERDAY} - (valid_from AT TIME ZONE 'UTC')::date,
              valid_to = lead(valid_from) OVER (PARTITION BY seller_id ORDER BY valid_from)
         FROM reporting.balance_history ORDER BY seller_id, valid_from`,
    );
    expect(balances).toEqual([
      ['main', '100.00', 'USD', null, '3', 't'],
      ['main', '90.00', 'USD', '-10.00', '1', null],
      ['second', '5.00', 'USD', null, '3', null],
    ]);
    // The profile did change: three states, two balances.
    const states = await table(`SELECT FROM reporting.account_history WHERE seller_id = 'main'`);
    expect(states).toHaveLength(3);
  });
});

describe('reporting.purchases', () => {
  it('has codes known to be valid with their support, and items by the name they have now, or were told', async () => {
    const names = await table(
      `SELECT name FROM reporting.items WHERE seller_id = 'main' AND item_id = 1001`,
    );
    const name = names[0]?.[0];
    const purchases = await table(
      `SELECT seller_id, code, item_id, item_name, item_state, license_type, price, support, answered_code
         FROM reporting.purchases ORDER BY seller_id, code`,
    );
    expect(purchases).toEqual([
      ['main', 'P1', '1001', name, 'live', 'Regular', '19.90', 'active', 'p1'],
      ['main', 'P2', '1001', name, 'live', 'Regular', '0.10', 'active', 'p2'],
      ['main', 'P3', '1001', name, 'live', 'Regular', '10.00', 'expired', 'p3'],
      ['main', 'P4', '1001', name, 'live', 'Regular', null, 'none', 'p4'],
      ['main', 'P5', '9999', 'Ghost II', null, 'Extended', '5.00', 'expired', 'p5'],
      ['main', 'P9', null, null, null, 'Regular', null, 'none', 'p9'],
      ['second', 'P1', '1001', 'Renamed by itself', 'live', 'Regular', '7.77', 'none', 'p1'],
    ]);
  });

  it('tells since when a code is valid, and when that was last proven', async () => {
    const moments = await table(
      `SELECT valid_since, first_checked_at, last_checked_at FROM reporting.purchases WHERE code = 'P5'`,
    );
    expect(moments).toEqual([
      ['2026-01-01 00:04:00+00', '2026-01-01 00:04:00+00', '2026-01-01 01:00:00+00'],
    ]);
  });
});

describe('reporting.purchase_transitions', () => {
  it('tells how codes came to be what they are, refunded ones too', async () => {
    const transitions = await table(
      `SELECT code, item_id, kind, old_value, new_value FROM reporting.purchase_transitions
        WHERE seller_id = 'main' ORDER BY seq`,
    );
    expect(transitions).toEqual([
      ['P5', '9999', 'license-changed', 'Regular', 'Extended'],
      ['P6', '1003', 'became-invalid', 'valid', 'no_longer_valid'],
    ]);
  });
});

describe('reporting.support_calendar', () => {
  it('counts valid purchases by the month in UTC in which their support ends', async () => {
    expect(
      await table('SELECT * FROM reporting.support_calendar ORDER BY seller_id, month'),
    ).toEqual([
      ['main', '2025-07-01', '2', '0', '2'],
      ['main', '2999-01-01', '2', '2', '0'],
    ]);
  });
});

describe('reporting.revenue_by_item', () => {
  it('adds no different currencies, leaves refunds out, counts prices that are not known apart, and names items that the mirror does not hold as told last', async () => {
    const revenue = await table(
      `SELECT item_id, CASE item_id WHEN 9999 THEN item_name ELSE left(item_name, 0) END, currency, purchases,
              without_price, revenue, first_purchased_at::date, last_purchased_at
         FROM reporting.revenue_by_item WHERE seller_id = 'main' ORDER BY item_id, currency`,
    );
    expect(revenue).toEqual([
      ['1001', '', 'EUR', '1', '0', '10.00', '2025-02-01', '2025-02-01 00:00:00+00'],
      ['1001', '', 'USD', '2', '0', '20.00', '2025-01-02', '2025-01-31 23:59:59.999999+00'],
      ['1001', '', null, '1', '1', null, null, null],
      ['9999', 'Ghost II', 'USD', '1', '0', '5.00', null, null],
      [null, null, null, '1', '1', null, null, null],
    ]);
  });

  it('keeps currencies that are too long for any index', async () => {
    const odd = `SELECT revenue, currency FROM reporting.revenue_by_item WHERE seller_id = 'second'`;
    expect(await table(odd)).toEqual([['7.77', ODD_CURRENCY]]);
  });
});

describe('reporting.revenue_by_month', () => {
  it('adds up by month of purchase in UTC, to the last microsecond', async () => {
    const revenue = await table(
      `SELECT month, currency, purchases, without_price, revenue FROM reporting.revenue_by_month
        WHERE seller_id = 'main' ORDER BY month, currency`,
    );
    expect(revenue).toEqual([
      ['2025-01-01', 'USD', '2', '0', '20.00'],
      ['2025-02-01', 'EUR', '1', '0', '10.00'],
      [null, 'USD', '1', '0', '5.00'],
      [null, null, '2', '2', null],
    ]);
  });

  it('holds what the other view holds', async () => {
    const [item, month] = await Promise.all(
      ['item', 'month'].map((by) =>
        table(
          `SELECT seller_id, currency, sum(purchases), sum(without_price), sum(revenue)
             FROM reporting.revenue_by_${by} GROUP BY 1, 2 ORDER BY 1, 2`,
        ),
      ),
    );
    expect(item).toEqual(month);
  });
});

describe('a purchase whose code was audited in several spellings', () => {
  const SUMS = [
    'SELECT * FROM reporting.revenue_by_item ORDER BY seller_id, item_id, currency',
    'SELECT * FROM reporting.revenue_by_month ORDER BY seller_id, month, currency',
    'SELECT * FROM reporting.support_calendar ORDER BY seller_id, month',
  ];
  /** Enters all valid codes once more, spelled otherwise. */
  const respell = (spelling: string): string =>
    `INSERT INTO mirror.purchase_codes
     SELECT (jsonb_populate_record(p, jsonb_build_object(
              'code_id', 1000 + p.code_id + (SELECT max(code_id) FROM mirror.purchase_codes),
              'code', ${spelling}))).*
       FROM mirror.purchase_codes AS p WHERE verdict = 'valid' AND code LIKE 'P_'`;

  it.each([
    ['the marketplace’s own among them', [respell('lower(code)')]],
    ['none of them the marketplace’s own', [respell(`code || ' '`)]],
    ['three of them', [respell(`code || ' '`), respell('lower(code)')]],
    [
      'the marketplace’s own in another case by now',
      [
        respell('lower(code)'),
        `UPDATE mirror.purchase_codes SET answered_code = upper(code)
          WHERE verdict = 'valid' AND code = lower(code)`,
      ],
    ],
  ])('counts once in sums: %s', async (_, respellings) => {
    const client = await mirror.pool.connect();
    const sums = async (): Promise<unknown[]> => {
      const results = [];
      for (const sql of SUMS) results.push((await client.query(sql)).rows);
      return results;
    };
    try {
      await client.query('BEGIN');
      const before = await sums();
      for (const sql of respellings) expect((await client.query(sql)).rowCount).toBe(7);
      expect(await sums()).toEqual(before);
    } finally {
      await client.query('ROLLBACK');
      client.release();
    }
  });
});

describe('reporting.items_daily', () => {
  const DAILY = `SELECT ${YESTERDAY} - day, live, missing, added, restored, removed, changed, runs
      FROM reporting.items_daily WHERE day <= ${YESTERDAY}`;

  it('has every day from the first list on, with what happened and how many there were', async () => {
    expect(await table(`${DAILY} AND seller_id = 'main' ORDER BY day`)).toEqual([
      ['3', '6', '0', '6', '0', '0', '0', '1'],
      ['2', '6', '0', '1', '0', '1', '2', '1'],
      ['1', '7', '0', '0', '1', '0', '1', '1'],
      ['0', '5', '2', '0', '0', '0', '2', '1'],
    ]);
  });

  it('has days on which no run went well, too, and what runs of one item found', async () => {
    expect(await table(`${DAILY} AND seller_id = 'second' ORDER BY day`)).toEqual([
      ['3', '2', '0', '2', '0', '0', '0', '1'],
      ['2', '2', '0', '0', '0', '0', '0', '0'],
      ['1', '2', '0', '0', '0', '0', '1', '0'],
      ['0', '2', '0', '0', '0', '0', '1', '1'],
    ]);
  });

  it('goes on to today', async () => {
    const last = `SELECT seller_id, (now() AT TIME ZONE 'UTC')::date - max(day) FROM reporting.items_daily GROUP BY 1 ORDER BY 1`;
    expect(await table(last)).toEqual([
      ['main', '0'],
      ['second', '0'],
    ]);
  });

  it('counts the items that there were at the end of each day', async () => {
    const counted = await table(
      `SELECT d.seller_id, d.day, d.live, d.missing, count(i) FILTER (WHERE i.state = 'live'),
              count(i) FILTER (WHERE i.state = 'missing')
         FROM reporting.items_daily d,
              reporting.items_as_of((d.day + 1)::timestamp AT TIME ZONE 'UTC' - interval '1 microsecond') i
        WHERE i.seller_id = d.seller_id GROUP BY 1, 2, 3, 4`,
    );
    expect(counted.length).toBeGreaterThanOrEqual(10);
    for (const [, , live, missing, ...of] of counted) expect([live, missing]).toEqual(of);
  });

  it('loses and finds no item: each day is the one before, and what happened', async () => {
    const wrong = await table(
      `SELECT * FROM (
         SELECT *, lag(live + missing, 1, 0::bigint) OVER (PARTITION BY seller_id ORDER BY day) AS before
           FROM reporting.items_daily) d
        WHERE live + missing <> before + added + restored - removed`,
    );
    expect(wrong).toEqual([]);
  });

  it('has nothing of sellers whose list was never taken in', async () => {
    await mirror.rows(NEW_SELLER);
    const rows = await table(`SELECT FROM reporting.items_daily WHERE seller_id = 'new'`);
    await mirror.pool.query(`DELETE FROM mirror.sellers WHERE seller_id = 'new'`);
    expect(rows).toEqual([]);
  });
});

describe('reporting.freshness', () => {
  it('tells when each part was last mirrored well, and how many items there are', async () => {
    const fresh = await table(
      `SELECT f.seller_id, ${YESTERDAY} - (account_mirrored_at AT TIME ZONE 'UTC')::date,
              ${YESTERDAY} - (items_mirrored_at AT TIME ZONE 'UTC')::date,
              items_age_seconds = floor(extract(epoch FROM now() - items_mirrored_at)),
              account_age_seconds >= items_age_seconds, live_items, missing_items, removed_items, parked_at
         FROM reporting.freshness f ORDER BY 1`,
    );
    expect(fresh).toEqual([
      ['main', '0', '0', 't', 't', '5', '2', '0', null],
      ['second', '3', '0', 't', 't', '2', '0', '0', null],
    ]);
  });

  it('has a seller that was never mirrored, with nothing', async () => {
    await mirror.rows(NEW_SELLER);
    const rows = await table(`SELECT * FROM reporting.freshness WHERE seller_id = 'new'`);
    await mirror.pool.query(`DELETE FROM mirror.sellers WHERE seller_id = 'new'`);
    expect(rows).toEqual([
      ['new', 'market.example', null, null, null, null, '0', '0', '0', null, null],
    ]);
  });
});

describe('the views of rows as they are kept', () => {
  it('tell of runs what a person is told, and fields that changed in the whole catalogue', async () => {
    const runs = await table(
      `SELECT kind, state, wide_fields, job_id FROM reporting.sync_runs
        WHERE seller_id = 'second' ORDER BY run_id`,
    );
    expect(runs).toEqual([
      ['account', 'succeeded', '{}', null],
      ['items', 'succeeded', '{}', null],
      ['items', 'failed', '{}', null],
      ['item', 'succeeded', '{}', null],
      ['items', 'succeeded', '{}', null],
    ]);
  });

  it('hold the present state, and those before it', async () => {
    const states = await table(
      `SELECT state, removed_at IS NULL, valid_to IS NULL FROM reporting.item_history
        WHERE seller_id = 'main' AND item_id = 1003 ORDER BY valid_from`,
    );
    expect(states).toEqual([
      ['live', 't', 'f'],
      ['removed', 'f', 'f'],
      ['live', 't', 't'],
    ]);
    const counts = await table(
      `SELECT (SELECT count(*) FROM reporting.items), (SELECT count(*) FROM reporting.accounts),
              (SELECT count(*) FROM reporting.item_history WHERE valid_to IS NULL),
              (SELECT count(*) FROM reporting.accounts_as_of(now()))`,
    );
    expect(counts).toEqual([['9', '2', '9', '2']]);
  });
});
