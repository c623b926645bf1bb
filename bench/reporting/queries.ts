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
