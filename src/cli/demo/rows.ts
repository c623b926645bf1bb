import { queryReadOnly } from '../../store/read-only.js';

/** A row of a query, by column name. */
export type Row = Readonly<Record<string, string | null>>;

/** Runs a query of the demo's own on the mirror; the answer is small. */
export function rowsOf(url: string, sql: string, signal: AbortSignal): Promise<Row[]> {
  return queryReadOnly(
    url,
    sql,
    async ({ columns, rows }) => {
      const all: Row[] = [];
      for await (const row of rows) {
        all.push(Object.fromEntries(columns.map(({ name }, index) => [name, row[index] ?? null])));
      }
      return all;
    },
    signal,
  );
}

/** One thing that changed about an item between two looks at the mirror. */
export interface Difference {
  readonly item: string;
  readonly what: string;
  readonly before: string;
  readonly after: string;
}

/** What differs between two looks at the same items. */
export function differences(before: readonly Row[], after: readonly Row[]): Difference[] {
  const old = new Map(before.map((row) => [row['item_id'], row]));
  return after.flatMap((row) => {
    const was = old.get(row['item_id'] ?? null);
    const item = `${row['item_id'] ?? ''} ${was?.['name'] ?? row['name'] ?? ''}`;
    if (was === undefined) return [{ item, what: 'added', before: '', after: row['price'] ?? '' }];
    return Object.keys(row)
      .filter((column) => row[column] !== was[column])
      .map((what) => ({ item, what, before: was[what] ?? '', after: row[what] ?? '' }));
  });
}
