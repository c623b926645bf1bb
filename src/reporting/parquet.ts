import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { SchemaElement } from 'hyparquet-writer';
import { day, kindOf, microseconds, type ValueKind } from './values.js';
import type { ViewColumn } from './views.js';
import { textsOf } from '../db/read-only.js';
import type { TextRow } from '../db/text-cursor.js';

/**
 * Limits of a row group, which is in memory until it is written. Groups of 20,000 rows take 60 MB more memory and make
 * files 4 % smaller.
 */
const GROUP_ROWS = 2_000;
const GROUP_BYTES = 1024 * 1024;

/**
 * Writes rows as a Parquet file in chunks: decimals as DECIMAL, times as TIMESTAMP in UTC with microseconds, lists as
 * LIST, JSON as JSON, compressed with Snappy.
 */
export async function* parquetChunks(
  exported: readonly ViewColumn[],
  batches: AsyncIterable<readonly TextRow[]>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const columns = exported.map(parquetColumn);
  const root = { name: 'root', num_children: columns.length };
  const schema = [root, ...columns.flatMap((column) => column.schema)];
  const bytes = new ByteWriter();
  const writer = new ParquetWriter({ writer: bytes, schema, createdBy: 'seller-mirror' });
  /** Returns and clears the bytes written since the last call. */
  const takeBytes = (): Uint8Array => {
    const part = bytes.getBytes().slice();
    bytes.index = 0;
    return part;
  };
  const texts = columns.map(() => new ColumnTexts());
  let rows = 0;
  let size = 0;
  const flush = (): Uint8Array => {
    // Getters, so that the values of only one column are in memory at a time.
    const columnData = columns.map(({ name, read }, n) => ({
      name,
      get data() {
        return texts[n]?.values(read) ?? [];
      },
    }));
    // Writing into memory is synchronous. The promise is for other writers.
    void writer.write({ columnData, rowGroupSize: rows });
    for (const column of texts) column.clear();
    rows = 0;
    size = 0;
    return takeBytes();
  };
  for await (const batch of batches) {
    for (const row of batch) {
      for (const [n, column] of texts.entries()) size += column.add(row[n] ?? null);
      rows += 1;
      if (rows >= GROUP_ROWS || size >= GROUP_BYTES) yield flush();
    }
  }
  if (rows > 0) yield flush();
  writer.schema = writer.schema.map(withJsonType);
  void writer.finish();
  yield takeBytes();
}

/** The texts of a column as bytes. Strings would survive V8's young generation while they wait for their group. */
class ColumnTexts {
  #bytes = Buffer.allocUnsafeSlow(64 * 1024);
  #size = 0;
  #isAscii = true;
  /** End of each text, or -1 for null. */
  #ends: number[] = [];

  /** @returns the number of bytes added */
  add(text: string | null): number {
    if (text === null) {
      this.#ends.push(-1);
      return 0;
    }
    const most = this.#size + text.length * 3;
    if (most > this.#bytes.length) {
      const more = Buffer.allocUnsafeSlow(most * 2);
      this.#bytes.copy(more, 0, 0, this.#size);
      this.#bytes = more;
    }
    const written = this.#bytes.write(text, this.#size);
    this.#isAscii &&= written === text.length;
    this.#size += written;
    this.#ends.push(this.#size);
    return written;
  }

  values<T>(read: (text: string) => T): (T | null)[] {
    const encoding = this.#isAscii ? 'latin1' : 'utf8';
    let start = 0;
    return this.#ends.map((end) => {
      if (end < 0) return null;
      const text = this.#bytes.toString(encoding, start, end);
      start = end;
      return read(text);
    });
  }

  clear(): void {
    this.#size = 0;
    this.#isAscii = true;
    this.#ends = [];
  }
}

type ParquetValue = string | number | bigint | boolean | Date | Uint8Array | null | unknown[];

interface ParquetColumn {
  readonly name: string;
  readonly schema: readonly SchemaElement[];
  readonly read: (text: string) => ParquetValue;
}

/** Most digits of a decimal in 64 bits. */
const MOST_DIGITS_OF_INT64 = 18;
/** Most digits of a decimal in 128 bits. */
const MOST_DIGITS = 38;

type Element = Omit<SchemaElement, 'name'>;

type Leaf = readonly [element: Element, read: (text: string) => ParquetValue];

const STRING: Element = {
  type: 'BYTE_ARRAY',
  converted_type: 'UTF8',
  logical_type: { type: 'STRING' },
};
const DATE: Element = { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } };
const MOMENT: Element = {
  type: 'INT64',
  converted_type: 'TIMESTAMP_MICROS',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
};
const JSON_TEXT: Element = { type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } };
const TEXT: Leaf = [STRING, (text) => text];

/** The Parquet column of an exported column. Every column may have nulls. */
function parquetColumn(column: ViewColumn): ParquetColumn {
  const { name } = column;
  const kind = kindOf(column);
  const optional = { name, repetition_type: 'OPTIONAL' } as const;
  if (kind.kind === 'texts') {
    const list = { converted_type: 'LIST', logical_type: { type: 'LIST' } } as const;
    const schema: SchemaElement[] = [
      { ...optional, ...list, num_children: 1 },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      { ...optional, name: 'element', ...STRING },
    ];
    return { name, schema, read: (text) => textsOf(text) as unknown[] };
  }
  const [element, read] = leaf(kind);
  return { name, schema: [{ ...optional, ...element }], read };
}

function leaf(kind: ValueKind): Leaf {
  switch (kind.kind) {
    case 'boolean':
      return [{ type: 'BOOLEAN' }, (text) => text === 't'];
    case 'float':
      return [{ type: 'DOUBLE' }, Number];
    case 'integer':
      return kind.bits === 32 ? [{ type: 'INT32' }, Number] : [{ type: 'INT64' }, BigInt];
    case 'date':
      return [DATE, day];
    case 'moment':
      return [MOMENT, microseconds];
    case 'json':
      // As bytes, since the library would parse and serialize a string, and round its numbers.
      return [JSON_TEXT, (text) => Buffer.from(text, 'utf8')];
    case 'decimal':
      return kind.precision <= MOST_DIGITS ? decimal(kind.precision, kind.scale) : TEXT;
    default:
      return TEXT;
  }
}

function decimal(precision: number, scale: number): Leaf {
  const isLong = precision > MOST_DIGITS_OF_INT64;
  const element: Element = {
    ...(isLong ? { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16 } : { type: 'INT64' }),
    converted_type: 'DECIMAL',
    logical_type: { type: 'DECIMAL', precision, scale },
    precision,
    scale,
  };
  // PostgreSQL always writes as many decimals as the type has.
  return [element, (text) => BigInt(text.replace('.', ''))];
}

/** Adds the JSON type for older readers. While it is set, the library would serialize the values. */
function withJsonType(element: SchemaElement): SchemaElement {
  return element.logical_type?.type === 'JSON' ? { ...element, converted_type: 'JSON' } : element;
}
