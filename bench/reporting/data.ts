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
