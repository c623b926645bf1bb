import type { Pool } from 'pg';
import { type FieldType, ITEM_FIELDS } from '../../src/domain/item.js';

const columns = (text: string): readonly string[] => text.trim().split(/,\s+/);

/** As columns of functions, which have no precision. */
const plain = (list: readonly string[]): readonly string[] =>
  list.map((column) => column.replace('numeric(14,2)', 'numeric'));

const ITEM = columns(`
  seller_id text, item_id bigint, name text, description text, category text, sub_category text,
  options text[], version text, demo_link text, tags text[], thumbnail_url text,
  preview_image_url text, preview_video_url text, preview_audio_url text, screenshots text[],
  price_regular numeric(14,2), price_extended numeric(14,2), currency text,
  published_at timestamptz, state text, first_seen_at timestamptz, changed_at timestamptz,
  removed_at timestamptz, synced_run_id bigint`);

const TYPES: Readonly<Record<FieldType, string>> = {
  ...{
    text: 'text',
    texts: 'text[]',
    integer: 'bigint',
    money: 'numeric(14,2)',
    time: 'timestamptz',
  },
};

/** Fields beyond the marketplace's documentation; then fields that were added to the table of fields since. */
const EXTRA = [
  'extra jsonb',
  ...ITEM_FIELDS.map(({ column, type }) => `${column} ${TYPES[type]}`).filter(
    (column) => !ITEM.includes(column),
  ),
];

const ACCOUNT = columns(`
  seller_id text, username text, firstname text, lastname text, full_name text, email text,
  balance numeric(14,2), currency text, heading text, description text, contact_email text,
  social_links jsonb, avatar_url text, cover_url text, registered_at timestamptz,
  first_seen_at timestamptz`);

const PRESENT = columns('changed_at timestamptz, synced_run_id bigint');

const PERIOD = columns('valid_from timestamptz, valid_to timestamptz, superseded_run_id bigint');

/**
 * What schema `reporting` promises to reports: its views and functions, and their columns with types,
 * in order. Columns may be added at the end of a view; anything else breaks somebody's report.
 */
export const CONTRACT: Readonly<Record<string, readonly string[]>> = {
  items: [...ITEM, ...EXTRA],
  item_history: [...ITEM, ...PERIOD, ...EXTRA],
  'items_as_of(timestamptz)': plain([...ITEM, ...EXTRA]),
  item_changes: columns(`
    seq bigint, seller_id text, item_id bigint, run_id bigint, changed_at timestamptz, class text,
    field text, old_value jsonb, new_value jsonb`),
  price_changes: columns(`
    seq bigint, seller_id text, item_id bigint, item_name text, run_id bigint,
    changed_at timestamptz, price text, old_price numeric(14,2), new_price numeric(14,2),
    old_currency text, currency text, percent numeric(24,2)`),
  items_daily: columns(`
    seller_id text, day date, live bigint, missing bigint, added bigint, restored bigint,
    removed bigint, changed bigint, runs bigint`),
  accounts: [...ACCOUNT, ...PRESENT],
  account_history: [...ACCOUNT, 'synced_run_id bigint', ...PERIOD],
  'accounts_as_of(timestamptz)': plain([...ACCOUNT, ...PRESENT]),
  balance_history: columns(`
    seller_id text, balance numeric(14,2), currency text, change numeric(15,2),
    valid_from timestamptz, valid_to timestamptz`),
  purchases: columns(`
    code_id bigint, seller_id text, code text, item_id bigint, item_name text, item_state text,
    license_type text, price numeric(14,2), currency text, purchased_at timestamptz,
    supported_until timestamptz, support text, downloaded boolean, valid_since timestamptz,
    first_checked_at timestamptz, last_checked_at timestamptz, answered_code text`),
  listed_codes: columns(`
    seller_id text, audit_id bigint, line integer, code_id bigint, code text, answered_code text,
    verdict text, list text, listed_at timestamptz, columns jsonb`),
  purchase_transitions: columns(`
    seq bigint, seller_id text, code_id bigint, code text, item_id bigint, item_name text,
    happened_at timestamptz, kind text, old_value text, new_value text`),
  support_calendar: columns(`
    seller_id text, month date, purchases bigint, active bigint, expired bigint`),
  revenue_by_item: columns(`
    seller_id text, item_id bigint, item_name text, currency text, purchases bigint,
    without_price bigint, revenue numeric(24,2), first_purchased_at timestamptz,
    last_purchased_at timestamptz`),
  revenue_by_month: columns(`
    seller_id text, month date, currency text, purchases bigint, without_price bigint,
    revenue numeric(24,2)`),
  sync_runs: columns(`
    run_id bigint, seller_id text, kind text, state text, started_at timestamptz,
    finished_at timestamptz, holder text, listed integer, added integer, changed integer,
    extra_changed integer, unchanged integer, restored integer, missing integer, removed integer,
    quarantined integer, duplicates integer, api_calls integer, bytes bigint, tolerated jsonb,
    warnings text[], problem_code text, problem text, job_id text, wide_fields text[],
    decision text, decided_at timestamptz, decided_by text, approval_run_id bigint`),
  freshness: columns(`
    seller_id text, marketplace text, account_mirrored_at timestamptz, account_age_seconds bigint,
    items_mirrored_at timestamptz, items_age_seconds bigint, live_items bigint,
    missing_items bigint, removed_items bigint, parked_at timestamptz,
    parked_code text`),
};

/** As PostgreSQL calls a column's type, but for moments, which all have microseconds. */
const TYPE = `regexp_replace(format_type(a.atttypid, a.atttypmod), '^timestamp.* with time zone$', 'timestamptz')`;

/** What schema reporting offers: views, and functions by their signature, with columns in order. */
export async function offered(pool: Pool): Promise<Record<string, string[]>> {
  const { rows } = await pool.query<{ name: string; columns: string[] }>(
    `SELECT c.relname AS name, array_agg(a.attname || ' ' || ${TYPE} ORDER BY a.attnum) AS columns
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
      WHERE c.relnamespace = 'reporting'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'f', 'p')
      GROUP BY c.oid
     UNION ALL
     SELECT format('%s(%s)', p.proname, replace(oidvectortypes(p.proargtypes), 'timestamp with time zone', 'timestamptz')),
            array_agg(name || ' ' || replace(format_type(type, NULL), 'timestamp with time zone', 'timestamptz') ORDER BY place) FILTER (WHERE mode = 't')
       FROM pg_proc p, unnest(p.proargnames, p.proallargtypes, p.proargmodes) WITH ORDINALITY AS a (name, type, mode, place)
      WHERE p.pronamespace = 'reporting'::regnamespace
      GROUP BY p.oid`,
  );
  return Object.fromEntries(rows.map(({ name, columns }) => [name, columns]));
}
