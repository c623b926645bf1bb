import { Readable } from 'node:stream';
import sax from 'sax';
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
import { columnOf, localName, openParts, readPart, relationsOf, type Parts } from './workbook.js';

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
  const sheet = findRows(xml);
  const title = headerRow === null ? undefined : sheet.rows.get(headerRow);
  const header =
    headerRow === null || title === undefined
      ? null
      : { number: headerRow, style: title.lastStyle };
  const unique = uniqueNames(
    columns.map(({ name }) => name),
    names,
  );
  const added = columns.map(({ kind }, at): WorkbookColumn => {
    return { name: unique[at] ?? '', kind: kind === 'moment' && !book.hasDates ? 'text' : kind };
  });
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;
  const fail = (error: unknown): void => void output.destroy(error as Error);
  zip.on('error', fail);
  const pieces = Readable.from(
    sheetPieces(xml, sheet, { header, styles: book.styles, columns: added }, rows),
    { objectMode: false },
  ).on('error', fail);
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

interface FoundRow {
  /** Where its start tag begins and ends, and where its end tag begins. The same for an element without content. */
  readonly start: number;
  readonly opened: number;
  closed: number;
  /** The style of its last cell. */
  lastStyle: number;
}

interface FoundSheet {
  readonly rows: ReadonlyMap<number, FoundRow>;
  /** The first column right of all cells, from 0. */
  readonly free: number;
  /** The namespace prefix of elements, such as `x:`. */
  readonly prefix: string;
  /** Where the start tag of the used range begins and ends; null if there is none. */
  readonly dimension: readonly [number, number] | null;
}

/** Finds where the rows of a sheet are in its XML. */
function findRows(xml: string): FoundSheet {
  const rows = new Map<number, FoundRow>();
  const parser = sax.parser(true, { strictEntities: true, position: true } as sax.SAXOptions);
  let row: FoundRow | null = null;
  let [number, column, last, prefix] = [0, -1, -1, ''];
  let dimension: [number, number] | null = null;
  Object.assign(parser, {
    onerror(error: Error) {
      throw error;
    },
    onopentag({ name, attributes }: sax.Tag) {
      const { r, s = '0' } = attributes;
      const [start, opened] = [parser.startTagPosition - 1, parser.position];
      if (localName(name) === 'worksheet') prefix = name.slice(0, name.indexOf(':') + 1);
      else if (localName(name) === 'dimension') dimension = [start, opened];
      else if (localName(name) === 'row') {
        number = r === undefined ? number + 1 : Number(r);
        column = -1;
        row = { start, opened, closed: opened, lastStyle: 0 };
        rows.set(number, row);
      } else if (localName(name) === 'c' && row !== null) {
        column = r === undefined ? column + 1 : columnOf(r);
        last = Math.max(last, column);
        row.lastStyle = Number(s);
      }
    },
    onclosetag(name: string) {
      if (localName(name) !== 'row' || row === null) return;
      // The end of an element without content has no tag of its own.
      if (parser.position !== row.opened) row.closed = parser.startTagPosition - 1;
      row = null;
    },
  });
  parser.write(xml).close();
  return { rows, free: last + 1, prefix, dimension };
}

interface Added {
  readonly columns: readonly WorkbookColumn[];
  /** The row of the header, and the style of its last cell. */
  readonly header: { readonly number: number; readonly style: number } | null;
  readonly styles: CellStyles;
}

const CHUNK_CHARACTERS = 256 * 1024;

async function* sheetPieces(
  xml: string,
  { rows: found, free, prefix, dimension }: FoundSheet,
  { columns, header, styles }: Added,
  rows: AsyncIterable<AddedRow>,
): AsyncGenerator<Buffer, void, undefined> {
  const letters = columns.map((_, at) => lettersOf(free + at));
  let at = 0;
  let text = '';
  if (dimension !== null) {
    const [start, end] = dimension;
    text += xml.slice(0, start);
    text += xml.slice(start, end).replace(/(?<=:)[A-Z]+(?=\d)/, letters.at(-1) ?? '');
    at = end;
  }
  const insert = (number: number, cells: string): void => {
    const row = found.get(number);
    if (row === undefined || row.closed === row.opened || row.start < at) return;
    text += xml.slice(at, row.start);
    // Readers may skip cells outside the columns that a row claims to have.
    text += xml.slice(row.start, row.opened).replace(/\s+spans="[^"]*"/, '');
    text += xml.slice(row.opened, row.closed);
    text += prefix === '' ? cells : cells.replaceAll(/<(\/?)(?=\w)/g, `<$1${prefix}`);
    at = row.closed;
  };
  if (header !== null) {
    const names = columns.map(({ name }, index) =>
      textCell(`${letters[index]}${header.number}`, name, header.style),
    );
    insert(header.number, names.join(''));
  }
  for await (const { line, values } of rows) {
    const cells = columns.map(({ kind }, index) =>
      cellOf(`${letters[index]}${line}`, values[index] ?? null, kind, styles),
    );
    insert(line, cells.join(''));
    if (text.length < CHUNK_CHARACTERS) continue;
    yield Buffer.from(text);
    text = '';
  }
  yield Buffer.from(text + xml.slice(at));
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
