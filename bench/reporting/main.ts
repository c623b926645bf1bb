import { readFile } from 'node:fs/promises';
import { Client } from 'pg';
import { BenchDatabase } from '../database.js';
import type { Line } from '../table.js';

/** A tenth of a second. */
const TARGET_MS = 100;

interface Timing {
  /** Planning and execution, as the server says. */
  readonly ms: number;
  /** CPU time where one process does it all; null where the system does not tell. */
  readonly cpuMs: number | null;
}

/**
 * Measures the views of schema reporting on a store that is as full as `items` calls for. Each query
 * is answered several times, and the least counts: what takes longer is the machine's other work.
 */
export async function reportingLines(items: number, repetitions: number): Promise<Line[]> {
  const database = await BenchDatabase.open();
  const client = new Client(database.url);
  try {
    await client.connect();
    process.stderr.write(`  filling a store for reports\n`);
    for (const statement of dataStatements(amountsFor(items))) await client.query(statement);
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const lines: Line[] = [];
    for (const query of QUERIES) {
      lines.push(lineOf(query, await measure(client, rows[0]?.pid ?? 0, query, repetitions)));
    }
    return lines;
  } finally {
    await client.end();
    await database.close();
  }
}

async function measure(
  client: Client,
  pid: number,
  { sql }: Query,
  repetitions: number,
): Promise<Timing> {
  const times: number[] = [];
  const cpuTimes: number[] = [];
  for (let n = 0; n < repetitions; n++) {
    times.push(await explain(client, sql));
    const cpuMs = await cpuOf(pid, () => serially(client, sql));
    if (cpuMs !== null) cpuTimes.push(cpuMs);
  }
  return {
    ms: Math.min(...times),
    cpuMs: cpuTimes.length === 0 ? null : Math.min(...cpuTimes),
  };
}

/** Milliseconds of planning and execution, as the server says. */
async function explain(client: Client, sql: string): Promise<number> {
  const { rows } = await client.query<{ 'QUERY PLAN': [Record<string, number>] }>(
    `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`,
  );
  const [plan] = rows[0]?.['QUERY PLAN'] ?? [];
  return (plan?.['Planning Time'] ?? Number.NaN) + (plan?.['Execution Time'] ?? Number.NaN);
}

/** Has one process answer, so that its CPU time is all that there is. */
async function serially(client: Client, sql: string): Promise<void> {
  await client.query('SET max_parallel_workers_per_gather = 0');
  await explain(client, sql);
  await client.query('RESET max_parallel_workers_per_gather');
}

async function cpuOf(pid: number, work: () => Promise<void>): Promise<number | null> {
  const before = await cpuNs(pid);
  await work();
  const after = await cpuNs(pid);
  return before === null || after === null ? null : (after - before) / 1e6;
}

/** Time that a process was on a CPU, in nanoseconds; null elsewhere than on Linux. */
async function cpuNs(pid: number): Promise<number | null> {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => null);
  return text === null ? null : Number(text.split(' ')[0]);
}

function lineOf({ view, what, whole = false }: Query, { ms, cpuMs }: Timing): Line {
  return {
    what: `reporting.${view}: ${what}`,
    figure: `${ms.toFixed(1)} ms`,
    ratio: cpuMs === null ? '' : `CPU ${cpuMs.toFixed(1)} ms`,
    target: whole ? '' : `<= ${TARGET_MS} ms`,
    met: whole ? null : ms <= TARGET_MS,
  };
}

/** A question that reports ask. */
export interface Query {
  readonly view: string;
  readonly what: string;
  readonly sql: string;
  /** It reads all of something large: for information, without a target. */
  readonly whole?: boolean;
}

const ITEM = `seller_id = 'large' AND item_id = 4711`;

const ago = (column: string, days: number): string =>
  `${column} >= now() - interval '${days} days'`;

