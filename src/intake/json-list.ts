import { chooseColumn } from './choose-column.js';
import { IntakeError } from './error.js';
import { JsonSplitter, type JsonRecord } from './json-records.js';
import { decodeJson, type Field, type JsonValue } from './json-value.js';
import { LineSplitter, type Line } from './lines.js';
import { rowOf, type Plan, type RowReader, type Sample } from './row.js';
import { shown } from './shown.js';
import type { IntakeRow } from './types.js';

const MOST_RECORDS = 1000;
/** More fields than a table can have. */
const MOST_COLUMNS = 1000;

/** Cuts text into records: JSON or one a line. */
interface Splitter {
  push(piece: string): JsonRecord[];
  end(): JsonRecord[];
  readonly blankLines: number;
  /** Where the list is in the document, as a sentence. */
  place(): string | null;
}

/**
 * A plan for a JSON document, or (`byLine`) for one JSON value a line.
 * @throws IntakeError when it has no list, or there is no telling where the codes are
 */
export function planJson(sample: Sample, byLine: boolean): Plan {
  const { text, whole, column, most } = sample;
  const splitter = byLine ? new JsonLines(most) : new JsonDocument(most);
  const records = splitter.push(text);
  if (whole) records.push(...splitter.end());
  const values = records.slice(0, MOST_RECORDS).map((record) => valueOf(record, most));
  if (values.length === 0) throw nothingIn(sample);
  const shape = shapeOf(values, column);
  const place = splitter.place();
  return {
    delimiter: null,
    header: false,
    columns: shape.columns,
    codeColumn: shape.codeColumn,
    reasons: [...(place === null ? [] : [place]), shape.reason],
    reader: new JsonReader(byLine ? new JsonLines(most) : new JsonDocument(most), shape, most),
  };
}

function nothingIn({ text, whole }: Sample): IntakeError {
  return new IntakeError(
    whole ? 'the list is empty' : `no record ends within the first ${text.length} characters`,
    'Check that the right file was exported.',
  );
}

interface JsonShape {
  readonly columns: readonly string[];
  readonly codeColumn: number;
  readonly reason: string;
}

function shapeOf(values: readonly JsonValue[], column: string | number | undefined): JsonShape {
  const objects = values.flatMap((value) => (value.kind === 'object' ? [value.fields] : []));
  if (objects.length === 0) {
    const table = { columns: ['code'], named: true, records: [] };
    const codeColumn = chooseColumn(table, column).index;
    return { columns: ['code'], codeColumn, reason: 'Every value is a code.' };
  }
  const columns = [...new Set(objects.flatMap((fields) => [...fields.keys()]))];
  if (columns.length > MOST_COLUMNS) {
    throw new IntakeError(
      `the objects have more than ${MOST_COLUMNS} different fields`,
      'Export the codes with fewer fields.',
    );
  }
  // Nested values are no codes, however much their JSON looks like some.
  const records = objects.map((fields) => columns.map((name) => flatText(fields.get(name))));
  const nested = new Set(
    columns.flatMap((name, index) => {
      const isNested = objects.some((fields) => fields.get(name)?.nested === true);
      return isNested && records.every((cells) => cells[index] === '') ? [index] : [];
    }),
  );
  if (columns.length === 0) {
    throw new IntakeError('the objects have no fields', 'Check that the right file was exported.');
  }
  const { index, reason } = chooseColumn({ columns, named: true, records, unfit: nested }, column);
  return { columns, codeColumn: index, reason };
}

function flatText(field: Field | undefined): string {
  return field === undefined || field.nested ? '' : field.text;
}

function valueOf({ text, tooLong }: JsonRecord, most: number): JsonValue {
  if (!tooLong) return decodeJson(text);
  return { kind: 'unfit', reason: `is longer than the ${most} characters a record may have` };
}

class JsonReader implements RowReader {
  readonly #splitter: Splitter;
  readonly #shape: JsonShape;
  readonly #known: ReadonlySet<string>;
  readonly #most: number;
  readonly #unknown = new Set<string>();

  constructor(splitter: Splitter, shape: JsonShape, most: number) {
    this.#splitter = splitter;
    this.#shape = shape;
    this.#known = new Set(shape.columns);
    this.#most = most;
  }

  get blankLines(): number {
    return this.#splitter.blankLines;
  }

  push(piece: string): IntakeRow[] {
    return this.#splitter.push(piece).map((record) => this.#row(record));
  }

  end(): IntakeRow[] {
    return this.#splitter.end().map((record) => this.#row(record));
  }

  notes(): readonly string[] {
    const names = [...this.#unknown].map((name) => shown(name)).join(', ');
    return names === ''
      ? []
      : [`Fields that the first records don't have are no columns of the result: ${names}.`];
  }

  #row(record: JsonRecord): IntakeRow {
    const { columns, codeColumn } = this.#shape;
    const { line } = record;
    const value = valueOf(record, this.#most);
    if (value.kind === 'unfit') return { line, rejected: value.reason, columns: [] };
    if (value.kind === 'text') {
      const cells = columns.map((_, index) => (index === codeColumn ? value.text : ''));
      return rowOf(line, value.text, cells);
    }
    return this.#fromObject(line, value.fields);
  }

  #fromObject(line: number, fields: ReadonlyMap<string, Field>): IntakeRow {
    const { columns, codeColumn } = this.#shape;
    for (const name of fields.keys()) {
      if (!this.#known.has(name) && this.#unknown.size < 10) this.#unknown.add(name);
    }
    const cells = columns.map((name) => fields.get(name)?.text ?? '');
    const code = fields.get(columns[codeColumn] ?? '');
    if (code === undefined) return { line, rejected: 'has no field with the code', columns: cells };
    if (code.nested) {
      return { line, rejected: 'has a list or an object where the code should be', columns: cells };
    }
    return rowOf(line, code.text, cells);
  }
}

class JsonDocument implements Splitter {
  readonly blankLines = 0;
  readonly #splitter: JsonSplitter;

  constructor(most: number) {
    this.#splitter = new JsonSplitter(most);
  }

  push(piece: string): JsonRecord[] {
    return this.#splitter.push(piece);
  }

  end(): JsonRecord[] {
    return this.#splitter.end();
  }

  place(): string | null {
    const name = this.#splitter.listName;
    return name === null ? null : `The list is the object's member ${shown(name)}.`;
  }
}

class JsonLines implements Splitter {
  blankLines = 0;
  readonly #splitter: LineSplitter;

  constructor(most: number) {
    this.#splitter = new LineSplitter(most);
  }

  push(piece: string): JsonRecord[] {
    return this.#splitter.push(piece).flatMap((line) => this.#record(line));
  }

  end(): JsonRecord[] {
    return this.#splitter.end().flatMap((line) => this.#record(line));
  }

  place(): string | null {
    return null;
  }

  #record({ number, text, tooLong }: Line): JsonRecord[] {
    if (text.trim() !== '' || tooLong) {
      return [{ line: number, text, tooLong }];
    }
    this.blankLines++;
    return [];
  }
}
