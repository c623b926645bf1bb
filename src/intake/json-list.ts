import { chooseColumn } from './columns.js';
import { JsonDocument, type JsonRecord } from './json-document.js';
import { isBlank, lineSplitter } from './text-list.js';
import { FileError, quoted, wrongFile } from './types.js';
import type { UncheckedRow, Plan, Sample, Splitter, Tally } from './types.js';

const MAX_SAMPLE_RECORDS = 1000;
const MAX_COLUMNS = 1000;
const MAX_NAMES = 10;

/** Finds the list and its columns. @throws FileError when there is no list, or the column of codes is unclear */
export function planJson(sample: Sample, byLine: boolean): Plan {
  const { text, whole, maxLength, mask } = sample;
  const document = new JsonDocument(maxLength, mask);
  const records = byLine ? jsonLines(maxLength)(text, whole) : document.push(text, whole);
  if (records.length === 0) {
    const problem = `no record ends within the first ${text.length} characters`;
    throw wrongFile(whole ? 'the list is empty' : problem);
  }
  const values = records.slice(0, MAX_SAMPLE_RECORDS).map((record) => valueOf(record, maxLength));
  const shape = shapeOf(values, sample);
  const { list } = document;
  return {
    delimiter: null,
    header: false,
    columns: shape.columns.map(mask),
    codeColumn: shape.codeColumn,
    reasons: [
      ...(list === null ? [] : [`The list is the object's member ${quoted(list)}.`]),
      shape.reason,
    ],
    newReader: (tally) => jsonReader(byLine, shape, sample, tally),
  };
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
    throw new FileError(
      `the objects have more than ${MAX_COLUMNS} different fields`,
      'Export the codes with fewer fields.',
    );
  }
  if (columns.length === 0) throw wrongFile('the objects have no fields');
  // Nested values are never codes, even if their JSON looks like a code.
  const flatText = (field: Field | undefined): string =>
    field === undefined || field.nested ? '' : field.text;
  const records = objects.map((fields) => columns.map((name) => flatText(fields.get(name))));
  const isNested = (name: string, index: number): boolean =>
    objects.some((fields) => fields.get(name)?.nested === true) &&
    records.every((cells) => cells[index] === '');
  const unfit = new Set(columns.flatMap((name, at) => (isNested(name, at) ? [at] : [])));
  const table = { columns: columns.map(mask), named: true, records, unfit };
  const { index, reason } = chooseColumn(table, column);
  return { columns, codeColumn: index, reason };
}

function valueOf({ text, tooLong }: JsonRecord, maxLength: number): JsonValue {
  if (!tooLong) return decodeJson(text);
  return { kind: 'unfit', reason: `is longer than the ${maxLength} characters a record may have` };
}

function jsonReader(
  byLine: boolean,
  { columns, codeColumn }: JsonShape,
  { maxLength, mask }: Sample,
  tally: Tally,
): Splitter<UncheckedRow> {
  const document = new JsonDocument(maxLength, mask);
  const split: Splitter<JsonRecord> = byLine
    ? jsonLines(maxLength, tally)
    : (piece, isLast) => document.push(piece, isLast);
  const known = new Set(columns);
  const unknown = new Set<string>();
  const rowOf = (record: JsonRecord): UncheckedRow => {
    const { line } = record;
    const value = valueOf(record, maxLength);
    if (value.kind === 'unfit') return { line, rejected: value.reason, columns: [] };
    if (value.kind === 'text') {
      const { text } = value;
      return { line, text, columns: columns.map((_, at) => (at === codeColumn ? text : '')) };
    }
    const { fields } = value;
    for (const name of fields.keys()) {
      if (!known.has(name) && unknown.size < MAX_NAMES) unknown.add(name);
    }
    const cells = columns.map((name) => fields.get(name)?.text ?? '');
    const code = fields.get(columns[codeColumn] ?? '');
    if (code === undefined) return { line, rejected: 'has no field with the code', columns: cells };
    if (code.nested) return { line, rejected: 'has a list or object as its code', columns: cells };
    return { line, text: code.text, columns: cells };
  };
  return (piece, isLast) => {
    const rows = split(piece, isLast).map(rowOf);
    if (isLast && unknown.size > 0) {
      const names = [...unknown].map((name) => quoted(mask(name))).join(', ');
      tally.notes.push(`The result leaves out fields that the first records don’t have: ${names}.`);
    }
    return rows;
  };
}

function jsonLines(maxLength: number, tally?: Tally): Splitter<JsonRecord> {
  const split = lineSplitter(maxLength);
  return (piece, isLast) => {
    const lines = split(piece, isLast);
    const records = lines.filter((line) => !isBlank(line));
    if (tally !== undefined) tally.blankLines += lines.length - records.length;
    return records.map(({ number, text, tooLong }) => ({ line: number, text, tooLong }));
  };
}

type JsonValue =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'object'; readonly fields: ReadonlyMap<string, Field> }
  | { readonly kind: 'unfit'; readonly reason: string };

interface Field {
  readonly text: string;
  /** True for an array or object: a cell of JSON, but never a code. */
  readonly nested: boolean;
}

/** Decodes a record: a string, or an object with its fields as text. */
export function decodeJson(json: string): JsonValue {
  try {
    const value: unknown = JSON.parse(withExactNumbers(json));
    if (typeof value === 'string') return { kind: 'text', text: value };
    if (typeof value === 'number') return { kind: 'text', text: String(value) };
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return { kind: 'unfit', reason: 'is neither a string nor an object' };
    }
    const fields = Object.entries(value).map(([name, field]) => [name, fieldOf(field)] as const);
    return { kind: 'object', fields: new Map(fields) };
  } catch (error) {
    // JSON.stringify overflows the stack for deep nesting.
    const isTooDeep = error instanceof RangeError;
    return { kind: 'unfit', reason: isTooDeep ? 'is nested too deeply' : 'is not valid JSON' };
  }
}

function fieldOf(value: unknown): Field {
  if (value === null || value === undefined) return { text: '', nested: false };
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { text, nested: typeof value === 'object' };
}

const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Makes strings of numbers that JavaScript would write differently, such as `1.10` or an id of 20 digits. */
function withExactNumbers(json: string): string {
  return json.replaceAll(TEXT_OR_NUMBER, (part) =>
    part.startsWith('"') || !/^-?(?:0|[1-9]\d*)(?:\D|$)/.test(part) || String(Number(part)) === part
      ? part
      : `"${part}"`,
  );
}
