import { Client, types, type FieldDef } from 'pg';
import Cursor from 'pg-cursor';

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

const BATCH = 500;
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
  const client = new Client({ connectionString: url, application_name: 'seller-mirror sql' });
  // The loss of the connection fails the query under way; unheard, it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  const abort = (): void => void client.end();
  signal.addEventListener('abort', abort, { once: true });
  try {
    // A query whose caller is gone ends within a second. Not every system can notice.
    await client.query('SET client_connection_check_interval = 1000').catch(() => undefined);
    await client.query('BEGIN TRANSACTION READ ONLY');
    const cursor = client.query(
      new Cursor<(string | null)[]>(sql, [], {
        rowMode: 'array',
        types: { getTypeParser: () => (text: string) => text },
      }),
    );
    const { rows, fields } = await readBatch(cursor);
    const answer = await consume({
      columns: fields.map((field) => ({
        name: field.name,
        type: TYPES.get(field.dataTypeID) ?? 'text',
      })),
      rows: allRows(cursor, rows),
    });
    await cursor.close();
    return answer;
  } finally {
    signal.removeEventListener('abort', abort);
    await client.end().catch(() => undefined);
  }
}

function readBatch(
  cursor: Cursor<(string | null)[]>,
): Promise<{ rows: (string | null)[][]; fields: FieldDef[] }> {
  return new Promise((resolve, reject) => {
    // Once the cursor is at its end it calls back without a result, whatever its types say.
    cursor.read(
      BATCH,
      (error: Error | undefined, rows, result: { fields: FieldDef[] } | undefined) => {
        if (error) reject(error);
        else resolve({ rows, fields: result?.fields ?? [] });
      },
    );
  });
}

async function* allRows(
  cursor: Cursor<(string | null)[]>,
  first: (string | null)[][],
): AsyncGenerator<readonly (string | null)[]> {
  let rows = first;
  while (rows.length > 0) {
    yield* rows;
    rows = (await readBatch(cursor)).rows;
  }
}