/** Whole views where these are small, otherwise one item, one code, or a stretch of time. */
export const QUERIES: readonly Query[] = [
  { view: 'items', what: 'one item', sql: `SELECT * FROM reporting.items WHERE ${ITEM}` },
  {
    view: 'items',
    what: 'number by state',
    sql: 'SELECT seller_id, state, count(*) FROM reporting.items GROUP BY 1, 2',
  },
  {
    view: 'items',
    what: 'ten dearest on sale',
    sql: `SELECT item_id, name FROM reporting.items WHERE seller_id = 'large' AND state = 'live'
           ORDER BY price_regular DESC NULLS LAST LIMIT 10`,
    whole: true,
  },
  {
    view: 'items',
    what: 'changed within a day',
    sql: `SELECT * FROM reporting.items WHERE ${ago('changed_at', 1)}`,
  },
  {
    view: 'item_history',
    what: 'one item',
    sql: `SELECT * FROM reporting.item_history WHERE ${ITEM}`,
  },
  {
    view: 'items_as_of',
    what: 'one item',
    sql: `SELECT * FROM reporting.items_as_of(now() - interval '100 days') WHERE ${ITEM}`,
  },
  {
    view: 'items_as_of',
    what: 'whole catalogue',
    sql: `SELECT * FROM reporting.items_as_of(now() - interval '100 days')`,
    whole: true,
  },
  {
    view: 'item_changes',
    what: 'one item',
    sql: `SELECT * FROM reporting.item_changes WHERE ${ITEM}`,
  },
  {
    view: 'item_changes',
    what: 'the newest 1,000',
    sql: 'SELECT * FROM reporting.item_changes ORDER BY seq DESC LIMIT 1000',
  },
  {
    view: 'item_changes',
    what: '7 days',
    sql: `SELECT * FROM reporting.item_changes WHERE ${ago('changed_at', 7)}`,
  },
  {
    view: 'price_changes',
    what: 'one item',
    sql: `SELECT * FROM reporting.price_changes WHERE ${ITEM}`,
  },
  {
    view: 'price_changes',
    what: '7 days',
    sql: `SELECT * FROM reporting.price_changes WHERE ${ago('changed_at', 7)}`,
  },
  {
    view: 'price_changes',
    what: 'mean of all',
    sql: 'SELECT price, avg(percent) FROM reporting.price_changes GROUP BY price',
    whole: true,
  },
  { view: 'items_daily', what: 'whole', sql: 'SELECT * FROM reporting.items_daily' },
  {
    view: 'items_daily',
    what: '30 days of a seller',
    sql: `SELECT * FROM reporting.items_daily WHERE seller_id = 'small' AND ${ago('day', 30)}`,
  },
  { view: 'accounts', what: 'whole', sql: 'SELECT * FROM reporting.accounts' },
  { view: 'account_history', what: 'whole', sql: 'SELECT * FROM reporting.account_history' },
  {
    view: 'accounts_as_of',
    what: 'whole',
    sql: `SELECT * FROM reporting.accounts_as_of(now() - interval '100 days')`,
  },
  { view: 'balance_history', what: 'whole', sql: 'SELECT * FROM reporting.balance_history' },
  {
    view: 'purchases',
    what: 'one code',
    sql: `SELECT * FROM reporting.purchases WHERE seller_id = 'large' AND code = md5('777')::uuid::text`,
  },
  { view: 'purchases', what: 'one item', sql: `SELECT * FROM reporting.purchases WHERE ${ITEM}` },
  {
    view: 'purchases',
    what: 'support ends within 7 days',
    sql: `SELECT * FROM reporting.purchases
           WHERE supported_until BETWEEN now() AND now() + interval '7 days'`,
  },
  {
    view: 'purchases',
    what: 'bought within 7 days',
    sql: `SELECT * FROM reporting.purchases WHERE ${ago('purchased_at', 7)}`,
  },
  {
    view: 'purchases',
    what: 'number by support',
    sql: 'SELECT support, count(*) FROM reporting.purchases GROUP BY support',
    whole: true,
  },
  {
    view: 'purchase_transitions',
    what: '7 days',
    sql: `SELECT * FROM reporting.purchase_transitions WHERE ${ago('happened_at', 7)}`,
  },
  {
    view: 'purchase_transitions',
    what: 'refunds of 90 days',
    sql: `SELECT * FROM reporting.purchase_transitions
           WHERE kind = 'became-invalid' AND ${ago('happened_at', 90)}`,
  },
  { view: 'support_calendar', what: 'whole', sql: 'SELECT * FROM reporting.support_calendar' },
  {
    view: 'support_calendar',
    what: 'a seller of 30,000',
    sql: `SELECT * FROM reporting.support_calendar WHERE seller_id = 'small'`,
  },
  {
    view: 'revenue_by_item',
    what: 'one item',
    sql: `SELECT * FROM reporting.revenue_by_item WHERE ${ITEM}`,
  },
  {
    view: 'revenue_by_item',
    what: 'best 20',
    sql: `SELECT * FROM reporting.revenue_by_item WHERE currency = 'USD'
           ORDER BY revenue DESC NULLS LAST LIMIT 20`,
  },
  { view: 'revenue_by_item', what: 'whole', sql: 'SELECT * FROM reporting.revenue_by_item' },
  {
    view: 'revenue_by_month',
    what: 'a seller of 30,000',
    sql: `SELECT * FROM reporting.revenue_by_month WHERE seller_id = 'small'`,
  },
  { view: 'revenue_by_month', what: 'whole', sql: 'SELECT * FROM reporting.revenue_by_month' },
  {
    view: 'sync_runs',
    what: '30 days',
    sql: `SELECT * FROM reporting.sync_runs WHERE ${ago('started_at', 30)}`,
  },
  { view: 'freshness', what: 'whole', sql: 'SELECT * FROM reporting.freshness' },
];

