import { Client, type FieldDef } from 'pg';
import Cursor from 'pg-cursor';

/** The answer to a query, row by row, each value in PostgreSQL's own text form or null. */
export interface QueryAnswer {
  readonly columns: readonly { readonly name: string; readonly numeric: boolean }[];
  readonly rows: AsyncIterable<readonly (string | null)[]>;
}

const BATCH = 500;
/** int8, int2, int4, float4, float8, numeric. */
const NUMERIC_OIDS = new Set([20, 21, 23, 700, 701, 1700]);

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
  await client.connect();
  const abort = (): void => void client.end();
  signal.addEventListener('abort', abort, { once: true });
  try {
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
        numeric: NUMERIC_OIDS.has(field.dataTypeID),
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
