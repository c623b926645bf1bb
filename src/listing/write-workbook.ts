import { UserError } from '../domain/user-error.js';
import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { isNumberText } from '../domain/csv.js';
import { MOST_SHEET_ROWS } from './file-error.js';
import type { Tone, WorkbookColumn } from './workbook-column.js';

const MOST_SHEET_COLUMNS = 16_384;
/** Most UTF-16 units of a cell. */
const MOST_CHARACTERS = 32_767;
/** Largest part of a ZIP archive that every program can read, in bytes. */
const MOST_BYTES = 4 * 1024 ** 3 - 1;

/** Colours behind text, as Excel's own styles “Good”, “Bad” and “Neutral” have them. */
export const FILLS: Readonly<Record<Tone, string>> = {
  good: 'FFC6EFCE',
  bad: 'FFFFC7CE',
  warn: 'FFFFEB9C',
  muted: 'FFEDEDED',
};

/** In characters. Excel shows a number or date that needs more as `###`. */
const WIDTHS: Readonly<Record<WorkbookColumn['kind'], number>> = {
  text: 22,
  number: 12,
  moment: 20,
  date: 12,
};

type Value = string | number | null;

/**
 * Writes a table as an Excel workbook with one sheet, in chunks and bounded memory. Text cells have type text, so that
 * Excel neither runs them as formulas nor converts them to numbers or dates. Numbers of more than 15 digits are text,
 * since Excel would round them. A filter covers all columns. Times are Excel dates in UTC, or text before March 1900. Text of more than 32,767
 * characters is cut with a note.
 * @throws UserError when there are more rows, columns or bytes than a sheet can hold
 */
export async function* workbookChunks(
  columns: readonly WorkbookColumn[],
  rows: AsyncIterable<readonly Value[]>,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (columns.length > MOST_SHEET_COLUMNS) throw tooMuch(`${MOST_SHEET_COLUMNS} columns`);
  const zip = new ZipFile();
  const output = zip.outputStream as Readable;
  const size = { rows: 1 };
  const sheet = Readable.from(sheetXml(columns, rows, size), { objectMode: false });
  const fail = (error: unknown): void => void output.destroy(error as Error);
  sheet.on('error', fail);
  zip.on('error', fail);
  for (const [path, xml] of Object.entries(PARTS)) zip.addBuffer(Buffer.from(HEAD + xml), path);
  zip.addReadStream(sheet, 'xl/worksheets/sheet1.xml');
  // Its filter names the last row, which is known once the sheet is written.
  const book = Readable.from(bookXml(columns.length, size), { objectMode: false });
  zip.addReadStream(book, 'xl/workbook.xml');
  zip.end();
  try {
    for await (const chunk of output) yield chunk as Uint8Array;
  } finally {
    sheet.destroy();
  }
}

const CHUNK_CHARACTERS = 64 * 1024;

async function* sheetXml(
  columns: readonly WorkbookColumn[],
  rows: AsyncIterable<readonly Value[]>,
  size: { rows: number },
): AsyncGenerator<Buffer, void, undefined> {
  const letters = columns.map((_, at) => lettersOf(at));
  const header = columns.map(({ name }, at) => textCell(`${letters[at]}1`, name, STYLE.header));
  let xml = `${HEAD}<worksheet ${MAIN}><sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews><sheetFormatPr defaultRowHeight="15"/>${columns.length === 0 ? '' : `<cols>${columnXml(columns, 1)}</cols>`}<sheetData><row r="1">${header.join('')}</row>`;
  let number = 1;
  let bytes = 0;
  for await (const values of rows) {
    if (++number > MOST_SHEET_ROWS + 1) throw tooMuch(`${MOST_SHEET_ROWS} rows`);
    xml += `<row r="${number}">`;
    for (const [at, column] of columns.entries()) {
      xml += cellOf(`${letters[at]}${number}`, values[at] ?? null, column);
    }
    xml += '</row>';
    if (xml.length < CHUNK_CHARACTERS) continue;
    const chunk = Buffer.from(xml);
    if ((bytes += chunk.length) > MOST_BYTES) throw tooMuch('4 GiB');
    yield chunk;
    xml = '';
  }
  size.rows = number;
  const filter = columns.length === 0 ? '' : `<autoFilter ref="A1:${letters.at(-1)}${number}"/>`;
  yield Buffer.from(`${xml}</sheetData>${filter}</worksheet>`);
}

/** XML of the widths of columns. @param first number of the first one, from 1 @param prefix of a namespace */
export function columnXml(columns: readonly WorkbookColumn[], first: number, prefix = ''): string {
  return columns
    .map(({ kind, width = WIDTHS[kind] }, at) => {
      const number = first + at;
      return `<${prefix}col min="${number}" max="${number}" width="${width}" customWidth="1"/>`;
    })
    .join('');
}

function* bookXml(columns: number, size: { readonly rows: number }): Generator<Buffer> {
  const range = `Sheet1!$A$1:$${lettersOf(columns - 1)}$${size.rows}`;
  const filter = `<definedNames><definedName name="_xlnm._FilterDatabase" localSheetId="0" hidden="1">${range}</definedName></definedNames>`;
  yield Buffer.from(
    `${HEAD}<workbook ${MAIN} xmlns:r="${OFFICE}"><sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets>${columns === 0 ? '' : filter}</workbook>`,
  );
}

function tooMuch(what: string): UserError {
  return new UserError(
    `an Excel sheet has no room for more than ${what}`,
    'Write it as CSV, which has no such limit.',
    'FILE',
    2,
  );
}

