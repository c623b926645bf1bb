import { types, type FieldDef } from 'pg';
import { UserError } from '../domain/user-error.js';
import { onlyRow } from './connection.js';
import { withOwnClient } from './pools.js';
import { openTextCursor, type TextRow } from './text-cursor.js';

/** SQL: the role is a superuser, can become one, or may run programs or access files on the server. */
export const IS_POWERFUL = `
  EXISTS (SELECT FROM pg_roles
           WHERE (rolsuper OR rolname IN ('pg_execute_server_program', 'pg_read_server_files',
                                          'pg_write_server_files'))
             AND pg_has_role(oid, 'MEMBER'))`;

/** For statements written by users. @throws {UserError} */
export async function assertOrdinaryRole(url: string, signal: AbortSignal): Promise<void> {
  const { name, isPowerful } = await withOwnClient(url, 'roles', signal, async (client) =>
    onlyRow(
      await client.query<{ name: string; isPowerful: boolean }>(
        `SELECT current_user::text AS name, ${IS_POWERFUL} AS "isPowerful"`,
      ),
    ),
  );
  if (!isPowerful) return;
  throw new UserError(
    `the store's role ${name} is a superuser, can become one, or may run programs or access files on the server, which no read-only transaction prevents`,
    'Use an ordinary role in DATABASE_URL; docs/database.md shows how to create one.',
    'POWERFUL_ROLE',
  );
}

export interface QueryColumn {
  readonly name: string;
  /** Any other type is `text`. */
  readonly type: 'number' | 'decimal' | 'boolean' | 'json' | 'texts' | 'moment' | 'text';
}

/** A query's result. Each value is PostgreSQL's text representation or null. */
export interface QueryResult {
  readonly columns: readonly QueryColumn[];
  readonly batches: AsyncIterable<readonly TextRow[]>;
}

const TYPES: ReadonlyMap<number, QueryColumn['type']> = new Map([
  ...[20, 21, 23, 26, 700, 701].map((oid) => [oid, 'number'] as const), // int8 … float8
  [1700, 'decimal'], // numeric, mostly money
  [16, 'boolean'],
  [1184, 'moment'], // timestamptz
  ...[1009, 1015].map((oid) => [oid, 'texts'] as const), // text[], varchar[]
  ...[114, 3802].map((oid) => [oid, 'json'] as const), // json, jsonb
]);

function queryColumns(fields: readonly FieldDef[]): readonly QueryColumn[] {
  return fields.map(({ name, dataTypeID }) => ({ name, type: TYPES.get(dataTypeID) ?? 'text' }));
}

/** text[], which the driver's types lack. */
const TEXT_ARRAY = 1009 as number as Parameters<typeof types.getTypeParser>[0];

/** Parses a value of type `texts`, such as `{a,"b c"}`. */
export function textsOf(text: string): unknown {
  const parse = types.getTypeParser(TEXT_ARRAY) as (value: string) => unknown;
  return parse(text);
}

/**
 * Runs one statement in a read-only transaction, which is never committed, and passes its rows to
 * `consume`, in bounded memory. The extended protocol accepts exactly one statement, so no second one can
 * end the transaction. For statements written by users, see also `assertOrdinaryRole`.
 */
export async function queryReadOnly<T>(
  url: string,
  sql: string,
  consume: (result: QueryResult) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return withOwnClient(url, 'sql', signal, async (client) => {
    // A transaction that has read something can't be made READ WRITE any more.
    await client.query('BEGIN TRANSACTION READ ONLY; SELECT 1');
    const { fields, batches, close } = await openTextCursor(client, sql);
    const result = await consume({ columns: queryColumns(fields), batches });
    await close();
    return result;
  });
}
