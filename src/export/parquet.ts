import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { ExportColumn } from '../store/export-view.js';
import type { TextRow } from '../store/text-cursor.js';
import {
  finished,
  parquetColumn,
  type ParquetColumn,
  type ParquetValue,
} from './parquet-column.js';

/** A group of rows is held in memory as a whole: it is written when it has so much of either. */
const GROUP_ROWS = 8_000;
const GROUP_CHARACTERS = 4 * 1024 * 1024;

/**
 * Rows as a Parquet file, in chunks: decimals as DECIMAL, moments as TIMESTAMP in UTC with
 * microseconds, lists as LIST, JSON as JSON, compressed with Snappy.
 */
export async function* parquetChunks(
  columns: readonly ExportColumn[],
  batches: AsyncIterable<readonly TextRow[]>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const written = columns.map(parquetColumn);
  const file = new ParquetFile(written);
  let group = new RowGroup(written);
  for await (const rows of batches) {
    for (const row of rows) {
      group.add(row);
      if (!group.isFull) continue;
      yield file.write(group);
      group = new RowGroup(written);
    }
  }
  if (group.rows > 0) yield file.write(group);
  yield file.end();
}

/** Rows that are written as one, turned into columns. */
class RowGroup {
  readonly values: ParquetValue[][];
  rows = 0;
  readonly #columns: readonly ParquetColumn[];
  #characters = 0;

  constructor(columns: readonly ParquetColumn[]) {
    this.#columns = columns;
    this.values = columns.map(() => []);
  }

  get isFull(): boolean {
    return this.rows >= GROUP_ROWS || this.#characters >= GROUP_CHARACTERS;
  }

  add(row: TextRow): void {
    for (const [n, { read }] of this.#columns.entries()) {
      const text = row[n] ?? null;
      this.values[n]?.push(text === null ? null : read(text));
      this.#characters += text?.length ?? 0;
    }
    this.rows++;
  }
}

/** The file as it comes into being; what is written is handed out and no longer held. */
class ParquetFile {
  readonly #columns: readonly ParquetColumn[];
  readonly #bytes = new ByteWriter();
  readonly #writer: ParquetWriter;

  constructor(columns: readonly ParquetColumn[]) {
    this.#columns = columns;
    const schema = [
      { name: 'root', num_children: columns.length },
      ...columns.flatMap((column) => column.schema),
    ];
    this.#writer = new ParquetWriter({
      writer: this.#bytes,
      schema,
      createdBy: 'seller-mirror',
    });
  }

  write({ values, rows }: RowGroup): Uint8Array {
    const columnData = this.#columns.map(({ name }, n) => ({ name, data: values[n] ?? [] }));
    // Into memory it is written at once; a promise would be for writers that wait.
    void this.#writer.write({ columnData, rowGroupSize: rows });
    return this.#taken();
  }

  end(): Uint8Array {
    this.#writer.schema = this.#writer.schema.map(finished);
    void this.#writer.finish();
    return this.#taken();
  }

  #taken(): Uint8Array {
    const bytes = this.#bytes.getBytes().slice();
    this.#bytes.index = 0;
    return bytes;
  }
}
