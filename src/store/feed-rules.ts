/**
 * How a view is followed. Statements have the cursor's number as $1 and its moment as $2.
 */
export interface FeedRule {
  /** Columns that identify a row. A row that is gone has only these. */
  readonly key: readonly string[];
  /** SQL of rows that show something else only because time went by; null: there are none. */
  readonly byTime: string | null;
  /** SQL of the rows after the cursor, with `_deleted`; `columns` are those of the view. */
  readonly since: (columns: readonly string[]) => string;
  /** SQL of all rows, where an export has others than the view. */
  readonly whole?: (columns: readonly string[]) => string;
}

const FIRST_LISTS = `
  SELECT i.seller_id, i.item_id, 0 AS run_id
    FROM mirror.items i JOIN mirror.sellers s ON s.seller_id = i.seller_id WHERE s.loaded_seq > $1`;

/** Items whose state was written without a change in the feed: undecided ones, and those found again. */
const UNTOLD_STATES = `
  SELECT seller_id, item_id, run_id FROM mirror.undecided_items WHERE seq > $1
  UNION ALL SELECT seller_id, item_id, run_id FROM mirror.item_lookups WHERE found_seq > $1`;

/** SQL of the items that were written after the cursor, each with the first run that did. */
function toldItems(which = 'true'): string {
  return `
  SELECT seller_id, item_id, min(run_id) AS run_id
    FROM (SELECT seller_id, item_id, run_id FROM mirror.item_changes WHERE seq > $1 AND ${which}
          UNION ALL ${FIRST_LISTS} UNION ALL ${UNTOLD_STATES}) AS t
   GROUP BY seller_id, item_id`;
}

/** The view's rows of those items. */
function rowsOfItems(view: string, told: string, where = 'true'): string {
  return `WITH told AS (${told})
    SELECT v.*, false AS _deleted
      FROM told t JOIN ${view} v ON v.seller_id = t.seller_id AND v.item_id = t.item_id
     WHERE ${where}`;
}

/**
 * SQL of the history of items as far as it is told: a look-up can still take back that an undecided
 * item is missing, and rows of history never go.
 */
function toldHistory(columns: readonly string[]): string {
  const ends = new Set(['valid_to', 'superseded_run_id']);
  const values = columns.map((name) =>
    ends.has(name) ? `CASE WHEN u.item_id IS NULL THEN h.${name} END AS ${name}` : `h.${name}`,
  );
  return `(
    SELECT ${values.join(', ')}
      FROM reporting.item_history h
      LEFT JOIN mirror.undecided_items u ON u.seller_id = h.seller_id AND u.item_id = h.item_id
        AND (h.valid_to IS NULL OR h.superseded_run_id = u.run_id)
     WHERE u.item_id IS NULL OR h.valid_to IS NOT NULL)`;
}

/** What purchases show of items: their names and states. */
const NAMED_ITEMS = toldItems(`field IN ('name', 'state')`);

/** Codes that were written after the cursor, and those of items whose name or state was. */
const CHANGED_CODES = `
  told AS (${NAMED_ITEMS}), changed AS (
    SELECT code_id FROM mirror.purchase_codes WHERE changed_seq > $1
    UNION
    SELECT p.code_id FROM told t JOIN mirror.purchase_codes p
        ON p.seller_id = t.seller_id AND p.item_id = t.item_id`;

/** The moments between that of the cursor and now, whichever way the clock went. */
const MEANWHILE = `coalesce($2::timestamptz, '-infinity')`;

/** Purchases whose support has ended meanwhile, or has begun again because the clock was set back. */
const SUPPORT_ENDED = `
    SELECT code_id FROM mirror.purchase_codes
     WHERE verdict = 'valid' AND supported_until > least(${MEANWHILE}, now())
       AND supported_until <= greatest(${MEANWHILE}, now())`;

const RULES: Readonly<Record<string, FeedRule>> = {
  items: {
    key: ['seller_id', 'item_id'],
    byTime: null,
    since: () => rowsOfItems('reporting.items', toldItems()),
  },
  // Runs of a seller come one after the other: what an earlier one superseded is known.
  item_history: {
    key: ['seller_id', 'item_id', 'valid_from'],
    byTime: null,
    whole: toldHistory,
    since: (columns) =>
      rowsOfItems(
        toldHistory(columns),
        toldItems(),
        'v.valid_to IS NULL OR v.superseded_run_id >= t.run_id',
      ),
  },
  item_changes: {
    key: ['seq'],
    byTime: null,
    since: () => 'SELECT v.*, false AS _deleted FROM reporting.item_changes v WHERE v.seq > $1',
  },
  // They show the item's name, and currencies that are read from its other changes.
  price_changes: {
    key: ['seq'],
    byTime: null,
    since: () =>
      rowsOfItems('reporting.price_changes', toldItems(`(class = 'price' OR field = 'name')`)),
  },
  // A code that was never valid was never exported, so it is not exported as deleted either. OFFSET 0 has
  // each changed code looked up: taken together with the view, one change made PostgreSQL read all codes.
  purchases: {
    key: ['code_id'],
    byTime: SUPPORT_ENDED,
    since: (columns) => `WITH ${CHANGED_CODES}
    UNION ${SUPPORT_ENDED}
  )
  SELECT ${columns
    .map((name) => `${PURCHASE_KEYS.has(name) ? 'p' : 'v'}."${name}"`)
    .join(', ')}, v.code_id IS NULL AS _deleted
    FROM changed c JOIN mirror.purchase_codes p ON p.code_id = c.code_id
    LEFT JOIN LATERAL (
      SELECT * FROM reporting.purchases WHERE code_id = c.code_id OFFSET 0) AS v ON true
   WHERE v.code_id IS NOT NULL OR (p.changed_seq > $1 AND p.purchase_seen_at IS NOT NULL)`,
  },
  // They show the item's name and the code's item, and no code has many.
  purchase_transitions: {
    key: ['seq'],
    byTime: null,
    since: () => `WITH ${CHANGED_CODES}
  )
  SELECT v.*, false AS _deleted
    FROM changed c JOIN reporting.purchase_transitions v ON v.code_id = c.code_id`,
  },
};

/** Columns of a purchase that is gone: its key and its code. */
const PURCHASE_KEYS = new Set(['code_id', 'seller_id', 'code']);

/** How a view is followed; null for those that are exported whole each time. */
export function feedRule(view: string): FeedRule | null {
  return Object.hasOwn(RULES, view) ? (RULES[view] ?? null) : null;
}

export const FOLLOWED_VIEWS: readonly string[] = Object.keys(RULES);
