import { FileError, quoted } from '../../listing/file-error.js';
import { chooseColumn } from './columns.js';
import { linesOf } from './csv.js';
import { assertRoom, roomCounter, wrongFile, type Row } from './types.js';

/** Values that decide the columns. */
const SAMPLE_VALUES = 1000;
const MAX_COLUMNS = 1000;
const MAX_NAMES = 10;

interface JsonOptions {
  /** The requested column: name or number. */
  readonly column: string | undefined;
  /** Masks API keys in a cell. */
  readonly mask: (cell: string) => string;
}

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
 * @throws FileError when there is no list, it is not JSON, or the column of codes is unclear
 */
export function readJson(text: string, byLine: boolean, { column, mask }: JsonOptions) {
  const { values, list, blankLines } = byLine ? valuesOfLines(text) : valuesOf(text, mask);
  if (values.length === 0) throw wrongFile('the list is empty');
  const first = values.slice(0, SAMPLE_VALUES).map(({ value }) => value);
  const shape = shapeOf(first, { column, mask });
  const { rows, note } = rowsOf(values, shape, mask);
  return {
    rows,
    blankLines,
    notes: note === null ? [] : [note],
    layout: {
      delimiter: null,
      header: false,
      columns: shape.columns.map(mask),
      codeColumn: shape.codeColumn,
      reasons: [
        ...(list === null ? [] : [`The list is the object's member ${quoted(list)}.`]),
        shape.reason,
      ],
    },
  };
}

interface Values {
  readonly values: readonly { readonly line: number; readonly value: Value }[];
  /** Name of the member with the list, or null if the document itself is the list. */
  readonly list: string | null;
  readonly blankLines: number;
}

function valuesOfLines(text: string): Values {
  const values: { line: number; value: Value }[] = [];
  let blankLines = 0;
  for (const [index, line] of linesOf(text).entries()) {
    if (line.trim() === '') blankLines++;
    else values.push({ line: index + 1, value: decodeJson(line) });
  }
  return { values, list: null, blankLines };
}

function valuesOf(text: string, mask: JsonOptions['mask']): Values {
  const document = parseDocument(text);
  const [list, items] = Array.isArray(document) ? [null, document] : listIn(document, mask);
  assertRoom(items.length);
  const values = items.map((item, index) => ({ line: index + 1, value: valueOf(item) }));
  return { values, list, blankLines: 0 };
}

const REMEDY =
  'Correct the JSON or export it again. With one value a line (NDJSON), other lines survive a broken one.';

function parseDocument(text: string): unknown {
  try {
    return JSON.parse(withExactNumbers(text));
  } catch (error) {
    if (error instanceof RangeError) throw new FileError('it is nested too deeply', REMEDY);
    throw new FileError(jsonProblem(text), REMEDY, { cause: error });
  }
}

/** Says in which line a text stops being JSON. The parser's own message may quote the text. */
function jsonProblem(text: string): string {
  let message = '';
  try {
    JSON.parse(text);
  } catch (error) {
    message = error instanceof Error ? error.message : '';
  }
  const position = /at position (\d+)/.exec(message)?.[1];
  if (position === undefined) return 'the document is cut off or is not JSON';
  const before = text.slice(0, Number(position));
  const line = (before.match(/\r\n?|\n/g)?.length ?? 0) + 1;
  return before.trim().length === text.trim().length
    ? `line ${line}: the document is cut off`
    : `line ${line}: this is not valid JSON`;
}

/** The only member that is a list of strings or objects. */
function listIn(document: unknown, mask: JsonOptions['mask']): [string, readonly unknown[]] {
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

function shapeOf(values: readonly Value[], { column, mask }: JsonOptions): Shape {
  const objects = values.flatMap((value) => ('fields' in value ? [value.fields] : []));
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

function rowsOf(values: Values['values'], shape: Shape, mask: JsonOptions['mask']) {
  const { columns, codeColumn } = shape;
  const known = new Set(columns);
  const unknown = new Set<string>();
  const count = roomCounter();
  const rows = values.map(({ line, value }): Row => {
    count(columns.length);
    if ('fault' in value) return { line, cells: [], fault: value.fault };
    if ('text' in value) {
      const cells = columns.map((_, at) => (at === codeColumn ? value.text : ''));
      return { line, cells };
    }
    const { fields } = value;
    for (const name of fields.keys()) {
      if (!known.has(name) && unknown.size < MAX_NAMES) unknown.add(name);
    }
    const cells = columns.map((name) => fields.get(name)?.text ?? '');
    const code = fields.get(columns[codeColumn] ?? '');
    if (code === undefined) return { line, cells, fault: 'has no field with the code' };
    if (code.nested) return { line, cells, fault: 'has a list or object as its code' };
    return { line, cells };
  });
  const names = [...unknown].map((name) => quoted(mask(name))).join(', ');
  const note =
    unknown.size === 0
      ? null
      : `The result leaves out fields that the first records don’t have: ${names}.`;
  return { rows, note };
}

/** Decodes one value of a list from its JSON. */
function decodeJson(json: string): Value {
  try {
    return valueOf(JSON.parse(withExactNumbers(json)));
  } catch (error) {
    const isTooDeep = error instanceof RangeError;
    return { fault: isTooDeep ? 'is nested too deeply' : 'is not valid JSON' };
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

const TEXT_OR_NUMBER = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** Makes strings of numbers that JavaScript would write differently, such as `1.10` or an id of 20 digits. */
function withExactNumbers(json: string): string {
  return json.replaceAll(TEXT_OR_NUMBER, (part) =>
    part.startsWith('"') || !/^-?(?:0|[1-9]\d*)(?:\D|$)/.test(part) || String(Number(part)) === part
      ? part
      : `"${part}"`,
  );
}

/** Whether the text is one JSON document or one value a line. Null if it is not JSON. */
export function jsonKind(text: string, named: string | null): 'json' | 'ndjson' | null {
  const start = text.slice(0, 1024 * 1024).trimStart();
  if (/^\[\s*(?:["{[\]\d-]|true|false|null)/.test(start)) return 'json';
  if (!/^\{\s*["}]/.test(start)) return null;
  if (named === 'ndjson') return 'ndjson';
  const end = start.search(/[\r\n]/);
  const first = decodeJson(end < 0 ? start : start.slice(0, end));
  if (!('fields' in first)) return 'json';
  const isAlone = end < 0 || start.slice(end).trim() === '';
  const hasList = [...first.fields.values()].some((field) => /^\[(?:"|\{)/.test(field.text));
  return isAlone && hasList ? 'json' : 'ndjson';
}
