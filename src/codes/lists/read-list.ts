import { setImmediate } from 'node:timers/promises';
import { readCell } from '../../marketplace/code.js';
import { unescapeFormula } from '../../domain/csv.js';
import { cellMasker } from '../../domain/redact.js';
import { MASK } from '../../domain/secret.js';
import { FileError, quoted } from '../../listing/file-error.js';
import { gunzipped, isGzip, isWorkbook, refuseBinary, decode } from './bytes.js';
import { isShortenedNumber, plainName, SHORTENED_NUMBER } from './columns.js';
import { hasCells, linesOf, readCsv } from './csv.js';
import { jsonKind, readJson } from './json.js';
import { isBlank, isEmpty, planTable } from './table.js';
import {
  masked,
  wrongFile,
  type Entry,
  type Format,
  type List,
  type ListOptions,
  type Reading,
  type Row,
} from './types.js';

/** Masks API keys in a text. */
type Mask = (text: string) => string;

/**
 * Finds out how a list is written, and reads it.
 * @param bytes the whole file
 * @throws FileError when it is not a list of codes, it is too large, or the column of codes is unclear
 */
export async function readList(bytes: Buffer, options: ListOptions): Promise<List> {
  const { name, format, sheet, keys = [] } = options;
  const mask = cellMasker(keys);
  const column = options.column === undefined ? undefined : mask(options.column);
  const compressed = isGzip(bytes);
  const content = compressed ? await gunzipped(bytes) : bytes;
  const isBook = isWorkbook(content) && (format === undefined || format === 'xlsx');
  if (sheet !== undefined && !isBook) {
    throw new FileError(
      'there is no sheet in a list that is no Excel workbook',
      'Leave --sheet out, or name an Excel workbook (.xlsx).',
    );
  }
  const reading = isBook
    ? // Loaded on demand: only workbooks need its libraries.
      await (await import('./xlsx.js')).readXlsx(content, { column, sheet, mask, keys })
    : readText(content, { name, format, column, mask });
  const { reasons } = reading.layout;
  return {
    name,
    layout: {
      ...reading.layout,
      compressed,
      reasons: compressed ? ['It is compressed with gzip.', ...reasons] : reasons,
    },
    workbook: reading.workbook ?? null,
    ...(await entriesOf(reading, mask, options.signal)),
  };
}

interface TextOptions {
  readonly name: string;
  readonly format: Format | undefined;
  readonly column: string | undefined;
  readonly mask: Mask;
}

function readText(bytes: Buffer, { name, format: requested, column, mask }: TextOptions): Reading {
  const { text, encoding, bom, reason, notes } = decode(bytes);
  refuseBinary(bytes, encoding);
  if (text.trim() === '') throw wrongFile('the list is empty');
  const { format, reason: formatReason } = findFormat(text, name, requested);
  const layout = { format, encoding, bom, delimiter: null };
  const reasons = [formatReason, reason];
  if (format === 'json' || format === 'ndjson') {
    const { rows, reasons: why, ...table } = readJson(text, format === 'ndjson', column, mask);
    return {
      layout: { ...layout, ...table, header: false, reasons: [...reasons, ...why] },
      start: 0,
      rows: masked(rows, mask),
      notes,
    };
  }
  const isTable = format === 'csv';
  const csv = isTable ? readCsv(text) : { ...readLines(text), delimiter: null, notes: [] };
  const rows = masked(csv.rows, mask);
  const { start, ...table } = planTable(rows, {
    column,
    ...(isTable ? {} : { onlyName: 'code' }),
  });
  return {
    layout: {
      ...layout,
      ...table,
      delimiter: csv.delimiter,
      reasons: [...reasons, csv.reason, ...table.reasons],
    },
    start,
    rows,
    notes: [...notes, ...csv.notes],
  };
}

function readLines(text: string) {
  const rows = linesOf(text).map((content, index): Row => ({ line: index + 1, cells: [content] }));
  return { rows, reason: 'Each line is one value.' };
}

/** Rows after which other work of the process gets a turn. */
const TURN_ROWS = 20_000;

async function entriesOf(
  { layout, start, rows, notes }: Reading,
  mask: Mask,
  signal: AbortSignal | undefined,
): Promise<Pick<List, 'entries' | 'rejected' | 'blankLines' | 'notes'>> {
  const isJson = layout.format === 'json' || layout.format === 'ndjson';
  const entries: Entry[] = [];
  const header = layout.header ? plainName(layout.columns[layout.codeColumn] ?? '') : null;
  let [rejected, blankLines, repeated] = [0, 0, 0];
  for (const [index, row] of rows.entries()) {
    if (index % TURN_ROWS === 0) {
      await setImmediate();
      signal?.throwIfAborted();
    }
    const isFilled = row.fault !== undefined || (isJson ? row.cells.length > 0 : !isBlank(row));
    if (!isFilled) blankLines++;
    else if (index < start) continue;
    // As in joined exports.
    else if (header !== null && plainName(row.cells[layout.codeColumn] ?? '') === header)
      repeated++;
    else {
      const entry = entryOf(row, layout, mask);
      if ('rejected' in entry) rejected++;
      entries.push(entry);
    }
  }
  const more = repeated > 0 ? [repeatedNote(repeated)] : [];
  return { entries, rejected, blankLines, notes: [...notes, ...more] };
}