/** 0 → A, 26 → AA. */
export function lettersOf(column: number): string {
  const last = String.fromCharCode(65 + (column % 26));
  return column < 26 ? last : lettersOf(Math.floor(column / 26) - 1) + last;
}

/** Numbers of the cell styles of a workbook. */
export type CellStyles = Readonly<
  Record<'general' | 'text' | 'moment' | 'date' | 'hundredths' | 'header' | Tone, number>
>;

/** XML of a cell. @param place such as `B5` */
export function cellOf(
  place: string,
  value: Value,
  { kind, tones }: WorkbookColumn,
  styles: CellStyles = STYLE,
): string {
  if (value === null || value === '') return '';
  const text = String(value);
  if (kind === 'number' && isNumberText(text) && text.replaceAll(/\D/g, '').length <= 15) {
    const style = /\.\d\d$/.test(text) ? styles.hundredths : styles.general;
    return `<c r="${place}" s="${style}"><v>${Number(text)}</v></c>`;
  }
  const days = kind === 'moment' || kind === 'date' ? excelDays(text) : null;
  if (days !== null) {
    return `<c r="${place}" s="${kind === 'date' ? styles.date : styles.moment}"><v>${days}</v></c>`;
  }
  const tone = tones !== undefined && Object.hasOwn(tones, text) ? tones[text] : undefined;
  return textCell(place, text, styles[tone ?? 'text']);
}

const ISO = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?$/;
/** Days from Excel's day 0, 1899-12-30, to 1970-01-01. */
const DAYS_TO_1970 = 25_569;
/** Excel's number of 1900-03-01. Before it, Excel counts 29 February 1900, which did not exist. */
const FIRST_DAY = 61;

/** ISO 8601 as Excel's days, in UTC. Null for other text and for dates out of range. */
function excelDays(text: string): number | null {
  const ms = ISO.test(text) ? Date.parse(text) : NaN;
  const days = ms / 86_400_000 + DAYS_TO_1970;
  return days >= FIRST_DAY && days < 2_958_466 ? days : null;
}

const CUT = `… (cut: a cell of Excel holds ${MOST_CHARACTERS} characters)`;

/** XML of a text cell, which Excel neither runs as a formula nor converts. */
export function textCell(place: string, text: string, style: number): string {
  const whole = text.toWellFormed();
  const fitting =
    whole.length <= MOST_CHARACTERS
      ? whole
      : whole.slice(0, MOST_CHARACTERS - CUT.length).replace(/[\uD800-\uDBFF]$/, '') + CUT;
  return `<c r="${place}" s="${style}" t="inlineStr"><is><t xml:space="preserve">${escaped(fitting)}</t></is></c>`;
}

const ENTITIES: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '&': '&amp;' };

/** Characters that XML can't have. Workbooks write them as `_x0001_`. */
const INVALID = String.raw`[^\t\n\x20-\uFFFD\u{10000}-\u{10FFFF}]`;
/** An underscore that would be read as the start of such an escape, also once the next character is escaped. */
const ESCAPE_LIKE = String.raw`_(?=x[\dA-Fa-f]{4}(?:_|${INVALID}))`;
const ESCAPED = new RegExp(`[<>&]|${INVALID}|${ESCAPE_LIKE}`, 'gu');

function escaped(text: string): string {
  return text.replaceAll(
    ESCAPED,
    (char) =>
      ENTITIES[char] ?? `_x${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}_`,
  );
}

const STYLE: CellStyles = {
  ...{ general: 0, text: 1, moment: 2, date: 3, hundredths: 4, header: 5 },
  ...{ good: 6, bad: 7, warn: 8, muted: 9 },
};

/** XML of a fill with a colour, which styles refer to by its number. */
export function fillXml(colour: string, prefix = ''): string {
  return `<${prefix}fill><${prefix}patternFill patternType="solid"><${prefix}fgColor rgb="${colour}"/><${prefix}bgColor indexed="64"/></${prefix}patternFill></${prefix}fill>`;
}

const HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
const MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
const OFFICE = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';
const PACKAGE = 'http://schemas.openxmlformats.org/package/2006';
const CONTENT = 'application/vnd.openxmlformats-officedocument.spreadsheetml';

/** The parts that are the same in every workbook. Text cells have Excel's format Text, which also holds after edits. */
const PARTS = {
  '[Content_Types].xml': `<Types xmlns="${PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="${CONTENT}.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="${CONTENT}.styles+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="${CONTENT}.worksheet+xml"/></Types>`,
  '_rels/.rels': `<Relationships xmlns="${PACKAGE}/relationships"><Relationship Id="rId1" Type="${OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
  'xl/_rels/workbook.xml.rels': `<Relationships xmlns="${PACKAGE}/relationships"><Relationship Id="rId1" Type="${OFFICE}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="${OFFICE}/styles" Target="styles.xml"/></Relationships>`,
  'xl/styles.xml': `<styleSheet ${MAIN}><numFmts count="2"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/><numFmt numFmtId="165" formatCode="yyyy\\-mm\\-dd"/></numFmts><fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts><fills count="6"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>${Object.values(
    FILLS,
  )
    .map((colour) => fillXml(colour))
    .join(
      '',
    )}</fills><borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="10">${[0, 49, 164, 165, 2].map((format) => `<xf numFmtId="${format}" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>`).join('')}<xf numFmtId="49" fontId="1" fillId="0" borderId="0" xfId="0" applyNumberFormat="1" applyFont="1"/>${[2, 3, 4, 5].map((fill) => `<xf numFmtId="49" fontId="0" fillId="${fill}" borderId="0" xfId="0" applyNumberFormat="1" applyFill="1"/>`).join('')}</cellXfs></styleSheet>`,
};
