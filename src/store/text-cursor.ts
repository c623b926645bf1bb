import type { Client, FieldDef } from 'pg';
import Cursor from 'pg-cursor';
import { StoreError } from './errors.js';

/** A row of a query, each value in PostgreSQL's own text form or null. */
export type TextRow = readonly (string | null)[];

/** Of so many rows or about so many characters, whichever is less. */
const BATCH = 500;
const BATCH_CHARACTERS = 4 * 1024 * 1024;
const FIRST_BATCH = 50;

/** A statement that answers with something other than rows. */
export class NoRowsError extends StoreError {
  readonly code = 'NO_ROWS';
}

/** The driver hands the data of a COPY to the query under way, which has no use for it. */
class StatementCursor extends Cursor<(string | null)[]> {
  handleCopyData(): void {}
}

/** A query under way, whose rows are read a batch at a time, in bounded memory. */
export interface TextCursor {
  readonly fields: readonly FieldDef[];
  /** All rows, some hundred at a time, fewer of large ones. May be read once. */
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** Ends the query, whether or not all rows were read. */
  readonly close: () => Promise<void>;
}

/** Runs one statement up to its first rows. @throws {NoRowsError} when it is empty or a COPY */
export async function openTextCursor(client: Client, sql: string): Promise<TextCursor> {
  const { connection } = client;
  const listeners: [string, () => void][] = [];
  const refused = new Promise<never>((_, reject) => {
    const refuse = (event: string, problem: string, remedy: string): void => {
      const listener = (): void => reject(new NoRowsError(problem, remedy));
      connection.once(event, listener);
      listeners.push([event, listener]);
    };
    refuse('copyOutResponse', 'COPY gives no rows', 'Select them; `sql --format csv` prints CSV.');
    const example = 'Write one, such as: select * from reporting.items';
    refuse('emptyQuery', 'there is no statement to run', example);
  });
  const cursor = client.query(
    new StatementCursor(sql, [], {
      rowMode: 'array',
      types: { getTypeParser: () => (text: string) => text },
    }),
  );
  const first = await Promise.race([readBatch(cursor, FIRST_BATCH), refused]).finally(() => {
    // A connection has many queries one after the other.
    for (const [event, listener] of listeners) connection.off(event, listener);
  });
  async function* batches(): AsyncGenerator<readonly TextRow[], void, undefined> {
    let { rows } = first;
    while (rows.length > 0) {
      yield rows;
      ({ rows } = await readBatch(cursor, nextSize(rows)));
    }
  }
  return { fields: first.fields, batches: batches(), close: () => cursor.close() };
}

/** How many rows to read next, taking them to be as large as these, and at most twice as many. */
function nextSize(rows: readonly TextRow[]): number {
  let characters = 1;
  for (const row of rows) for (const text of row) characters += text?.length ?? 0;
  const fitting = Math.floor((rows.length * BATCH_CHARACTERS) / characters);
  return Math.max(1, Math.min(BATCH, 2 * rows.length, fitting));
}

function readBatch(
  cursor: Cursor<(string | null)[]>,
  size: number,
): Promise<{ rows: (string | null)[][]; fields: FieldDef[] }> {
  return new Promise((resolve, reject) => {
    // Once the cursor is at its end it calls back without a result, whatever its types say.
    cursor.read(
      size,
      (error: Error | undefined, rows, result: { fields: FieldDef[] } | undefined) => {
        if (error) reject(error);
        else resolve({ rows, fields: result?.fields ?? [] });
      },
    );
  });
}
