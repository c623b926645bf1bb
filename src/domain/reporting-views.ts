/** What a view of schema `reporting` is, beyond the columns and comments that the database knows. */
export interface ViewFacts {
  /** Columns that identify a row; null if none do. */
  readonly key: readonly string[] | null;
  /** Columns with whole purchase codes. */
  readonly codes: readonly string[];
  /** Column with the end of a state, null for the current one. Old states may be pruned in the store. */
  readonly endedAt: string | null;
  /** True if every change of a row takes a change number: no new number means no change, time apart. */
  readonly isNumbered: boolean;
  /** A column with a moment; when it has passed, other columns of its row change. Null if there is none. */
  readonly changesAt: string | null;
}

const PLAIN: ViewFacts = {
  key: null,
  codes: [],
  endedAt: null,
  isNumbered: false,
  changesAt: null,
};

const NUMBERED: ViewFacts = { ...PLAIN, isNumbered: true };

const FACTS: Readonly<Record<string, ViewFacts>> = {
  items: { ...NUMBERED, key: ['seller_id', 'item_id'] },
  item_history: {
    ...NUMBERED,
    key: ['seller_id', 'item_id', 'valid_from'],
    endedAt: 'valid_to',
  },
  item_changes: { ...NUMBERED, key: ['seq'] },
  price_changes: { ...NUMBERED, key: ['seq'] },
  purchases: {
    ...NUMBERED,
    key: ['code_id'],
    codes: ['code', 'answered_code'],
    changesAt: 'supported_until',
  },
  purchase_transitions: { ...NUMBERED, key: ['seq'], codes: ['code'] },
  account_history: { ...PLAIN, endedAt: 'valid_to' },
  balance_history: { ...PLAIN, endedAt: 'valid_to' },
};

/** The facts about a view. A view without an entry has no key and is small. */
export function viewFacts(view: string): ViewFacts {
  return Object.hasOwn(FACTS, view) ? (FACTS[view] ?? PLAIN) : PLAIN;
}
