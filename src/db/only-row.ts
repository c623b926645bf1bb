import type { QueryResult, QueryResultRow } from 'pg';

/** The row of a statement that always returns one. */
export function onlyRow<T extends QueryResultRow>({ rows, command }: QueryResult<T>): T {
  const [row] = rows;
  if (row === undefined) throw new Error(`the database returned no row for ${command}`);
  return row;
}