function repeatedNote(times: number): string {
  return times === 1
    ? 'The header is repeated once: that line is left out.'
    : `The header is repeated ${times} times: these lines are left out.`;
}

/** Reads the code of a row. */
function entryOf(row: Row, layout: Reading['layout'], mask: Mask): Entry {
  const { line } = row;
  const { codeColumn, format } = layout;
  const isCsv = format === 'csv';
  const cells = isCsv ? row.cells.map(unescapeFormula) : row.cells;
  const columns = fitToWidth(cells, layout);
  const reject = (rejected: string): Entry => ({ line, rejected, columns });
  const fault = row.fault ?? widthFault(row, cells, layout) ?? row.faults?.[codeColumn];
  if (fault !== undefined) return reject(fault);
  const cell = row.cells[codeColumn] ?? '';
  // An apostrophe does not guard a formula if another one ends the cell: `readCell` removes such quotes.
  const read = readCell(isCsv && !/'\s*$/.test(cell) ? unescapeFormula(cell) : cell);
  if (!('code' in read))
    return reject(read.reason === 'several-codes' ? read.fault : `the code ${read.fault}`);
  const { code } = read;
  // `readCell` removes quotes around a key, while the cell still has them.
  if (mask(code).includes(MASK)) {
    const hidden = columns.map((text, index) => (index === codeColumn ? MASK : text));
    return {
      line,
      rejected: 'the code is an API key or a look-up token, which is masked here',
      columns: hidden,
    };
  }
  return isShortenedNumber(code) ? reject(SHORTENED_NUMBER) : { line, code, columns };
}

function widthFault(
  row: Row,
  cells: readonly string[],
  { format, columns, codeColumn }: Reading['layout'],
): string | undefined {
  if (format !== 'csv') return undefined;
  const extent =
    row.lastLine === undefined ? '' : ` and extends to line ${row.lastLine}: is a quote left open?`;
  // An extra separator may have moved the code to another column.
  if (!isEmpty(cells.slice(columns.length)))
    return `has ${cells.length} cells instead of ${columns.length}${extent}`;
  return codeColumn < cells.length ? undefined : `ends before the column of codes${extent}`;
}

/** At most one cell a column: joins surplus cells into the last one, so that no text is lost. */
function fitToWidth(cells: readonly string[], layout: Reading['layout']): readonly string[] {
  const width = layout.columns.length;
  if (cells.length <= width) return cells;
  const end = isEmpty(cells.slice(width)) ? width : cells.length;
  return [...cells.slice(0, width - 1), cells.slice(width - 1, end).join(layout.delimiter ?? ' ')];
}

type TextFormat = Exclude<Format, 'xlsx'>;

const BY_EXTENSION: Readonly<Record<string, TextFormat>> = {
  csv: 'csv',
  tsv: 'csv',
  tab: 'csv',
  psv: 'csv',
  json: 'json',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  jsonlines: 'ndjson',
};

/** The requested format, or that of the content, or that of the name. Excel saves tables as `.txt`. */
function findFormat(
  text: string,
  name: string,
  requested: Format | undefined,
): { format: TextFormat; reason: string } {
  if (requested === 'xlsx') {
    throw new FileError('this is not an Excel workbook', 'Leave --input-format out.');
  }
  if (requested !== undefined) {
    return { format: requested, reason: `Read as ${requested}, as requested.` };
  }
  if (/^\s*<(?:!doctype|html|\?xml)/i.test(text.slice(0, 4096))) {
    return { format: 'txt', reason: 'Read as txt, because it is a web page or XML.' };
  }
  const extension = /\.([a-z]+)$/i.exec(name.replace(/\.gz$/i, ''))?.[1]?.toLowerCase() ?? '';
  const named = BY_EXTENSION[extension] ?? null;
  const json = jsonKind(text, named);
  if (json !== null && json !== named) {
    return { format: json, reason: `Read as ${json}, because its beginning is ${json}.` };
  }
  if (named !== null) {
    const reason = `Read as ${named}, because its name ends in ${quoted(extension)}.`;
    return { format: named, reason };
  }
  return hasCells(text)
    ? { format: 'csv', reason: 'Read as csv, because its lines have several cells.' }
    : { format: 'txt', reason: 'Read as txt, because its lines have a single value.' };
}
