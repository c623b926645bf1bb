import { UserError } from '../domain/user-error.js';
import type { Client, FieldDef } from 'pg';
import Cursor from 'pg-cursor';

/** A row of a query. Each value is PostgreSQL's text representation or null. */
export type TextRow = readonly (string | null)[];

/** Option of a query that returns `TextRow` values. */
export const AS_TEXT = { getTypeParser: () => (text: string) => text };

/** A batch has at most this many rows and about this many characters. */
const BATCH_ROWS = 500;
const BATCH_CHARACTERS = 4 * 1024 * 1024;
const FIRST_BATCH_ROWS = 50;

/** The driver calls this for the data of a COPY, which is ignored. */
class StatementCursor extends Cursor<(string | null)[]> {
  handleCopyData(): void {}
}

/** A running query whose rows are read in batches, in bounded memory. */
interface TextCursor {
  readonly fields: readonly FieldDef[];
  /** All rows; a batch has fewer rows if they are large. Can be read once. */
  readonly batches: AsyncIterable<readonly TextRow[]>;
  /** Ends the query, even if rows are left. */
  readonly close: () => Promise<void>;
}

/** Runs a statement up to its first batch. @throws {UserError} if it is empty or a COPY */
export async function openTextCursor(client: Client, sql: string): Promise<TextCursor> {
  const { connection } = client;
  const listeners: [string, () => void][] = [];
  const refused = new Promise<never>((_, reject) => {
    const refuse = (event: string, problem: string, remedy: string): void => {
      const listener = (): void => reject(new UserError(problem, remedy, 'NO_ROWS'));
      connection.once(event, listener);
      listeners.push([event, listener]);
    };
    refuse('copyOutResponse', 'COPY gives no rows', 'Use SELECT; `sql --format csv` prints CSV.');
    const example = 'Write one, such as: select * from reporting.items';
    refuse('emptyQuery', 'there is no statement to run', example);
  });
  const cursor = client.query(new StatementCursor(sql, [], { rowMode: 'array', types: AS_TEXT }));
  const first = await Promise.race([readBatch(cursor, FIRST_BATCH_ROWS), refused]).finally(() => {
    // The connection is reused for other queries.
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

/** Size of the next batch, assuming rows as large as these; at most twice as many rows. */
function nextSize(rows: readonly TextRow[]): number {
  let characters = 1;
  for (const row of rows) for (const text of row) characters += text?.length ?? 0;
  const fitting = Math.floor((rows.length * BATCH_CHARACTERS) / characters);
  return Math.max(1, Math.min(BATCH_ROWS, 2 * rows.length, fitting));
}

function readBatch(
  cursor: Cursor<(string | null)[]>,
  size: number,
): Promise<{ rows: (string | null)[][]; fields: FieldDef[] }> {
  return new Promise((resolve, reject) => {
    // At its end the cursor passes no result, although its types say it does.
    cursor.read(
      size,
      (error: Error | undefined, rows, result: { fields: FieldDef[] } | undefined) => {
        if (error) reject(error);
        else resolve({ rows, fields: result?.fields ?? [] });
      },
    );
  });
}
