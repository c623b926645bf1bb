import { types } from 'pg';
import { withOwnClient } from './own-client.js';
import { TextCursor } from './text-cursor.js';

export interface QueryColumn {
  readonly name: string;
  /** What its values are; all else is text. */
  readonly type: 'number' | 'boolean' | 'json' | 'texts' | 'text';
}

/** The answer to a query, row by row, each value in PostgreSQL's own text form or null. */
export interface QueryAnswer {
  readonly columns: readonly QueryColumn[];
  readonly rows: AsyncIterable<readonly (string | null)[]>;
}

const TYPES: ReadonlyMap<number, QueryColumn['type']> = new Map([
  ...[20, 21, 23, 26, 700, 701, 1700].map((oid) => [oid, 'number'] as const), // int8 … numeric
  [16, 'boolean'],
  ...[1009, 1015].map((oid) => [oid, 'texts'] as const), // text[], varchar[]
  ...[114, 3802].map((oid) => [oid, 'json'] as const), // json, jsonb
]);

/** text[]; missing in the driver's list of types. */
const TEXT_ARRAY = 1009 as number as Parameters<typeof types.getTypeParser>[0];

/** A value of type `texts`, such as `{a,"b c"}`, as the list it stands for. */
export function textsOf(text: string): unknown {
  const parse = types.getTypeParser(TEXT_ARRAY) as (value: string) => unknown;
  return parse(text);
}

/**
 * Runs one statement in a read-only transaction and hands its rows to `consume`, in bounded memory.
 * The extended protocol takes exactly one statement, so nothing can follow that ends the transaction.
 */
export async function queryReadOnly<T>(
  url: string,
  sql: string,
  consume: (answer: QueryAnswer) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return withOwnClient(url, 'sql', signal, async (client) => {
    await client.query('BEGIN TRANSACTION READ ONLY');
    const cursor = await TextCursor.open(client, sql);
    const answer = await consume({
      columns: cursor.fields.map((field) => ({
        name: field.name,
        type: TYPES.get(field.dataTypeID) ?? 'text',
      })),
      rows: cursor.rows(),
    });
    await cursor.close();
    return answer;
  });
}
