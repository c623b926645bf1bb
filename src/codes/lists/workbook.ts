import { isUserError, UserError } from '../../domain/user-error.js';
import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import sax from 'sax';
import { fromBufferPromise, type Entry as ZipEntry, type ZipFile } from 'yauzl';
import type { Secret } from '../../domain/secret.js';
import { isShortenedNumber, SHORTENED_NUMBER } from './columns.js';
import {
  assertCell,
  assertCells,
  assertSize,
  MOST_BYTES,
  TO_CSV,
  tooLarge,
  type Row,
} from './types.js';

/*
 * Reads an Excel workbook (.xlsx; ECMA-376): XML files in a ZIP archive. Libraries for whole workbooks decompress
 * without a limit, and don't tell a formula without its result from an empty cell.
 */

/** Most decompressed bytes of a part. Most of them are markup. */
const MOST_PART_BYTES = 2 * MOST_BYTES;

export interface Sheet {
  readonly name: string;
  /** Its part of the archive. */
  readonly path: string;
  readonly hidden: boolean;
  /** Reads all rows, empty ones left out. @throws UserError when the sheet is damaged or too large */
  rows(): Promise<readonly Row[]>;
}

/**
 * Opens a workbook.
 * @returns its sheets in order, without chart sheets
 * @throws UserError when it is damaged, too large, has a password, or is no workbook
 */
export async function openWorkbook(bytes: Buffer): Promise<readonly Sheet[]> {
  const parts = await openParts(bytes);
  const root = await relationsOf(parts, '');
  const path = root.find(({ type }) => type === 'officeDocument')?.path ?? 'xl/workbook.xml';
  if (path.endsWith('.bin')) {
    throw new UserError('this is an Excel workbook in the binary form (.xlsb)', AS_XLSX, 'FILE', 2);
  }
  const { sheets, from1904 } = await readSheetList(parts, path);
  const relations = await relationsOf(parts, path);
  const target = (type: string) => relations.find((relation) => relation.type === type)?.path;
  const strings = await readSharedStrings(parts, target('sharedStrings'));
  const dateStyles = await readDateStyles(parts, target('styles'));
  return sheets.flatMap(({ name, hidden, relationId }) => {
    const found = relations.find(({ id, type }) => id === relationId && type === 'worksheet');
    if (found === undefined) return [];
    const rows = () => readRows(parts, found.path, { strings, dateStyles, from1904 });
    return [{ name, path: found.path, hidden, rows }];
  });
}

const AS_XLSX = 'Save it in Excel as an ordinary workbook (.xlsx) or as CSV (UTF-8).';

export interface Parts {
  readonly zip: ZipFile;
  readonly entries: ReadonlyMap<string, ZipEntry>;
}

/** Opens the archive of a workbook. @throws UserError when it is damaged */
export async function openParts(bytes: Buffer): Promise<Parts> {
  const entries = new Map<string, ZipEntry>();
  try {
    const zip = await fromBufferPromise(bytes);
    for await (const entry of zip.eachEntry()) {
      // Ignore a second part of the same name. Programs differ in which one they read.
      const name = entry.fileName.toLowerCase();
      if (!entries.has(name)) entries.set(name, entry);
    }
    return { zip, entries };
  } catch (error) {
    throw damaged(error);
  }
}

/** Decompresses a part. @throws UserError when it is missing, too large or has a password */
export async function readPart(parts: Parts, path: string): Promise<string> {
  const stream = await openPart(parts, path);
  return (
    await buffer(stream).catch((error: unknown) => Promise.reject(damaged(error)))
  ).toString();
}

async function openPart({ zip, entries }: Parts, path: string): Promise<Readable> {
  const entry = entries.get(path.toLowerCase());
  if (entry === undefined) throw damaged(new Error(`it has no part ${path}`));
  if (entry.isEncrypted()) {
    const remedy = 'Remove the password in Excel, or save it as CSV (UTF-8).';
    throw new UserError('the workbook has a password', remedy, 'FILE', 2);
  }
  // yauzl fails if a part is larger than the size in its header.
  if (entry.uncompressedSize > MOST_PART_BYTES) {
    throw new UserError('the workbook has a part that is too large', TO_CSV, 'FILE', 2);
  }
  return zip.openReadStreamPromise(entry);
}

