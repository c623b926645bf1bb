import type { Client } from 'pg';
import { BenchDatabase } from './database.js';
import { withClient } from './servers.js';
import { bounded, milliseconds, progress, type Line } from './table.js';

/** Maximum time of a query (ms). */
const TARGET_MS = 100;

/**
 * Measures the views of schema `reporting` on a store with this many items. Each query runs several times; the
 * minimum counts, because the rest is other work of the machine.
 */
export function reportingLines(items: number, repetitions: number): Promise<Line[]> {
  return withFilledStore(items, [], async (client) => {
    const lines: Line[] = [];
    for (const query of QUERIES) lines.push(await measure(client, query, repetitions));
    return lines;
  });
}

/** Runs `work` on a store with this many items, and all that belongs to them. @param more statements that add rows */
export async function withFilledStore<T>(
  items: number,
  more: readonly string[],
  work: (client: Client, url: string) => Promise<T>,
): Promise<T> {
  const database = await BenchDatabase.open();
  try {
    progress('filling a store');
    return await withClient(database.url, async (client) => {
      for (const statement of [...dataStatements(items), ...more]) await client.query(statement);
      return work(client, database.url);
    });
  } finally {
    await database.close();
  }
}

async function measure(
  client: Client,
  [view, what, rest, columns = '*']: Query,
  repetitions: number,
): Promise<Line> {
  const times: number[] = [];
  for (let n = 0; n < repetitions; n++) {
    times.push(await explain(client, `SELECT ${columns} FROM reporting.${view} ${rest}`));
  }
  const [name, least] = [`reporting.${view}: ${what}`, Math.min(...times)];
  return bounded(name, least, WHOLE.has(what) ? null : TARGET_MS, milliseconds);
}

/** Returns the server's planning and execution time (ms). */
async function explain(client: Client, sql: string): Promise<number> {
  const { rows } = await client.query<{ 'QUERY PLAN': [Record<string, number>] }>(
    `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`,
  );
  const [plan] = rows[0]?.['QUERY PLAN'] ?? [];
  return (plan?.['Planning Time'] ?? Number.NaN) + (plan?.['Execution Time'] ?? Number.NaN);
}

/** A typical query of a view: the end of its statement, and its columns if not all. */
type Query = readonly [view: string, what: string, rest: string, columns?: string];

/** Queries that read all rows of a large view have no target. */
const WHOLE = new Set([
  'ten dearest on sale',
  'whole catalogue',
  'mean of all',
  'number by support',
]);

const ITEM = `WHERE seller_id = 'large' AND item_id = 4711`;
/** The argument of `items_as_of` and `accounts_as_of`. */
const AS_OF = `(now() - interval '100 days')`;
const SMALL = `WHERE seller_id = 'small'`;
const DEAREST = `WHERE seller_id = 'large' AND state = 'live' ORDER BY price_regular DESC NULLS LAST LIMIT 10`;
const ENDING = `WHERE supported_until BETWEEN now() AND now() + interval '7 days'`;
const REFUND = `WHERE kind = 'became-invalid'`;
const BEST = `WHERE currency = 'USD' ORDER BY revenue DESC NULLS LAST LIMIT 20`;

const ago = (column: string, days: number): string =>
  `${column} >= now() - interval '${days} days'`;

/** Small views as a whole; of large ones an item, a code or a period. */
const QUERIES: readonly Query[] = [
  ['items', 'one item', ITEM],
  ['items', 'number by state', 'GROUP BY 1, 2', 'seller_id, state, count(*)'],
  ['items', 'ten dearest on sale', DEAREST, 'item_id, name'],
  ['items', 'changed within a day', `WHERE ${ago('changed_at', 1)}`],
  ['item_history', 'one item', ITEM],
  ['items_as_of', 'one item', `${AS_OF} ${ITEM}`],
  ['items_as_of', 'whole catalogue', AS_OF],
  ['item_changes', 'one item', ITEM],
  ['item_changes', 'the newest 1,000', 'ORDER BY seq DESC LIMIT 1000'],
  ['item_changes', '7 days', `WHERE ${ago('changed_at', 7)}`],
  ['price_changes', 'one item', ITEM],
  ['price_changes', '7 days', `WHERE ${ago('changed_at', 7)}`],
  ['price_changes', 'mean of all', 'GROUP BY price', 'price, avg(percent)'],
  ['items_daily', 'whole', ''],
  ['items_daily', '30 days of a seller', `${SMALL} AND ${ago('day', 30)}`],
  ['accounts', 'whole', ''],
  ['account_history', 'whole', ''],
  ['accounts_as_of', 'whole', AS_OF],
  ['balance_history', 'whole', ''],
  ['purchases', 'one code', `WHERE seller_id = 'large' AND code = md5('777')::uuid::text`],
  ['purchases', 'one item', ITEM],
  ['purchases', 'support ends within 7 days', ENDING],
  ['purchases', 'bought within 7 days', `WHERE ${ago('purchased_at', 7)}`],
  ['purchases', 'number by support', 'GROUP BY support', 'support, count(*)'],
  ['purchase_transitions', '7 days', `WHERE ${ago('happened_at', 7)}`],
  ['purchase_transitions', 'refunds of 90 days', `${REFUND} AND ${ago('happened_at', 90)}`],
  ['support_calendar', 'whole', ''],
  ['support_calendar', 'a seller of 30,000', SMALL],
  ['revenue_by_item', 'one item', ITEM],
  ['revenue_by_item', 'best 20', BEST],
  ['revenue_by_item', 'whole', ''],
  ['revenue_by_month', 'a seller of 30,000', SMALL],
  ['revenue_by_month', 'whole', ''],
  ['sync_runs', '30 days', `WHERE ${ago('started_at', 30)}`],
  ['freshness', 'whole', ''],
];

