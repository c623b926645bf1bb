import { type Client, escapeLiteral } from 'pg';
import type { ViewColumn, ReadView } from './views.js';
import { withOwnClient } from '../db/pools.js';
import { type Db, inTransaction } from '../db/db.js';
import { AS_TEXT, openTextCursor } from '../db/text-cursor.js';

/** A report. Its chart, table, downloads and copied SQL all come from one statement. */
interface ReportRule {
  readonly select: string;
  /** @param since first day of the period; null: all */
  readonly from: (since: string | null) => string;
  /** The column whose days are in the period. */
  readonly day?: string;
  /** Conditions in addition to the seller. */
  readonly where?: string;
  readonly group?: string;
  readonly order: string;
  /** SQL of the rows that the page shows. @param all the statement without its order */
  readonly shown: (all: string) => string;
}

/** SQL of what `reporting.revenue_by_item` says of all purchases, for those since a day. */
const revenueByItemSince = (since: string): string => `(
    SELECT p.seller_id, p.item_id, max(p.item_name) AS item_name, p.currency, count(*) AS purchases,
           count(*) - count(p.price) AS without_price, sum(p.price)::numeric(24,2) AS revenue
      FROM reporting.purchases AS p
     WHERE p.purchased_at >= ${escapeLiteral(`${since}T00:00:00Z`)}
       AND NOT EXISTS (SELECT FROM mirror.repeated_sales AS s WHERE s.code_id = p.code_id)
     GROUP BY p.seller_id, p.item_id, p.currency) AS revenue_by_item`;

const RULES = {
  'revenue-by-month': {
    select: `month, currency, sum(purchases)::bigint AS purchases,
       sum(without_price)::bigint AS without_price, sum(revenue)::numeric(24,2) AS revenue`,
    from: () => 'reporting.revenue_by_month',
    day: 'month',
    group: 'month, currency',
    order: 'month, currency',
    shown: (all) => `${all} ORDER BY month DESC NULLS LAST, currency LIMIT 240`,
  },
  'revenue-by-item': {
    select: 'seller_id, item_id, item_name, currency, purchases, without_price, revenue',
    from: (since) => (since === null ? 'reporting.revenue_by_item' : revenueByItemSince(since)),
    order: 'currency, revenue DESC NULLS LAST, seller_id, item_id',
    // The top items of each currency, since amounts in different currencies can't be compared.
    shown: (all) =>
      `SELECT seller_id, item_id, left(item_name, 300) AS item_name, currency, purchases,
              without_price, revenue
         FROM (SELECT r.*, row_number() OVER (PARTITION BY currency
                                              ORDER BY revenue DESC NULLS LAST, seller_id, item_id) AS place,
                      sum(purchases) OVER (PARTITION BY currency) AS sold
                 FROM (${all}) AS r) AS placed
        WHERE place <= 12 ORDER BY sold DESC, currency, place LIMIT 60`,
  },
  'support-calendar': {
    select: `month, sum(purchases)::bigint AS purchases, sum(active)::bigint AS active,
       sum(expired)::bigint AS expired`,
    from: () => 'reporting.support_calendar',
    group: 'month',
    order: 'month',
    shown: (all) =>
      `SELECT * FROM (${all}) AS calendar
        WHERE month >= date_trunc('month', now() AT TIME ZONE 'UTC') ORDER BY month LIMIT 12`,
  },
  'price-moves': {
    select: `changed_at, seller_id, item_id, item_name, price, old_price, old_currency, new_price,
       currency, percent`,
    from: () => 'reporting.price_changes',
    where: `changed_at >= now() - interval '90 days'`,
    order: 'changed_at DESC, seller_id, item_id, price',
    shown: (all) =>
      `SELECT changed_at, seller_id, item_id, left(item_name, 300) AS item_name, price, old_price,
              old_currency, new_price, currency, percent
         FROM (${all}) AS moves WHERE percent IS NOT NULL
        ORDER BY abs(percent) DESC, changed_at DESC LIMIT 15`,
  },
  'catalogue-size': {
    select: `day, sum(live)::bigint AS live, sum(missing)::bigint AS missing, sum(added)::bigint AS added,
       sum(removed)::bigint AS removed, sum(changed)::bigint AS changed`,
    from: () => 'reporting.items_daily',
    day: 'day',
    group: 'day',
    order: 'day',
    shown: (all) => `${all} ORDER BY day DESC LIMIT 366`,
  },
} satisfies Readonly<Record<string, ReportRule>>;

export type ReportName = keyof typeof RULES;

export const REPORTS = Object.keys(RULES) as ReportName[];

/** What of a report is wanted. */
export interface ReportOf {
  readonly report: ReportName;
  /** Null: all sellers. */
  readonly sellerId: string | null;
  /** The first day of the period, such as `2026-01-01`; null: all. Reports about the future and the last 90 days have their own. */
  readonly since: string | null;
}

/** A report's statement, as users can run it. */
export function reportSql(of: ReportOf): string {
  return `${unordered(of)}\n ORDER BY ${RULES[of.report].order}`;
}