/** True if any part of a workbook holds one of the secrets, or is too large to be searched. */
export async function mentions(bytes: Buffer, secrets: readonly Secret[]): Promise<boolean> {
  const parts = await openParts(bytes);
  const size = [...parts.entries.values()].reduce((sum, part) => sum + part.uncompressedSize, 0);
  if (size > 2 * MOST_PART_BYTES) return true;
  const wanted = secrets.flatMap((secret) => {
    const text = secret.reveal().trim();
    return text === '' ? [] : [text, text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')];
  });
  if (wanted.length === 0) return false;
  // Bytes are compared as Latin-1, so that no character is cut at the end of a piece.
  const texts = wanted.map((text) => Buffer.from(text).toString('latin1').toLowerCase());
  const longest = texts.reduce((most, { length }) => Math.max(most, length), 0);
  try {
    for (const path of parts.entries.keys()) {
      let rest = '';
      for await (const piece of await openPart(parts, path)) {
        rest += (piece as Buffer).toString('latin1').toLowerCase();
        if (texts.some((text) => rest.includes(text))) return true;
        rest = rest.slice(-longest);
      }
    }
  } catch (error) {
    throw damaged(error);
  }
  return false;
}

/** Called for each element and text. Names have no namespace prefix. */
interface Handlers {
  readonly open: (name: string, attributes: Readonly<Record<string, string>>) => void;
  readonly text?: (text: string) => void;
  readonly close?: (name: string) => void;
}

/** Parses a part while it is decompressed. sax reads no external entities. A document type, which could define others, is refused. */
async function parsePart(parts: Parts, path: string, { open, text, close }: Handlers) {
  const pieces = await openPart(parts, path);
  const parser = sax.parser(true, { strictEntities: true, position: false } as sax.SAXOptions);
  Object.assign(parser, {
    onerror(error: Error) {
      throw error;
    },
    ondoctype() {
      throw new Error('it has a document type');
    },
    onopentag({ name, attributes }: sax.Tag) {
      open(localName(name), attributes);
    },
    onclosetag(name: string) {
      close?.(localName(name));
    },
    ...(text === undefined ? {} : { ontext: text, oncdata: text }),
  });
  try {
    pieces.setEncoding('utf8');
    for await (const piece of pieces) parser.write(piece as string);
    parser.close();
  } catch (error) {
    throw damaged(error);
  }
}

function localName(name: string): string {
  return name.slice(name.indexOf(':') + 1);
}

interface Relation {
  readonly id: string;
  /** The last segment of the type's URL, such as `worksheet`. */
  readonly type: string;
  readonly path: string;
}

/** The parts that a part refers to. @param path the part, or '' for the whole workbook */
export async function relationsOf(parts: Parts, path: string): Promise<readonly Relation[]> {
  const { dir, base } = posix.parse(path);
  const listed = posix.join(dir, '_rels', `${base}.rels`);
  const relations: Relation[] = [];
  if (!parts.entries.has(listed.toLowerCase())) return relations;
  await parsePart(parts, listed, {
    open(name, { Id = '', Type = '', Target = '', TargetMode }) {
      // Never open anything outside the workbook.
      if (name !== 'Relationship' || TargetMode === 'External') return;
      const path = posix.join('/', Target.startsWith('/') ? '' : dir, Target).slice(1);
      relations.push({ id: Id, type: Type.slice(Type.lastIndexOf('/') + 1), path });
    },
  });
  return relations;
}

async function readSheetList(parts: Parts, path: string) {
  const sheets: { name: string; hidden: boolean; relationId: string }[] = [];
  let from1904 = false;
  let isWorkbook = false;
  if (!parts.entries.has(path.toLowerCase())) throw noWorkbook();
  await parsePart(parts, path, {
    open(name, attributes) {
      if (name === 'workbook') isWorkbook = true;
      if (name === 'workbookPr') from1904 = /^(?:1|true)$/.test(attributes['date1904'] ?? '');
      if (name !== 'sheet') return;
      const [, relationId = ''] =
        Object.entries(attributes).find(([key]) => /^\w+:id$/.test(key)) ?? [];
      const { name: title = '', state = 'visible' } = attributes;
      sheets.push({ name: title, hidden: state !== 'visible', relationId });
    },
  });
  if (!isWorkbook) throw noWorkbook();
  return { sheets, from1904 };
}

/** Reads the strings that cells refer to by number. Joins formatted runs and leaves out phonetic text. */
async function readSharedStrings(parts: Parts, path: string | undefined): Promise<string[]> {
  const strings: string[] = [];
  if (path === undefined) return strings;
  let text = '';
  let inText = false;
  let isPhonetic = false;
  await parsePart(parts, path, {
    open(name) {
      if (name === 'si') text = '';
      if (name === 'rPh') isPhonetic = true;
      inText = name === 't' && !isPhonetic;
    },
    text(piece) {
      if (!inText) return;
      text += piece;
      assertCell(text.length, 'the workbook');
    },
    close(name) {
      if (name === 'si') {
        assertSize(strings.length, 0);
        strings.push(unescaped(text));
      }
      if (name === 'rPh') isPhonetic = false;
      inText = false;
    },
  });
  return strings;
}

/** Whether each cell style shows numbers as dates. */
async function readDateStyles(parts: Parts, path: string | undefined): Promise<boolean[]> {
  const custom = new Map<string, boolean>();
  const styles: boolean[] = [];
  if (path === undefined) return styles;
  let inCellStyles = false;
  await parsePart(parts, path, {
    open(name, { numFmtId = '', formatCode = '' }) {
      if (name === 'numFmt') custom.set(numFmtId, isDateFormat(formatCode));
      if (name === 'cellXfs') inCellStyles = true;
      if (name !== 'xf' || !inCellStyles) return;
      assertSize(styles.length, 0);
      styles.push(custom.get(numFmtId) ?? isBuiltInDate(Number(numFmtId)));
    },
    close(name) {
      if (name === 'cellXfs') inCellStyles = false;
    },
  });
  return styles;
}

/** Built-in formats of dates and times, including East Asian ones. */
function isBuiltInDate(id: number): boolean {
  return (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || (id >= 45 && id <= 58);
}

/** True if the format has a day, month, year, hour or second outside quotes, colours and currencies. */
function isDateFormat(code: string): boolean {
  return /[dmyhs]/i.test(code.replaceAll(/"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]/gi, ''));
}

/** The facts about a workbook that its cells depend on. */
interface CellContext {
  readonly strings: readonly string[];
  readonly dateStyles: readonly boolean[];
  /** True if days count from 1904, as in old workbooks from a Mac. */
  readonly from1904: boolean;
}

async function readRows(parts: Parts, path: string, context: CellContext): Promise<Row[]> {
  const rows: Row[] = [];
  let cells: string[] = [];
  let faults: Record<number, string> | undefined;
  let number = 0;
  let column = -1;
  let [characters, count] = [0, 0];
  let cell = { type: 'n', style: 0, text: '', hasFormula: false };
  let inValue = false;
  let isPhonetic = false;
  await parsePart(parts, path, {
    open(name, { r, t = 'n', s = '0' }) {
      if (name === 'row') {
        number = r === undefined ? number + 1 : Number(r);
        column = -1;
        [cells, faults] = [[], undefined];
      } else if (name === 'c') {
        column = r === undefined ? column + 1 : columnOf(r);
        assertSize(rows.length, column + 1);
        cell = { type: t, style: Number(s), text: '', hasFormula: false };
      } else if (name === 'f') cell.hasFormula = true;
      else if (name === 'rPh') isPhonetic = true;
      inValue = name === 'v' || (name === 't' && !isPhonetic);
    },
    text(piece) {
      if (!inValue) return;
      cell.text += piece;
      assertCell(cell.text.length, `row ${number}`);
    },
    close(name) {
      inValue = false;
      if (name === 'rPh') isPhonetic = false;
      if (name === 'row') {
        assertSize(rows.length, 0);
        assertCells((count += cells.length));
        rows.push({ line: number, cells, ...(faults && { faults }) });
      }
      if (name !== 'c') return;
      const { text, fault } = valueOf(cell, context);
      if (text === '' && fault === undefined) return;
      // Many cells may refer to the same long string.
      if ((characters += text.length) > MOST_BYTES) throw tooLarge('128 MB of text');
      while (cells.length < column) cells.push('');
      cells[column] = text;
      if (fault !== undefined) (faults ??= {})[column] = fault;
    },
  });
  return rows;
}

/** `B5` → 1. */
export function columnOf(reference: string): number {
  const letters = /^[A-Z]{1,3}(?=\d)/.exec(reference)?.[0] ?? '';
  let column = 0;
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64;
  return column - 1;
}

interface CellValue {
  /** Text unchanged, a number with Excel's 15 digits, or a date such as `2026-11-23 14:05:00`. */
  readonly text: string;
  /** Why it can't be the code that was entered. */
  readonly fault?: string;
}

const ENTER_AGAIN = 'format the cell as text and enter the code again';
const IS_DATE = `Excel has converted this code to a date: ${ENTER_AGAIN}`;

function valueOf(
  cell: { type: string; style: number; text: string; hasFormula: boolean },
  { strings, dateStyles, from1904 }: CellContext,
): CellValue {
  const { type, text } = cell;
  if (text === '' && !cell.hasFormula) return { text };
  if (text === '') {
    return {
      text,
      fault: 'the cell has a formula without its result: open the workbook in Excel and save it',
    };
  }
  switch (type) {
    case 's': {
      const shared = strings[Number(text)];
      if (shared === undefined) throw new Error('a cell refers to a missing string');
      return { text: shared };
    }
    case 'str':
    case 'inlineStr':
      return { text: unescaped(text) };
    case 'b':
      return {
        text: text.trim() === '1' ? 'TRUE' : 'FALSE',
        fault: 'the cell has TRUE or FALSE instead of a code',
      };
    case 'e':
      return { text, fault: 'the cell has an Excel error instead of a code' };
    case 'd':
      return { text, fault: IS_DATE };
    default:
      return numberOf(Number(text), dateStyles[cell.style] === true, from1904);
  }
}

function numberOf(value: number, isDate: boolean, from1904: boolean): CellValue {
  if (!Number.isFinite(value)) throw new Error('a number can’t be parsed');
  const date = isDate ? dateText(value, from1904) : null;
  if (date !== null) return { text: date, fault: IS_DATE };
  // Excel computes with 17 digits, but shows and accepts 15.
  const text = String(Number(value.toPrecision(15)));
  const isShortened = isShortenedNumber(text) || text.replace(/\D/g, '').length >= 15;
  const converted = `Excel has converted this code to a number, which loses leading zeros and digits: ${ENTER_AGAIN}`;
  return { text, fault: isShortened ? SHORTENED_NUMBER : converted };
}

/** Decodes `_x000D_`, which stands for a character that XML can't have. */
function unescaped(text: string): string {
  if (!text.includes('_x')) return text;
  return text.replaceAll(/_x([\dA-Fa-f]{4})_/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

const DAY_MS = 86_400_000;
/** Days from Excel's day 0, 1899-12-30, to 1904-01-01. */
const DAYS_TO_1904 = 1462;

/** Excel's number of days as a date, time or both, to the second. Null if Excel shows no date for it. */
function dateText(days: number, from1904: boolean): string | null {
  const since1900 = from1904 && days >= 1 ? days + DAYS_TO_1904 : days;
  // Excel counts 29 February 1900, which did not exist.
  const shifted = !from1904 && days >= 1 && days < 60 ? since1900 + 1 : since1900;
  if (shifted < 0 || shifted >= 2_958_466) return null;
  const ms = Math.round(shifted * 86_400) * 1000;
  const iso = new Date(Date.UTC(1899, 11, 30) + ms).toISOString();
  if (days < 1) return iso.slice(11, 19);
  return ms % DAY_MS === 0 ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${iso.slice(11, 19)}`;
}

function noWorkbook(): UserError {
  return new UserError('this is an Office document, but not an Excel workbook', TO_CSV, 'FILE', 2);
}

/** Returns our own errors unchanged. Any other error means that the file is damaged. */
function damaged(error: unknown): UserError {
  if (isUserError(error, 'FILE')) return error;
  return new UserError(
    'the workbook is damaged or cut off',
    'Copy it again, or open it in Excel and save it again.',
    'FILE',
    2,
    { cause: error },
  );
}
