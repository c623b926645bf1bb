import type { Client, FieldDef } from 'pg';
import Cursor from 'pg-cursor';

/** A row of a query, each value in PostgreSQL's own text form or null. */
export type TextRow = readonly (string | null)[];

const BATCH = 500;

/** A query under way, whose rows are read a batch at a time, in bounded memory. */
export class TextCursor {
  /** The columns of its rows. */
  readonly fields: readonly FieldDef[];
  readonly #cursor: Cursor<(string | null)[]>;
  readonly #first: readonly TextRow[];

  private constructor(
    cursor: Cursor<(string | null)[]>,
    fields: readonly FieldDef[],
    first: readonly TextRow[],
  ) {
    this.#cursor = cursor;
    this.fields = fields;
    this.#first = first;
  }

  /** Runs a statement up to its first rows. The extended protocol takes exactly one. */
  static async open(
    client: Client,
    sql: string,
    values: readonly unknown[] = [],
  ): Promise<TextCursor> {
    const cursor = client.query(
      new Cursor<(string | null)[]>(sql, [...values], {
        rowMode: 'array',
        types: { getTypeParser: () => (text: string) => text },
      }),
    );
    const { rows, fields } = await readBatch(cursor);
    return new TextCursor(cursor, fields, rows);
  }

  /** All rows, some hundred at a time. May be read once. */
  async *batches(): AsyncGenerator<readonly TextRow[], void, undefined> {
    let rows = this.#first;
    while (rows.length > 0) {
      yield rows;
      rows = (await readBatch(this.#cursor)).rows;
    }
  }

  /** All rows, one by one. May be read once. */
  async *rows(): AsyncGenerator<TextRow, void, undefined> {
    for await (const batch of this.batches()) yield* batch;
  }

  /** Ends the query, whether or not all rows were read. */
  close(): Promise<void> {
    return this.#cursor.close();
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