function unordered({ report, sellerId, since }: ReportOf): string {
  const { select, from, day, where, group }: ReportRule = RULES[report];
  const conditions = [
    sellerId === null ? undefined : `seller_id = ${escapeLiteral(sellerId)}`,
    since === null || day === undefined ? undefined : `${day} >= ${escapeLiteral(since)}`,
    where,
  ].filter((condition) => condition !== undefined);
  return [
    `SELECT ${select}`,
    `  FROM ${from(since)}`,
    ...(conditions.length === 0 ? [] : [` WHERE ${conditions.join(' AND ')}`]),
    ...(group === undefined ? [] : [` GROUP BY ${group}`]),
  ].join('\n');
}

/** A row of a report by column. Each value is PostgreSQL's text representation or null. */
export type ReportRow = Readonly<Record<string, string | null>>;

/** The contents of the reports page, all from one snapshot. */
export interface ReportFigures extends Readonly<Record<ReportName, readonly ReportRow[]>> {
  readonly at: Date;
  /** Number of prices raised and cut per week (Monday in UTC) in the last 90 days. */
  readonly moveWeeks: readonly ReportRow[];
  /** Codes that were ever checked: the API lists no sales, so revenue covers these only. */
  readonly checkedCodes: number;
  /** Purchases that were valid and no longer are, newest first, with the month they are missing from. */
  readonly noLongerValid: readonly ReportRow[];
}

/** Purchases that the page names. */
const MAX_NO_LONGER_VALID = 100;

const READ_ONLY = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY';

/**
 * Reads all reports. Revenue by month goes back to the first purchase whatever the period, for comparison with a year
 * before.
 */
export function readReportFigures(
  db: Db,
  { sellerId, since }: Pick<ReportOf, 'sellerId' | 'since'>,
): Promise<ReportFigures> {
  const at = new Date();
  return inTransaction(
    db,
    async (client) => {
      const rows = async (sql: string): Promise<ReportRow[]> => {
        const query = { text: sql, types: AS_TEXT };
        return (await client.query<Record<string, string | null>>(query)).rows;
      };
      const shown = {} as Record<ReportName, ReportRow[]>;
      for (const report of REPORTS) {
        const from = report === 'revenue-by-month' ? null : since;
        shown[report] = await rows(
          RULES[report].shown(unordered({ report, sellerId, since: from })),
        );
      }
      const moveWeeks = await rows(
        `SELECT date_trunc('week', changed_at)::date AS week,
                count(*) FILTER (WHERE percent > 0) AS raised,
                count(*) FILTER (WHERE percent < 0) AS cut
           FROM (${unordered({ report: 'price-moves', sellerId, since })}) AS moves GROUP BY 1 ORDER BY 1`,
      );
      const own = sellerId === null ? '' : ` AND p.seller_id = ${escapeLiteral(sellerId)}`;
      const [checked] = await rows(
        `SELECT count(*) AS codes FROM mirror.purchase_codes p WHERE last_checked_at IS NOT NULL${own}`,
      );
      const noLongerValid = await rows(
        `SELECT p.code_id, p.seller_id, p.item_id, left(coalesce(i.name, p.item_name), 300) AS item_name,
                date_trunc('month', p.purchased_at AT TIME ZONE 'UTC')::date AS month, p.price, p.currency,
                to_char(p.verdict_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS since
           FROM mirror.purchase_codes p
           LEFT JOIN mirror.items i ON i.seller_id = p.seller_id AND i.item_id = p.item_id
          WHERE p.verdict = 'no_longer_valid'${own}
          ORDER BY p.verdict_since DESC, p.code_id LIMIT ${MAX_NO_LONGER_VALID}`,
      );
      const checkedCodes = Number(checked?.['codes'] ?? 0);
      return { at, ...shown, moveWeeks, checkedCodes, noLongerValid };
    },
    READ_ONLY,
  );
}

/** The number of rows of a report. */
export function countReportRows(db: Db, of: ReportOf): Promise<number> {
  return inTransaction(
    db,
    async (client) => {
      const counted = await client.query<{ rows: number }>(
        `SELECT count(*)::float8 AS rows FROM (${unordered(of)}) AS report`,
      );
      return counted.rows[0]?.rows ?? 0;
    },
    READ_ONLY,
  );
}

/**
 * Passes all rows of a report, from one snapshot, to `consume`, in bounded memory. Uses its own connection.
 * `signal` ends it.
 */
export function downloadReport<T>(
  { url }: Db,
  of: ReportOf,
  signal: AbortSignal,
  consume: (rows: Pick<ReadView, 'columns' | 'batches'>) => Promise<T>,
): Promise<T> {
  return withOwnClient(url, 'report', signal, async (client) => {
    await client.query(`BEGIN; ${READ_ONLY}; SET LOCAL statement_timeout = 0`);
    const sql = reportSql(of);
    const columns = await columnsOf(client, sql);
    const { batches, close } = await openTextCursor(client, sql);
    const result = await consume({ columns, batches });
    await close();
    return result;
  });
}

/** The columns that a statement returns. */
async function columnsOf(client: Client, sql: string): Promise<ViewColumn[]> {
  const { fields } = await client.query(`SELECT * FROM (${sql}) AS rows LIMIT 0`);
  const { rows } = await client.query<{ type: string }>(
    `SELECT format_type(oid, modifier) AS type
       FROM unnest($1::oid[], $2::int[]) WITH ORDINALITY AS t (oid, modifier, n) ORDER BY n`,
    [fields.map(({ dataTypeID }) => dataTypeID), fields.map((field) => field.dataTypeModifier)],
  );
  return rows.map(({ type }, n) => ({ name: fields[n]?.name ?? '', type }));
}
