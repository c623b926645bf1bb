import type { SchemaElement } from 'hyparquet-writer';
import type { ExportColumn } from '../store/export-view.js';
import { textsOf } from '../store/read-only.js';
import { day, kindOf, microseconds, type ValueKind } from './values.js';

/** A value as the Parquet library takes it. */
export type ParquetValue =
  string | number | bigint | boolean | Date | Uint8Array | null | unknown[];

/** How a column stands in a Parquet file. */
export interface ParquetColumn {
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
export function parquetColumn(column: ExportColumn): ParquetColumn {
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
export function finished(element: SchemaElement): SchemaElement {
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
