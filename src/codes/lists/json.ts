import { FileError, quoted } from '../../listing/file-error.js';
import { parseJson } from '../../domain/values.js';
import { chooseColumn } from './columns.js';
import { linesOf } from './csv.js';
import { assertSize, wrongFile, type Row } from './types.js';

/** A value of the list: the text of a code, the fields of an object, or why it is neither. */
type Value =
  | { readonly text: string }
  | { readonly fields: ReadonlyMap<string, Field> }
  | { readonly fault: string };

interface Field {
  readonly text: string;
  /** True for an array or object: a cell of JSON, but never a code. */
  readonly nested: boolean;
}

/**
 * Reads a JSON list of strings or objects, also as a member of an object, or one value a line (NDJSON).
 * @param column the requested column: name or number
 * @throws FileError when there is no list, it is not JSON, or the column of codes is unclear
 */
export function readJson(text: string, byLine: boolean, column: string | undefined, mask: Mask) {
  const { values, list } = byLine
    ? { values: linesOf(text).map(decodeJson), list: null }
    : valuesOf(text, mask);
  if (values.every((value) => value === null)) throw wrongFile('the list is empty');
  const shape = shapeOf(values, column, mask);
  const listReason = list === null ? [] : [`The list is the object's member ${quoted(list)}.`];
  return {
    rows: values.map((value, index) => rowOf(value, index + 1, shape)),
    columns: shape.columns.map(mask),
    codeColumn: shape.codeColumn,
    reasons: [...listReason, shape.reason],
  };
}

/** Masks API keys in a text. */
type Mask = (text: string) => string;
/** Null for a blank line. */
type Values = readonly (Value | null)[];

function valuesOf(text: string, mask: Mask) {
  const document = parseDocument(text);
  const [list, items] = Array.isArray(document) ? [null, document] : listIn(document, mask);
  assertSize(items.length, 0);
  return { values: items.map(valueOf), list };
}

function parseDocument(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new FileError(
      error instanceof RangeError ? 'it is nested too deeply' : jsonProblem(text, error),
      'Correct the JSON or export it again. With one value a line (NDJSON), other lines survive a broken one.',
      { cause: error },
    );
  }
}

/** Says in which line a text stops being JSON. The parser's own message may quote the text. */
function jsonProblem(text: string, error: unknown): string {
  const position = /at position (\d+)/.exec(String(error))?.[1];
  if (position === undefined) return 'the document is cut off or is not JSON';
  const before = text.slice(0, Number(position));
  const line = before.split(/\r\n?|\n/).length;
  return before.trim().length === text.trim().length
    ? `line ${line}: the document is cut off`
    : `line ${line}: this is not valid JSON`;
}

/** The only member that is a list of strings or objects. */
function listIn(document: unknown, mask: Mask): [string, readonly unknown[]] {
  const members = typeof document === 'object' && document !== null ? Object.entries(document) : [];
  const isItem = (value: unknown): boolean =>
    typeof value === 'string' ||
    (typeof value === 'object' && value !== null && !Array.isArray(value));
  const lists = members.flatMap(([name, value]): [string, readonly unknown[]][] =>
    Array.isArray(value) && isItem(value[0]) ? [[mask(name), value]] : [],
  );
  const [found, other] = lists;
  if (found === undefined) {
    throw new FileError(
      'the JSON has no list of strings or objects',
      'Use an array of codes, an array of objects, or an object with one such array.',
    );
  }
  if (other === undefined) return found;
  throw new FileError(
    `the JSON object has two lists: ${quoted(found[0])} and ${quoted(other[0])}`,
    'Leave only the list with the codes in the file.',
  );
}

interface Shape {
  readonly columns: readonly string[];
  readonly codeColumn: number;
  readonly reason: string;
}

/** The fields of all objects are columns, in the order in which they first occur. */
function shapeOf(values: Values, column: string | undefined, mask: Mask): Shape {
  const objects = values.flatMap((value) =>
    value !== null && 'fields' in value ? [value.fields] : [],
  );
  if (objects.length === 0) {
    const table = { columns: ['code'], named: true, records: [] };
    const codeColumn = chooseColumn(table, column).index;
    return { columns: ['code'], codeColumn, reason: 'Every value is a code.' };
  }
  const names = new Set<string>();
  for (const fields of objects) for (const name of fields.keys()) names.add(name);
  assertSize(0, names.size);
  if (names.size === 0) throw wrongFile('the objects have no fields');
  const columns = [...names];
  // Nested values are never codes, even if their JSON looks like a code.
  const flatText = (field: Field | undefined): string =>
    field === undefined || field.nested ? '' : field.text;
  const sample = objects.slice(0, 1_000);
  const records = sample.map((fields) => columns.map((name) => flatText(fields.get(name))));
  const table = { columns: columns.map(mask), named: true, records };
  const { index, reason } = chooseColumn(table, column);
  return { columns, codeColumn: index, reason };
}

function rowOf(value: Value | null, line: number, { columns, codeColumn }: Shape): Row {
  if (value === null) return { line, cells: [] };
  if ('fault' in value) return { line, cells: [], fault: value.fault };
  if ('text' in value) {
    return { line, cells: columns.map((_, at) => (at === codeColumn ? value.text : '')) };
  }
  const cells = columns.map((name) => value.fields.get(name)?.text ?? '');
  const code = value.fields.get(columns[codeColumn] ?? '');
  if (code === undefined) return { line, cells, fault: 'has no field with the code' };
  if (code.nested) return { line, cells, fault: 'has a list or object as its code' };
  return { line, cells };
}

/** Decodes one value of a list from its JSON. */
function decodeJson(json: string): Value | null {
  if (json.trim() === '') return null;
  try {
    return valueOf(parseJson(json));
  } catch (error) {
    return {
      fault: error instanceof RangeError ? 'is nested too deeply' : 'is not valid JSON',
    };
  }
}

function valueOf(value: unknown): Value {
  if (typeof value === 'string') return { text: value };
  if (typeof value === 'number') return { text: String(value) };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { fault: 'is neither a string nor an object' };
  }
  try {
    const fields = Object.entries(value).map(([name, field]) => [name, fieldOf(field)] as const);
    return { fields: new Map(fields) };
  } catch (error) {
    // JSON.stringify overflows the stack for deep nesting.
    if (error instanceof RangeError) return { fault: 'is nested too deeply' };
    throw error;
  }
}

function fieldOf(value: unknown): Field {
  if (value === null || value === undefined) return { text: '', nested: false };
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return { text, nested: typeof value === 'object' };
}

/** Whether the text is one JSON document or one value a line. Null if it is not JSON. */
export function jsonKind(text: string, named: string | null): 'json' | 'ndjson' | null {
  const start = text.slice(0, 1024 * 1024).trimStart();
  if (/^\[\s*(?:["{[\]\d-]|true|false|null)/.test(start)) return 'json';
  if (!/^\{\s*["}]/.test(start)) return null;
  if (named === 'ndjson') return 'ndjson';
  const end = start.search(/[\r\n]/);
  const first = decodeJson(end < 0 ? start : start.slice(0, end));
  if (first === null || !('fields' in first)) return 'json';
  const isAlone = end < 0 || start.slice(end).trim() === '';
  const hasList = [...first.fields.values()].some((field) => /^\[(?:"|\{)/.test(field.text));
  return isAlone && hasList ? 'json' : 'ndjson';
}