/** How much of everything there is. */
export interface Amounts {
  readonly items: number;
  readonly changes: number;
  readonly versions: number;
  readonly codes: number;
  readonly checks: number;
  readonly transitions: number;
}

/** 500,000 changes, 300,000 valid purchases and 1,000,000 checks for 100,000 items. */
export function amountsFor(items: number): Amounts {
  return {
    items,
    changes: items * 5,
    versions: items * 2,
    codes: Math.ceil(items * 3.3),
    checks: items * 10,
    transitions: items * 4,
  };
}

/** Days for which the mirror has run. */
const DAYS = 730;

/** Two sellers of very different sizes; the first has nine tenths of everything. */
const SELLER = (n: string): string =>
  `(ARRAY['large', 'large', 'large', 'large', 'large', 'large', 'large', 'large', 'large', 'small'])[1 + ${n} % 10]`;

/** Evenly spread over the days, the first of `total` first. */
const AT = (n: string, total: number): string =>
  `now() - interval '${DAYS} days' * (1 - ${n}::float8 / ${total})`;

/** The run of that night: what it finds has the moment of its start. */
const NIGHT = (n: string, total: number): string =>
  `now() - interval '1 day' * ${DAYS} + interval '1 day' * (${n} * ${DAYS}::bigint / ${total})`;

/** Text of a length that is like that of real descriptions. */
const TEXT = (n: string, parts: number): string =>
  `(SELECT string_agg(md5(${n}::text || p), ' ') FROM generate_series(1, ${parts}) AS p)`;

