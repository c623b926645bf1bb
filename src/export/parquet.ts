import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import type { SchemaElement } from 'hyparquet-writer';
import { day, kindOf, microseconds, type ValueKind } from './values.js';
import type { ExportColumn } from '../store/exports.js';
import { textsOf } from '../store/read-only.js';
import type { TextRow } from '../store/text-cursor.js';

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

/** A value as the Parquet library takes it. */
type ParquetValue = string | number | bigint | boolean | Date | Uint8Array | null | unknown[];

/** How a column stands in a Parquet file. */
interface ParquetColumn {
  readonly name: string;
  /** Its part of the schema, children behind their parent. */
  readonly schema: readonly SchemaElement[];
  /** The value that PostgreSQL's text stands for. */
  readonly read: (text: string) => ParquetValue;
}

/** A decimal of so many digits fits into 64 bits. */
const MOST_DIGITS_OF_INT64 = 18;
/** And one of so many into 128. */
const MOST_DIGITS = 38;

/** How a column of an export stands in a Parquet file; every column may hold nulls. */
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
      // As bytes, since the library would read and write it again, and round its numbers.
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

/** What older readers look at, which must not be there while values are written. */
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
    // PostgreSQL writes just as many decimals as the type has.
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
