/** How to export only the changed rows of a view. In its SQL, $1 is the cursor's number and $2 its time. */
export interface FollowRule {
  /** Columns that identify a row. A deleted row has only these. */
  readonly key: readonly string[];
  /** SQL of the rows whose values changed only because time passed; null: there are none. */
  readonly byTime: string | null;
  /** SQL of the rows changed after the cursor, with `_deleted`. `columns` are the view's columns. */
  readonly since: (columns: readonly string[]) => string;
}

const FIRST_LISTS = `
  SELECT i.seller_id, i.item_id, 0 AS run_id
    FROM mirror.items i JOIN mirror.sellers s ON s.seller_id = i.seller_id WHERE s.loaded_seq > $1`;

/** Items of which only `extra` changed, which makes no change. Purchases and prices don't show it. */
const CHANGED_EXTRAS = `
  SELECT i.seller_id, i.item_id, r.run_id
    FROM mirror.runs r JOIN mirror.items i ON i.extra_run_id = r.run_id WHERE r.extra_seq > $1`;

/** SQL of the items that changed after the cursor, each with the first run that changed it. */
function changedItems(which = 'true', others?: string): string {
  return `
  SELECT seller_id, item_id, min(run_id) AS run_id
    FROM (SELECT seller_id, item_id, run_id FROM mirror.item_changes WHERE seq > $1 AND ${which}
          UNION ALL ${FIRST_LISTS}${others === undefined ? '' : ` UNION ALL ${others}`}) AS t
   GROUP BY seller_id, item_id`;
}

/** SQL of the view's rows for these items. @param items SQL from `changedItems` */
function rowsOfItems(view: string, items: string, where = 'true'): string {
  return `WITH changed_items AS (${items})
    SELECT v.*, false AS _deleted
      FROM changed_items t JOIN ${view} v ON v.seller_id = t.seller_id AND v.item_id = t.item_id
     WHERE ${where}`;
}

/** Purchases show the names and states of items. */
const NAMED_ITEMS = changedItems(`field IN ('name', 'state')`);

/** Codes that changed after the cursor, and codes of items whose name or state changed. */
const CHANGED_CODES = `
  changed_items AS (${NAMED_ITEMS}), changed AS (
    SELECT code_id FROM mirror.purchase_codes WHERE changed_seq > $1
    UNION
    SELECT p.code_id FROM changed_items t JOIN mirror.purchase_codes p
        ON p.seller_id = t.seller_id AND p.item_id = t.item_id`;

/** The cursor's time. */
const CURSOR_TIME = `coalesce($2::timestamptz, '-infinity')`;

/** Purchases whose support ended since the cursor, or is active again because the clock was set back. */
const SUPPORT_ENDED = `
    SELECT code_id FROM mirror.purchase_codes
     WHERE verdict = 'valid' AND supported_until > least(${CURSOR_TIME}, now())
       AND supported_until <= greatest(${CURSOR_TIME}, now())`;

const RULES: Readonly<Record<string, FollowRule>> = {
  items: {
    key: ['seller_id', 'item_id'],
    byTime: null,
    since: () => rowsOfItems('reporting.items', changedItems('true', CHANGED_EXTRAS)),
  },
  // A seller's runs are sequential, so states that an earlier run superseded were exported before.
  item_history: {
    key: ['seller_id', 'item_id', 'valid_from'],
    byTime: null,
    since: () =>
      rowsOfItems(
        'reporting.item_history',
        changedItems('true', CHANGED_EXTRAS),
        'v.valid_to IS NULL OR v.superseded_run_id >= t.run_id',
      ),
  },
  item_changes: {
    key: ['seq'],
    byTime: null,
    since: () => 'SELECT v.*, false AS _deleted FROM reporting.item_changes v WHERE v.seq > $1',
  },
  // Shows the item's name, and currencies taken from the item's other changes.
  price_changes: {
    key: ['seq'],
    byTime: null,
    since: () =>
      rowsOfItems('reporting.price_changes', changedItems(`(class = 'price' OR field = 'name')`)),
  },
  // A code that was never valid was never exported, so it is not exported as deleted either. OFFSET 0 makes
  // PostgreSQL look up each changed code; merged with the view, one change made it read all codes.
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
  // Shows the item's name and the code's item. No code has many rows.
  purchase_transitions: {
    key: ['seq'],
    byTime: null,
    since: () => `WITH ${CHANGED_CODES}
  )
  SELECT v.*, false AS _deleted
    FROM changed c JOIN reporting.purchase_transitions v ON v.code_id = c.code_id`,
  },
};

/** Columns that a deleted purchase keeps: its key and its code. */
const PURCHASE_KEYS = new Set(['code_id', 'seller_id', 'code']);

/** The rule of a followed view; null for views that are always exported whole. */
export function followRule(view: string): FollowRule | null {
  return Object.hasOwn(RULES, view) ? (RULES[view] ?? null) : null;
}

export const FOLLOWED_VIEWS: readonly string[] = Object.keys(RULES);
