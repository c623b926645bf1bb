import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { uniqueNames } from '../../domain/csv.js';
import type { WorkbookColumn } from '../../listing/workbook-column.js';
import {
  cellOf,
  columnXml,
  FILLS,
  fillXml,
  lettersOf,
  textCell,
  type CellStyles,
} from '../../listing/write-workbook.js';
import type { KeptWorkbook } from './types.js';
import type { ResultRow } from './write-result.js';
import { columnOf } from './cells.js';
import { bookPath, openParts, readPart, relationsOf, type Parts } from './workbook.js';

/*
 * Adds columns to a workbook and keeps everything else: other sheets, formats, formulas, charts. Libraries that write
 * workbooks drop what they don't know. Here cells are inserted into the sheet's XML at the end of its rows, its columns get
 * widths, its filter gets wider, and formats are appended to the styles. All other parts stay byte for byte.
 */

/**
 * Yields a copy of a workbook with columns right of everything that its sheet has.
 * @param names of the list's own columns
 * @param rows from top to bottom; their lines are rows of the sheet, from 1
 */
export async function* annotatedWorkbook(
  { bytes, sheet: sheetPath, headerRow }: KeptWorkbook,
  names: readonly string[],
  columns: readonly WorkbookColumn[],
  rows: AsyncIterable<ResultRow>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const parts = await openParts(bytes);
  const book = await readBook(parts, sheetPath);
  const xml = await readPart(parts, sheetPath);
  const unique = uniqueNames(
    columns.map(({ name }) => name),
    names,
  );
  const addedColumns = columns.map((column, at): WorkbookColumn => {
    const { kind } = column;
    const isText = kind === 'moment' && !book.hasDates;
    return { ...column, name: unique[at] ?? '', kind: isText ? 'text' : kind };
  });
  const free = freeColumn(xml);
  const last = lettersOf(free + columns.length - 1);
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;
  const fail = (error: unknown): void => void output.destroy(error as Error);
  zip.on('error', fail);
  const added = { headerRow, styles: book.styles, columns: addedColumns, free };
  const pieces = Readable.from(sheetPieces(xml, added, rows), { objectMode: false });
  pieces.on('error', fail);
  for (const [path, entry] of parts.entries) {
    const options = { mtime: entry.getLastModDate(), compress: entry.compressionMethod !== 0 };
    const name = entry.fileName;
    if (name.endsWith('/')) zip.addEmptyDirectory(name);
    else if (path === sheetPath.toLowerCase()) zip.addReadStream(pieces, name, options);
    else if (path === book.stylesPath) zip.addBuffer(Buffer.from(book.stylesXml), name, options);
    else if (path === book.path) zip.addBuffer(Buffer.from(book.withFilterTo(last)), name, options);
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
  /** The first free column, from 0. */
  readonly free: number;
}

const CHUNK_CHARACTERS = 256 * 1024;

/** The XML of a sheet with cells at the end of its rows, in pieces. */
async function* sheetPieces(
  xml: string,
  { columns, headerRow, styles, free }: Added,
  rows: AsyncIterable<ResultRow>,
): AsyncGenerator<Buffer, void, undefined> {
  const letters = columns.map((_, at) => lettersOf(free + at));
  const cellsOf = ({ line, values }: ResultRow): string =>
    columns
      .map((column, at) => cellOf(`${letters[at]}${line}`, values[at] ?? null, column, styles))
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
      text += at === 0 ? withColumns(xml.slice(0, index), columns, free) : xml.slice(at, index);
      // Readers may skip cells outside the columns that a row claims to have.
      text += `<${prefix}row${attributes.replace(/\sspans="[^"]*"/, '')}>${content}`;
      text += `${prefix === '' ? cells : cells.replaceAll(/<(\/?)(?=\w)/g, `<$1${prefix}`)}</${prefix}row>`;
      at = index + row.length;
      if (text.length < CHUNK_CHARACTERS) continue;
      yield Buffer.from(text);
      text = '';
    }
    yield Buffer.from(text + (at === 0 ? xml : withFilter(xml.slice(at), letters.at(-1))));
  } finally {
    // The results come from a connection, which is released when they end.
    await results.return?.();
  }
}

const WIDTHS = /<((?:\w+:)?)cols\b[^>]*>([^]*?)<\/\1cols\s*>/;
const WIDTH = /<(?:\w+:)?col\b[^>]*?(?:\/>|><\/(?:\w+:)?col\s*>)/g;

