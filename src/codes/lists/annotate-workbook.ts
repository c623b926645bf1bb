import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { uniqueNames } from '../../domain/csv.js';
import {
  cellOf,
  lettersOf,
  textCell,
  type CellStyles,
  type WorkbookColumn,
} from '../../listing/write-workbook.js';
import type { KeptWorkbook } from './types.js';
import { columnOf, openParts, readPart, relationsOf, type Parts } from './workbook.js';

/*
 * Adds columns to a workbook and keeps everything else: other sheets, formats, formulas, charts. Libraries that write
 * workbooks drop what they don't know. Here cells are inserted into the sheet's XML at the end of its rows, and two
 * formats are appended to the styles. All other parts stay byte for byte.
 */

interface AddedRow {
  /** Row in the sheet, from 1. */
  readonly line: number;
  readonly values: readonly (string | number | null)[];
}

/**
 * Yields a copy of a workbook with columns right of everything that its sheet has.
 * @param names of the list's own columns
 * @param rows from top to bottom
 */
export async function* annotatedWorkbook(
  { bytes, sheet: sheetPath, headerRow }: KeptWorkbook,
  names: readonly string[],
  columns: readonly WorkbookColumn[],
  rows: AsyncIterable<AddedRow>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const parts = await openParts(bytes);
  const book = await readBook(parts);
  const xml = await readPart(parts, sheetPath);
  const unique = uniqueNames(
    columns.map(({ name }) => name),
    names,
  );
  const addedColumns = columns.map(({ kind }, at): WorkbookColumn => {
    return { name: unique[at] ?? '', kind: kind === 'moment' && !book.hasDates ? 'text' : kind };
  });
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;
  const fail = (error: unknown): void => void output.destroy(error as Error);
  zip.on('error', fail);
  const added = { headerRow, styles: book.styles, columns: addedColumns };
  const pieces = Readable.from(sheetPieces(xml, added, rows), { objectMode: false });
  pieces.on('error', fail);
  for (const [path, entry] of parts.entries) {
    const options = { mtime: entry.getLastModDate(), compress: entry.compressionMethod !== 0 };
    const name = entry.fileName;
    if (name.endsWith('/')) zip.addEmptyDirectory(name);
    else if (path === sheetPath.toLowerCase()) zip.addReadStream(pieces, name, options);
    else if (path === book.stylesPath) zip.addBuffer(Buffer.from(book.stylesXml), name, options);
    else {
      zip.addReadStreamLazy(name, options, (done) => {
        parts.zip.openReadStream(entry, done);
      });
    }
  }
  zip.end();
  try {
    for await (const chunk of output) yield chunk as Uint8Array;
  } finally {
    pieces.destroy();
  }
}

/** A row, with its prefix, attributes and content, which is missing in an empty element. */
const ROW = /<((?:\w+:)?)row\b([^>]*?)(?:\/>|>([^]*?)<\/\1row\s*>)/g;
const CELL = /<(?:\w+:)?c\b[^>]*>/g;

/** The first column right of all cells, from 0. */
function freeColumn(xml: string): number {
  let last = -1;
  for (const [, , , content = ''] of xml.matchAll(ROW)) {
    let column = -1;
    for (const [cell] of content.matchAll(CELL)) {
      const reference = /\sr="([A-Z]+\d+)"/.exec(cell)?.[1];
      column = reference === undefined ? column + 1 : columnOf(reference);
      last = Math.max(last, column);
    }
  }
  return last + 1;
}

/** The style of the last cell of a row. */
function lastStyle(content: string): number {
  const cell = content.match(CELL)?.at(-1) ?? '';
  return Number(/\ss="(\d+)"/.exec(cell)?.[1] ?? 0);
}

interface Added {
  readonly columns: readonly WorkbookColumn[];
  readonly headerRow: number | null;
  readonly styles: CellStyles;
}

const CHUNK_CHARACTERS = 256 * 1024;