/** Statements that fill an empty store, made in the database itself. Always the same. */
export function dataStatements(amounts: Amounts): string[] {
  const { items, changes, versions, codes, checks, transitions } = amounts;
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
                                  changed_at, synced_run_id, content_hash, extra, raw)
     SELECT s, s, 1000, 'USD', '{}', now() - interval '${DAYS} days', now(), 1, '', '{}', '{}'
       FROM unnest('{large,small}'::text[]) AS s`,

    `INSERT INTO mirror.account_versions (seller_id, username, balance, currency, social_links, first_seen_at,
                                          synced_run_id, valid_from, valid_to, superseded_run_id)
     SELECT s, s, 1000 + d, 'USD', '{}', now() - interval '${DAYS} days', 1,
            now() - interval '1 day' * (${DAYS} - d), now() - interval '1 day' * (${DAYS - 1} - d), 1
       FROM unnest('{large,small}'::text[]) AS s, generate_series(0, ${DAYS - 2}) AS d`,

    `INSERT INTO mirror.items (seller_id, item_id, name, description, category, options, version, tags,
        screenshots, price_regular, price_extended, currency, published_at, state, first_seen_at,
        changed_at, removed_at, synced_run_id, valid_from, content_hash, extra_hash, wire_hash, extra, raw)
     SELECT ${SELLER('n')}, n, 'Item ' || n, ${TEXT('n', 12)}, 'Category ' || n % 20, '{}',
            '1.' || n % 30, '{a,b,c}', '{}', 5 + n % 95, 100 + n % 900, 'USD',
            now() - interval '1 minute' * n, state::mirror.item_state, now() - interval '${DAYS} days',
            now() - interval '1 minute' * n, CASE state WHEN 'removed' THEN now() END, 1,
            now() - interval '1 minute' * n, decode(md5(n::text) || md5(n::text), 'hex'),
            decode(md5(n::text) || md5(n::text), 'hex'), '\\x0011223344556677', '{}',
            jsonb_build_object('id', n, 'description', ${TEXT('n', 25)})
       FROM generate_series(1, ${items}) AS n,
            LATERAL (SELECT CASE WHEN n % 40 = 0 THEN 'removed' WHEN n % 500 = 1 THEN 'missing'
                                 ELSE 'live' END AS state) AS s`,

    `INSERT INTO mirror.item_versions (seller_id, item_id, name, description, category, options, version,
        tags, screenshots, price_regular, price_extended, currency, state, first_seen_at, changed_at,
        synced_run_id, valid_from, valid_to, superseded_run_id)
     SELECT ${SELLER('(1 + n % ' + String(items) + ')')}, 1 + n % ${items}, 'Item ' || n, ${TEXT('n', 12)},
            'Category ' || n % 20, '{}', '1.' || n % 30, '{a,b,c}', '{}', 5 + n % 95, 100 + n % 900, 'USD',
            'live', now() - interval '${DAYS} days', ${AT('n', versions)}, 1, ${AT('n', versions)},
            ${AT(`(n + ${items})`, versions)}, 1
       FROM generate_series(1, ${versions}) AS n`,

    `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
     SELECT ${SELLER('item')}, item, 1 + n * ${DAYS * 4 - 2}::bigint / ${changes}, ${NIGHT('n', changes)},
            kind[2]::mirror.change_class, kind[1],
            CASE kind[3] WHEN 'price' THEN to_jsonb((5 + n % 95)::text || '.00')
                         WHEN 'text' THEN to_jsonb(md5(n::text)) ELSE to_jsonb(nullif(kind[3], '')) END,
            CASE kind[4] WHEN 'price' THEN to_jsonb((5 + n % 89)::text || '.00')
                         WHEN 'text' THEN to_jsonb(md5(item::text)) ELSE to_jsonb(kind[4]) END
       FROM generate_series(1, ${changes}) AS n,
            LATERAL (SELECT 1 + (n * 7919::bigint) % ${items} AS item,
                            string_to_array((ARRAY[
                              'state,added,,live', 'state,removed,live,removed',
                              'price_regular,price,price,price', 'price_extended,price,price,price',
                              'price_regular,price,price,price', 'version,release,text,text',
                              'description,text,text,text', 'name,text,text,text',
                              'thumbnail_url,media,text,text', 'tags,text,text,text'])[1 + n % 10], ',') AS kind) AS k`,

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