/** Changes the beginning of a sheet: its range gets wider, and the added columns get widths. @param free from 0 */
function withColumns(head: string, columns: readonly WorkbookColumn[], free: number): string {
  const last = lettersOf(free + columns.length - 1);
  const wider = head.replace(/(<(?:\w+:)?dimension\b[^>]*:)[A-Z]+(?=\d+")/, `$1${last}`);
  if (!WIDTHS.test(wider)) {
    return wider.replace(/<((?:\w+:)?)sheetData\b/, (found, prefix: string) => {
      return `<${prefix}cols>${columnXml(columns, free + 1, prefix)}</${prefix}cols>${found}`;
    });
  }
  return wider.replace(WIDTHS, (_, prefix: string, content: string) => {
    const own = content.replaceAll(WIDTH, (width) => endedAt(width, free));
    return `<${prefix}cols>${own}${columnXml(columns, free + 1, prefix)}</${prefix}cols>`;
  });
}

/** Limits a width to the columns before the added ones: two widths of one column would be a damaged workbook. */
function endedAt(width: string, columns: number): string {
  const first = Number(/\smin="(\d+)"/.exec(width)?.[1] ?? 1);
  const last = Number(/\smax="(\d+)"/.exec(width)?.[1] ?? first);
  if (first > columns) return '';
  return last > columns ? width.replace(/\smax="\d+"/, ` max="${columns}"`) : width;
}

/** Extends the filter in the end of a sheet to the last column. */
function withFilter(end: string, letters = ''): string {
  return end.replace(
    /(<(?:\w+:)?autoFilter\b[^>]*\sref="[A-Z]+\d+:)[A-Z]+(?=\d+")/,
    `$1${letters}`,
  );
}

/** The numbers of Excel's formats: a number with two decimals, a date with its time, a text. */
const FORMATS = { hundredths: 2, moment: 22, text: 49 };

interface Book {
  /** The part that lists the sheets. */
  readonly path: string;
  /** Its XML, where the name of the sheet's filter extends to this column. */
  readonly withFilterTo: (letters: string) => string;
  /** The part with the styles, and its XML with the formats of the new cells. Null: these have no format. */
  readonly stylesPath: string | null;
  readonly stylesXml: string;
  readonly styles: CellStyles;
  /** False if a number would not be shown as the right date: no format, or days that count from 1904. */
  readonly hasDates: boolean;
}

async function readBook(parts: Parts, sheetPath: string): Promise<Book> {
  const path = await bookPath(parts);
  const bookXml = await readPart(parts, path);
  const hasDates = !/\bdate1904="(?:1|true)"/.test(bookXml);
  const relations = await relationsOf(parts, path);
  const found = relations.find(({ type }) => type === 'styles');
  const sheetId = relations.find((relation) => relation.path === sheetPath)?.id ?? '';
  const book = {
    path: path.toLowerCase(),
    withFilterTo: (letters: string) => withFilterName(bookXml, sheetId, letters),
  };
  const general = {
    ...{ general: 0, text: 0, moment: 0, date: 0, hundredths: 0, header: 0 },
    ...{ good: 0, bad: 0, warn: 0, muted: 0 },
  };
  const none = { ...book, stylesPath: null, stylesXml: '', styles: general, hasDates: false };
  if (found === undefined) return none;
  const xml = await readPart(parts, found.path);
  const list = /<((?:\w+:)?)cellXfs\b[^>]*>([^]*?)<\/\1cellXfs>/.exec(xml);
  if (list === null) return none;
  const [all, prefix = '', content = ''] = list;
  const count = content.match(/<(?:\w+:)?xf\b/g)?.length ?? 0;
  const fills = FILL_LIST.exec(xml);
  const tones = fills === null ? [] : Object.keys(FILLS);
  const firstFill = fills?.[2]?.match(/<(?:\w+:)?fill\b/g)?.length ?? 0;
  const xf = (format: number, fill: number): string =>
    `<${prefix}xf numFmtId="${format}" fontId="0" fillId="${fill}" borderId="0" xfId="0" applyNumberFormat="1"${fill === 0 ? '' : ' applyFill="1"'}/>`;
  const formats = [
    ...Object.values(FORMATS).map((id) => xf(id, 0)),
    ...tones.map((_, at) => xf(FORMATS.text, firstFill + at)),
  ];
  const text = count + 2;
  const longer =
    `<${prefix}cellXfs count="${count + formats.length}">` +
    `${content}${formats.join('')}</${prefix}cellXfs>`;
  const withFormats = xml.slice(0, list.index) + longer + xml.slice(list.index + all.length);
  return {
    ...book,
    stylesPath: found.path.toLowerCase(),
    stylesXml: withFormats.replace(FILL_LIST, (_, fillPrefix: string, fillXmls: string) => {
      const added = Object.values(FILLS).map((colour) => fillXml(colour, fillPrefix));
      const total = firstFill + added.length;
      return `<${fillPrefix}fills count="${total}">${fillXmls}${added.join('')}</${fillPrefix}fills>`;
    }),
    styles: {
      ...general,
      hundredths: count,
      moment: count + 1,
      date: count + 1,
      text,
      ...{ good: text, bad: text, warn: text, muted: text },
      ...Object.fromEntries(tones.map((tone, at) => [tone, text + 1 + at])),
    },
    hasDates,
  };
}

const FILL_LIST = /<((?:\w+:)?)fills\b[^>]*>([^]*?)<\/\1fills\s*>/;

/** Extends the hidden name that Excel gives to the range of a sheet's filter. @param sheetId of its relation */
function withFilterName(bookXml: string, sheetId: string, letters: string): string {
  const sheets = bookXml.match(/<(?:\w+:)?sheet\b[^>]*>/g) ?? [];
  const index = sheets.findIndex((sheet) => /\s\w+:id="([^"]*)"/.exec(sheet)?.[1] === sheetId);
  return bookXml.replaceAll(
    /(<(?:\w+:)?definedName\b[^>]*>[^<]*:\$)[A-Z]+(?=\$\d+<)/g,
    (found, start: string) =>
      /_xlnm\._FilterDatabase/.test(found) && found.includes(`localSheetId="${index}"`)
        ? start + letters
        : found,
  );
}