/** The XML of a sheet with cells at the end of its rows, in pieces. */
async function* sheetPieces(
  xml: string,
  { columns, headerRow, styles }: Added,
  rows: AsyncIterable<AddedRow>,
): AsyncGenerator<Buffer, void, undefined> {
  const free = freeColumn(xml);
  const letters = columns.map((_, at) => lettersOf(free + at));
  const cellsOf = ({ line, values }: AddedRow): string =>
    columns
      .map(({ kind }, at) => cellOf(`${letters[at]}${line}`, values[at] ?? null, kind, styles))
      .join('');
  const namesOf = (line: number, style: number): string =>
    columns.map(({ name }, at) => textCell(`${letters[at]}${line}`, name, style)).join('');
  const results = rows[Symbol.asyncIterator]();
  try {
    let next = await results.next();
    let [at, number, text] = [0, 0, ''];
    for (const { 0: row, 1: prefix = '', 2: attributes = '', 3: content, index } of xml.matchAll(
      ROW,
    )) {
      number = Number(/\sr="(\d+)"/.exec(attributes)?.[1] ?? number + 1);
      if (content === undefined) continue;
      while (next.done !== true && next.value.line < number) next = await results.next();
      const cells =
        number === headerRow
          ? namesOf(number, lastStyle(content))
          : next.done !== true && next.value.line === number
            ? cellsOf(next.value)
            : '';
      if (cells === '') continue;
      text += at === 0 ? withLastColumn(xml.slice(0, index), letters.at(-1)) : xml.slice(at, index);
      // Readers may skip cells outside the columns that a row claims to have.
      text += `<${prefix}row${attributes.replace(/\sspans="[^"]*"/, '')}>${content}`;
      text += `${prefix === '' ? cells : cells.replaceAll(/<(\/?)(?=\w)/g, `<$1${prefix}`)}</${prefix}row>`;
      at = index + row.length;
      if (text.length < CHUNK_CHARACTERS) continue;
      yield Buffer.from(text);
      text = '';
    }
    yield Buffer.from(text + xml.slice(at));
  } finally {
    // The results come from a connection, which is released when they end.
    await results.return?.();
  }
}

/** Changes the last column of the range that the beginning of a sheet declares. */
function withLastColumn(head: string, letters = ''): string {
  return head.replace(/(<(?:\w+:)?dimension\b[^>]*:)[A-Z]+(?=\d+")/, `$1${letters}`);
}

/** The numbers of Excel's formats: a number with two decimals, a date with its time, a text. */
const FORMATS = { hundredths: 2, moment: 22, text: 49 };

interface Book {
  /** The part with the styles, and its XML with the formats of the new cells. Null: these have no format. */
  readonly stylesPath: string | null;
  readonly stylesXml: string;
  readonly styles: CellStyles;
  /** False if a number would not be shown as the right date: no format, or days that count from 1904. */
  readonly hasDates: boolean;
}

async function readBook(parts: Parts): Promise<Book> {
  const root = await relationsOf(parts, '');
  const path = root.find(({ type }) => type === 'officeDocument')?.path ?? 'xl/workbook.xml';
  const hasDates = !/\bdate1904="(?:1|true)"/.test(await readPart(parts, path));
  const found = (await relationsOf(parts, path)).find(({ type }) => type === 'styles');
  const general = { general: 0, text: 0, moment: 0, date: 0, hundredths: 0, header: 0 };
  const none = { stylesPath: null, stylesXml: '', styles: general, hasDates: false };
  if (found === undefined) return none;
  const xml = await readPart(parts, found.path);
  const list = /<((?:\w+:)?)cellXfs\b[^>]*>([^]*?)<\/\1cellXfs>/.exec(xml);
  if (list === null) return none;
  const [all, prefix = '', content = ''] = list;
  const count = content.match(/<(?:\w+:)?xf\b/g)?.length ?? 0;
  const formats = Object.values(FORMATS).map(
    (id) =>
      `<${prefix}xf numFmtId="${id}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>`,
  );
  const longer =
    `<${prefix}cellXfs count="${count + formats.length}">` +
    `${content}${formats.join('')}</${prefix}cellXfs>`;
  return {
    stylesPath: found.path.toLowerCase(),
    stylesXml: xml.slice(0, list.index) + longer + xml.slice(list.index + all.length),
    styles: {
      ...general,
      hundredths: count,
      moment: count + 1,
      date: count + 1,
      text: count + 2,
    },
    hasDates,
  };
}
