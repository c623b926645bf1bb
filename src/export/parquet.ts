import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { SchemaElement } from 'hyparquet-writer';
import { day, kindOf, microseconds, type ValueKind } from './values.js';
import type { ExportColumn } from '../store/exports.js';
import { textsOf } from '../store/read-only.js';
import type { TextRow } from '../store/text-cursor.js';

/** Limits of a group of rows, which is in memory as a whole until it is written. */
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

/** Rows that are written together, as columns. */
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

/** Writes the file into memory and hands out each part as soon as it is written. */
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
    // Writing into memory is synchronous; the promise is for other writers.
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

/** A value for the Parquet library. */
type ParquetValue = string | number | bigint | boolean | Date | Uint8Array | null | unknown[];

/** A column of a Parquet file. */
interface ParquetColumn {
  readonly name: string;
  /** Its part of the schema, children after their parent. */
  readonly schema: readonly SchemaElement[];
  /** Converts PostgreSQL's text. */
  readonly read: (text: string) => ParquetValue;
}

/** Digits of a decimal that fit into 64 bits. */
const MOST_DIGITS_OF_INT64 = 18;
/** Digits of a decimal that fit into 128 bits. */
const MOST_DIGITS = 38;

/** The Parquet column for a column of an export; every one may have nulls. */
function parquetColumn(column: ExportColumn): ParquetColumn {
  const { name } = column;
  const kind = kindOf(column);
  if (kind.kind === 'texts') {
    return { name, schema: listSchema(name), read: (text) => textsOf(text) as unknown[] };
  }
  const { element, read } = leaf(kind);
  return { name, schema: [{ name, repetition_type: 'OPTIONAL', ...element }], read };
}

type Element = Omit<SchemaElement, 'name'>;

interface Leaf {
  readonly element: Element;
  readonly read: (text: string) => ParquetValue;
}

const STRING: Element = {
  type: 'BYTE_ARRAY',
  converted_type: 'UTF8',
  logical_type: { type: 'STRING' },
};

const TEXT: Leaf = { element: STRING, read: (text) => text };

function leaf(kind: ValueKind): Leaf {
  switch (kind.kind) {
    case 'boolean':
      return { element: { type: 'BOOLEAN' }, read: (text) => text === 't' };
    case 'float':
      return { element: { type: 'DOUBLE' }, read: Number };
    case 'integer':
      return kind.bits === 32
        ? { element: { type: 'INT32' }, read: Number }
        : { element: { type: 'INT64' }, read: BigInt };
    case 'date':
      return { element: DATE, read: day };
    case 'moment':
      return { element: MOMENT, read: microseconds };
    case 'json':
      // As bytes: the library would parse and serialize text, and round its numbers.
      return { element: JSON_TEXT, read: (text) => Buffer.from(text, 'utf8') };
    case 'decimal':
      return kind.precision <= MOST_DIGITS ? decimal(kind.precision, kind.scale) : TEXT;
    default:
      return TEXT;
  }
}

const DATE: Element = { type: 'INT32', converted_type: 'DATE', logical_type: { type: 'DATE' } };

const MOMENT: Element = {
  type: 'INT64',
  converted_type: 'TIMESTAMP_MICROS',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
};

const JSON_TEXT: Element = { type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } };

/** Adds the type for older readers, which must not be set while values are written. */
function finished(element: SchemaElement): SchemaElement {
  return element.logical_type?.type === 'JSON' ? { ...element, converted_type: 'JSON' } : element;
}

function decimal(precision: number, scale: number): Leaf {
  const isLong = precision > MOST_DIGITS_OF_INT64;
  return {
    element: {
      ...(isLong ? { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 16 } : { type: 'INT64' }),
      converted_type: 'DECIMAL',
      logical_type: { type: 'DECIMAL', precision, scale },
      precision,
      scale,
    },
    // PostgreSQL writes exactly as many decimals as the type has.
    read: (text) => BigInt(text.replace('.', '')),
  };
}

function listSchema(name: string): SchemaElement[] {
  return [
    {
      name,
      repetition_type: 'OPTIONAL',
      num_children: 1,
      converted_type: 'LIST',
      logical_type: { type: 'LIST' },
    },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', repetition_type: 'OPTIONAL', ...STRING },
  ];
}
