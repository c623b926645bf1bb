import { UserError } from '../../domain/user-error.js';
import { readCell } from '../../marketplace/code.js';
import { unescapeFormula } from '../../domain/csv.js';
import { cellMasker } from '../../domain/redact.js';
import { MASK } from '../../domain/secret.js';
import { quoted } from '../../listing/file-error.js';
import { isShortenedNumber, plainName, SHORTENED_NUMBER } from './columns.js';
import { hasCells, readCsv, readLines } from './csv.js';
import { isBlank, isEmpty, planTable } from './table.js';
import { decode, isWorkbook, refuseBinary } from './text.js';
import {
  assertCells,
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

/** A list whose entries are read as they are taken. */
export interface ParsedList extends Pick<Reading, 'layout' | 'workbook'> {
  /** In the order of the list. Can be iterated once. */
  readonly entries: Iterable<Entry>;
  /** What was skipped or tolerated, once all entries were taken. */
  readonly end: () => Pick<List, 'rejected' | 'blankLines' | 'notes'>;
}

/**
 * Finds out how a list is written, and reads it. Large or hostile lists take seconds and much memory, so a process that
 * does other work calls `readList`, which does this in a thread.
 * @param bytes the whole file
 * @throws UserError when it is not a list of codes, it is too large, or the column of codes is unclear; also while its
 *   entries are taken
 */
export async function parseList(
  bytes: Buffer,
  options: Omit<ListOptions, 'signal'>,
): Promise<ParsedList> {
  const { name, format, sheet, keys = [] } = options;
  const mask = cellMasker(keys);
  const column = options.column === undefined ? undefined : mask(options.column);
  const isBook = isWorkbook(bytes) && (format === undefined || format === 'xlsx');
  if (sheet !== undefined && !isBook) {
    throw new UserError(
      'there is no sheet in a list that is no Excel workbook',
      'Leave --sheet out, or name an Excel workbook (.xlsx).',
      'FILE',
      2,
    );
  }
  const reading = isBook
    ? // Loaded on demand: only workbooks need its libraries.
      await (await import('./xlsx.js')).readXlsx(bytes, { column, sheet, mask, keys })
    : readText(bytes, { name, format, column, mask });
  const { layout, workbook } = reading;
  return { layout, workbook, ...entriesOf(reading, mask) };
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
  const csv = format === 'csv' ? readCsv(text) : readLines(text);
  const rows = masked(csv.rows, mask);
  const { start, ...table } = planTable(rows, {
    column,
    ...(format === 'csv' ? {} : { onlyName: 'code' }),
  });
  return {
    layout: {
      ...table,
      format,
      encoding,
      bom,
      delimiter: csv.delimiter,
      reasons: [formatReason, reason, csv.reason, ...table.reasons],
    },
    start,
    rows,
    notes: () => [...notes, ...csv.notes()],
    workbook: null,
  };
}

function entriesOf(
  { layout, start, rows, notes }: Reading,
  mask: Mask,
): Pick<ParsedList, 'entries' | 'end'> {
  const header = layout.header ? plainName(layout.columns[layout.codeColumn] ?? '') : null;
  let [rejected, blankLines, repeated, index, cells] = [0, 0, 0, 0, 0];
  function* entries(): Generator<Entry, void, undefined> {
    for (const row of rows) {
      assertCells((cells += row.cells.length));
      const isHeader = index++ < start;
      if (row.fault === undefined && isBlank(row)) blankLines++;
      else if (isHeader) continue;
      // As in joined exports.
      else if (header !== null && plainName(row.cells[layout.codeColumn] ?? '') === header)
        repeated++;
      else {
        const entry = entryOf(row, layout, mask);
        if ('rejected' in entry) rejected++;
        yield entry;
      }
    }
  }
  const end = () => {
    const more = repeated > 0 ? [repeatedNote(repeated)] : [];
    return { rejected, blankLines, notes: [...notes(), ...more] };
  };
  return { entries: entries(), end };
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

/** The requested format, or that of the content, or that of the name. Excel saves tables as `.txt`. */
function findFormat(
  text: string,
  name: string,
  requested: Format | undefined,
): { format: TextFormat; reason: string } {
  if (requested === 'xlsx') {
    throw new UserError('this is not an Excel workbook', 'Leave --input-format out.', 'FILE', 2);
  }
  if (requested !== undefined) {
    return { format: requested, reason: `Read as ${requested}, as requested.` };
  }
  const start = text.slice(0, 4096);
  if (/^\s*<(?:!doctype|html|\?xml)/i.test(start)) {
    return { format: 'txt', reason: 'Read as txt, because it is a web page or XML.' };
  }
  const extension = /\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase() ?? '';
  if (
    /^(?:nd)?json$|^jsonl(?:ines)?$/.test(extension) ||
    /^\s*(?:\[\s*["{[]|\{\s*["}])/.test(start)
  ) {
    throw new UserError(
      'this is JSON, which is not read as a list',
      'Make text of it, one code a line: `jq -r ".[].code" list.json > codes.txt`.',
      'FILE',
      2,
    );
  }
  if (['csv', 'tsv', 'tab', 'psv'].includes(extension)) {
    return { format: 'csv', reason: `Read as csv, because its name ends in ${quoted(extension)}.` };
  }
  return hasCells(text)
    ? { format: 'csv', reason: 'Read as csv, because its lines have several cells.' }
    : { format: 'txt', reason: 'Read as txt, because its lines have a single value.' };
}
