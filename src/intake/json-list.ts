import { chooseColumn } from './columns.js';
import { IntakeError, shown } from './types.js';
import type { IntakeRow, Plan, RowReader, Sample } from './types.js';
import { JsonSplitter, type JsonRecord, type RecordSplitter } from './json-records.js';
import { LineSplitter, type Line } from './text-list.js';

const MAX_SAMPLE_RECORDS = 1000;
/** Columns that a list of objects may have. */
const MAX_COLUMNS = 1000;

/**
 * A plan for a JSON document, or (`byLine`) for one JSON value a line.
 * @throws IntakeError when it has no list, or the column of codes is not clear
 */
export function planJson(sample: Sample, byLine: boolean): Plan {
  const { text, whole, maxLength, mask } = sample;
  const newSplitter = (): RecordSplitter =>
    byLine ? new JsonLines(maxLength) : new JsonSplitter(maxLength, mask);
  const splitter = newSplitter();
  const complete = splitter.push(text);
  const records = whole ? [...complete, ...splitter.end()] : complete;
  const values = records.slice(0, MAX_SAMPLE_RECORDS).map((record) => valueOf(record, maxLength));
  if (values.length === 0) throw nothingIn(sample);
  const shape = shapeOf(values, sample);
  const place = splitter.place();
  return {
    delimiter: null,
    header: false,
    columns: shape.columns.map((name) => mask(name)),
    codeColumn: shape.codeColumn,
    reasons: [...(place === null ? [] : [place]), shape.reason],
    newReader: () => new JsonReader(newSplitter(), shape, sample),
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

function shapeOf(values: readonly JsonValue[], { column, mask }: Sample): JsonShape {
  const objects = values.flatMap((value) => (value.kind === 'object' ? [value.fields] : []));
  if (objects.length === 0) {
    const table = { columns: ['code'], named: true, records: [] };
    const codeColumn = chooseColumn(table, column).index;
    return { columns: ['code'], codeColumn, reason: 'Every value is a code.' };
  }
  const columns = [...new Set(objects.flatMap((fields) => [...fields.keys()]))];
  if (columns.length > MAX_COLUMNS) {
    throw new IntakeError(
      `the objects have more than ${MAX_COLUMNS} different fields`,
      'Export the codes with fewer fields.',
    );
  }
  // Nested values are never codes, even if their JSON looks like one.
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
  const names = columns.map((name) => mask(name));
  const table = { columns: names, named: true, records, unfit: nested };
  const { index, reason } = chooseColumn(table, column);
  return { columns, codeColumn: index, reason };
}

function flatText(field: Field | undefined): string {
  return field === undefined || field.nested ? '' : field.text;
}

function valueOf({ text, tooLong }: JsonRecord, maxLength: number): JsonValue {
  if (!tooLong) return decodeJson(text);
  return { kind: 'unfit', reason: `is longer than the ${maxLength} characters a record may have` };
}

class JsonReader implements RowReader {
  readonly #splitter: RecordSplitter;
  readonly #shape: JsonShape;
  readonly #known: ReadonlySet<string>;
  readonly #maxLength: number;
  readonly #mask: Sample['mask'];
  readonly #unknown = new Set<string>();

  constructor(splitter: RecordSplitter, shape: JsonShape, { maxLength, mask }: Sample) {
    this.#splitter = splitter;
    this.#shape = shape;
    this.#known = new Set(shape.columns);
    this.#maxLength = maxLength;
    this.#mask = mask;
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
    const names = [...this.#unknown].map((name) => shown(this.#mask(name))).join(', ');
    return names === ''
      ? []
      : [`Fields that the first records don't have are left out of the result: ${names}.`];
  }

  #row(record: JsonRecord): IntakeRow {
    const { columns, codeColumn } = this.#shape;
    const { line } = record;
    const value = valueOf(record, this.#maxLength);
    if (value.kind === 'unfit') return { line, rejected: value.reason, columns: [] };
    if (value.kind === 'text') {
      const cells = columns.map((_, index) => (index === codeColumn ? value.text : ''));
      return { line, text: value.text, columns: cells };
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
    return { line, text: code.text, columns: cells };
  }
}

class JsonLines implements RecordSplitter {
  blankLines = 0;
  readonly #splitter: LineSplitter;

  constructor(maxLength: number) {
    this.#splitter = new LineSplitter(maxLength);
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

/** A decoded record of a JSON list. */
type JsonValue =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'object'; readonly fields: ReadonlyMap<string, Field> }
  | { readonly kind: 'unfit'; readonly reason: string };

/** A field as the text of a cell. */
interface Field {
  readonly text: string;
  /** A nested value is a cell of JSON, but never a code. */
  readonly nested: boolean;
}

/** Levels of nesting that a record may have. */
const MAX_DEPTH = 64;

/** Decodes one record: a text, or the fields of an object as texts. */
export function decodeJson(json: string): JsonValue {
  if (isTooDeep(json)) return { kind: 'unfit', reason: `nests deeper than ${MAX_DEPTH} levels` };
  let value: unknown;
  try {
    value = JSON.parse(withExactNumbers(json));
  } catch {
    return { kind: 'unfit', reason: 'is not valid JSON' };
  }
  if (typeof value === 'string') return { kind: 'text', text: value };
  if (typeof value === 'number') return { kind: 'text', text: String(value) };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { kind: 'unfit', reason: 'is neither a text nor an object' };
  }
  return {
    kind: 'object',
    fields: new Map(Object.entries(value).map(([name, field]) => [name, fieldOf(field)])),
  };
}

function fieldOf(value: unknown): Field {
  if (value === null || value === undefined) return { text: '', nested: false };
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { text, nested: typeof value === 'object' };
}

const TEXT_OR_BRACKET = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/g;

function isTooDeep(json: string): boolean {
  let depth = 0;
  for (const [part] of json.matchAll(TEXT_OR_BRACKET)) {
    if (part === '[' || part === '{') depth++;
    else if (part === ']' || part === '}') depth--;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/**
 * Turns numbers that JavaScript would write in another way (`1.10`, an id of 20 digits) into texts, so
 * that cells stay as they were.
 */
function withExactNumbers(json: string): string {
  return json.replaceAll(TEXT_OR_NUMBER, (part) =>
    part.startsWith('"') || !/^-?(?:0|[1-9]\d*)(?:\D|$)/.test(part) || String(Number(part)) === part
      ? part
      : `"${part}"`,
  );
}