/** Days of history. */
const DAYS = 730;

/** Two sellers of very different sizes: `large` has nine tenths of all rows. */
const SELLER = (n: string): string =>
  `(ARRAY['large', 'large', 'large', 'large', 'large', 'large', 'large', 'large', 'large', 'small'])[1 + ${n} % 10]`;

/** Spreads `total` rows evenly over the days, in order. */
const AT = (n: string, total: number): string =>
  `now() - interval '${DAYS} days' * (1 - ${n}::float8 / ${total})`;

/** Text about as long as real descriptions. */
const TEXT = (n: string, parts: number): string =>
  `(SELECT string_agg(md5(${n}::text || p), ' ') FROM generate_series(1, ${parts}) AS p)`;

/** Statements that fill an empty store, always with the same rows. */
export function dataStatements(items: number, codes = Math.ceil(items * 3.3)): string[] {
  // For 100,000 items: 500,000 changes, 300,000 valid purchases and 1,000,000 checks.
  const [changes, versions] = [items * 5, items * 2];
  const [checks, transitions] = [items * 10, items * 4];
  return [
    `INSERT INTO mirror.sellers (seller_id, marketplace, loaded_run_id, loaded_seq, created_at)
     SELECT seller_id, 'market.example', run_id, 0, now() - interval '${DAYS} days'
       FROM (VALUES ('large', 1), ('small', 2)) AS s (seller_id, run_id)`,

    `INSERT INTO mirror.runs (seller_id, kind, state, started_at, finished_at, holder, listed, added, changed)
     SELECT s, k::mirror.run_kind, (CASE WHEN d % 50 = 49 THEN 'failed' ELSE 'succeeded' END)::mirror.run_state,
            now() - interval '1 day' * (${DAYS} - d) + interval '2 minutes',
            now() - interval '1 day' * (${DAYS} - d) + interval '3 minutes', 'bench',
            ${items / 10}, CASE d WHEN 0 THEN ${items / 10} ELSE 3 END, 100
       FROM generate_series(0, ${DAYS - 1}) AS d, unnest('{items,account}'::text[]) AS k,
            unnest('{large,small}'::text[]) AS s
      ORDER BY d, k DESC, s`,

    `INSERT INTO mirror.accounts (seller_id, username, balance, currency, social_links, first_seen_at,
                                  changed_at, synced_run_id, extra, raw)
     SELECT s, s, 1000, 'USD', '{}', now() - interval '${DAYS} days', now(), 1, '{}', '{}'
       FROM unnest('{large,small}'::text[]) AS s`,

    `INSERT INTO mirror.account_versions (seller_id, username, balance, currency, social_links, first_seen_at,
                                          synced_run_id, valid_from, valid_to, superseded_run_id)
     SELECT s, s, 1000 + d, 'USD', '{}', now() - interval '${DAYS} days', 1,
            now() - interval '1 day' * (${DAYS} - d), now() - interval '1 day' * (${DAYS - 1} - d), 1
       FROM unnest('{large,small}'::text[]) AS s, generate_series(0, ${DAYS - 2}) AS d`,

    `INSERT INTO mirror.items (seller_id, item_id, name, description, category, options, version, tags,
        screenshots, price_regular, price_extended, currency, published_at, state, first_seen_at,
        changed_at, removed_at, synced_run_id, valid_from, wire_hash, extra, raw)
     SELECT ${SELLER('n')}, n, 'Item ' || n, ${TEXT('n', 12)}, 'Category ' || n % 20, '{}',
            '1.' || n % 30, ARRAY['tag ' || n % 500, 'tag ' || n % 37, 'all'], '{}', 5 + n % 95, 100 + n % 900, 'USD',
            now() - interval '1 minute' * n, state::mirror.item_state, now() - interval '${DAYS} days',
            now() - interval '1 minute' * n, CASE state WHEN 'removed' THEN now() END, 1,
            now() - interval '1 minute' * n, '\\x0011223344556677', '{}',
            json_build_object('id', n, 'description', ${TEXT('n', 25)})
       FROM generate_series(1, ${items}) AS n,
            LATERAL (SELECT CASE WHEN n % 40 = 0 THEN 'removed' WHEN n % 500 = 1 THEN 'missing'
                                 ELSE 'live' END AS state) AS s`,

    `UPDATE mirror.sellers SET (live_items, missing_items, removed_items) = (
       SELECT count(*) FILTER (WHERE state = 'live'), count(*) FILTER (WHERE state = 'missing'),
              count(*) FILTER (WHERE state = 'removed')
         FROM mirror.items i WHERE i.seller_id = sellers.seller_id)`,

    `INSERT INTO mirror.item_versions (seller_id, item_id, name, description, category, options, version,
        tags, screenshots, price_regular, price_extended, currency, state, first_seen_at, changed_at,
        synced_run_id, valid_from, valid_to, superseded_run_id)
     SELECT ${SELLER('(1 + n % ' + String(items) + ')')}, 1 + n % ${items}, 'Item ' || n, ${TEXT('n', 12)},
            'Category ' || n % 20, '{}', '1.' || n % 30, '{a,b,c}', '{}', 5 + n % 95, 100 + n % 900, 'USD',
            'live', now() - interval '${DAYS} days', ${AT('n', versions)}, 1, ${AT('n', versions)},
            ${AT(`(n + ${items})`, versions)}, 1
       FROM generate_series(1, ${versions}) AS n`,

    `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
     SELECT ${SELLER('item')}, item, r.run_id, r.started_at, kind[2]::mirror.change_class, kind[1],
            CASE kind[3] WHEN 'price' THEN to_jsonb((5 + n % 95)::text || '.00')
                         WHEN 'text' THEN to_jsonb(md5(n::text)) ELSE to_jsonb(nullif(kind[3], '')) END,
            CASE kind[4] WHEN 'price' THEN to_jsonb((5 + n % 89)::text || '.00')
                         WHEN 'text' THEN to_jsonb(md5(item::text)) ELSE to_jsonb(kind[4]) END
       FROM generate_series(1, ${changes}) AS n
       JOIN (SELECT run_id, started_at FROM mirror.runs) r ON r.run_id = 1 + n * ${DAYS * 4 - 2}::bigint / ${changes},
            LATERAL (SELECT 1 + (n * 7919::bigint) % ${items} AS item,
                            string_to_array((ARRAY[
                              'state,added,,live', 'state,removed,live,removed',
                              'price_regular,price,price,price', 'price_extended,price,price,price',
                              'price_regular,price,price,price', 'version,release,text,text',
                              'description,text,text,text', 'name,text,text,text',
                              'thumbnail_url,media,text,text', 'tags,text,text,text'])[1 + n % 10], ',') AS kind) AS k
      ORDER BY n`,

    `INSERT INTO mirror.purchase_codes (seller_id, code, verdict, proof, verdict_since, first_checked_at,
        last_checked_at, last_check_id, purchase_seen_at, answered_code, license_type, price, currency,
        item_id, item_name, item_url, supported_until, downloaded, purchased_at, raw)
     SELECT ${SELLER('item')}, code, (CASE WHEN n % 11 = 0 THEN 'invalid' ELSE 'valid' END)::mirror.code_verdict,
            'purchase', at, at, at, n, at, code, CASE WHEN n % 10 = 0 THEN 'Extended' ELSE 'Regular' END,
            CASE WHEN n % 50 > 0 THEN 5 + item % 95 END,
            CASE WHEN n % 50 > 0 THEN CASE WHEN n % 7 = 0 THEN 'EUR' ELSE 'USD' END END,
            item, 'Item ' || item, 'https://market.example/' || item,
            CASE WHEN n % 5 > 0 THEN at + interval '1 day' * (n % 365) END, n % 2 = 0, at,
            jsonb_build_object('purchase_code', code, 'license_type', 'Regular', 'price', 5 + item % 95,
                               'date', at, 'supported_until', at + interval '180 days')
       FROM generate_series(1, ${codes}) AS n,
            LATERAL (SELECT 1 + (n * 104729::bigint) % (${items} / 5) AS item, md5(n::text)::uuid::text AS code,
                            ${AT('n', codes)} AS at) AS p`,

    `INSERT INTO mirror.code_checks (seller_id, code_id, audit_id, checked_at, verdict, reason, proof,
                                     http_status, raw_hash)
     SELECT p.seller_id, p.code_id, 1, ${AT('n', checks)}, 'valid', 'answered', 'purchase', 200,
            decode(md5(n::text) || md5(n::text), 'hex')
       FROM generate_series(1, ${checks}) AS n JOIN mirror.purchase_codes p ON p.code_id = 1 + n % ${codes}`,

    `INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
     SELECT p.seller_id, p.code_id, n, ${AT('n', transitions)},
            CASE WHEN n % 5 > 0 THEN 'first-seen' WHEN n % 50 > 0 THEN 'support-expired' ELSE 'became-invalid' END,
            CASE WHEN n % 5 = 0 THEN 'active' END, CASE WHEN n % 5 = 0 THEN 'expired' ELSE 'valid' END
       FROM generate_series(1, ${transitions}) AS n JOIN mirror.purchase_codes p ON p.code_id = 1 + n % ${codes}
      ORDER BY n`,

    'VACUUM (ANALYZE)',
  ];
}
