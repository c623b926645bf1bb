import { posix } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import sax from 'sax';
import { fromBufferPromise, type Entry, type ZipFile } from 'yauzl';
import { FileError, TO_CSV } from './types.js';

/*
 * Reads an Excel workbook (.xlsx; ECMA-376): XML files in a ZIP archive. Libraries for this hold a whole sheet in memory,
 * and decompress without a limit. This reader streams rows, and no part can exceed the bounds below.
 */

/** Limits of a workbook. Excel itself limits only rows, columns and characters of a cell. */
export const WORKBOOK_BOUNDS = {
  /** Size of the file in bytes. It is in memory while it is read. */
  file: 128 * 1024 ** 2,
  /** Decompressed size of a sheet in bytes. */
  sheet: 2 * 1024 ** 3,
  /** Decompressed size of all shared strings in bytes. They are in memory. */
  strings: 256 * 1024 ** 2,
  /** Decompressed size of any other part in bytes. */
  other: 16 * 1024 ** 2,
  parts: 10_000,
  rows: 1_048_576,
  columns: 16_384,
  /** Nesting of elements. */
  depth: 50,
} as const;

/** A cell that is not empty. */
export interface SheetCell {
  /** From 0. */
  readonly column: number;
  /** Text unchanged, a number with Excel's 15 digits, or a date such as `2026-11-23 14:05:00`. */
  readonly text: string;
  /** `unsolved`: a formula without its result. */
  readonly kind: 'text' | 'number' | 'date' | 'boolean' | 'error' | 'unsolved';
}

export interface SheetRow {
  /** Row number in Excel, from 1. */
  readonly number: number;
  /** From left to right. */
  readonly cells: readonly SheetCell[];
  /** True if its text is longer than a record may be. The text is cut then. */
  readonly tooLong: boolean;
}

export interface Sheet {
  readonly name: string;
  readonly hidden: boolean;
  /** Reads rows on demand, in batches that may be empty. @throws FileError when the sheet is damaged or too large */
  rows(): AsyncGenerator<readonly SheetRow[], void, undefined>;
}

/**
 * Opens a workbook.
 * @param maxLength longest row, in UTF-16 units
 * @returns its sheets in order, without chart sheets
 * @throws FileError when it is damaged, too large, has a password, or is no workbook
 */
export async function openWorkbook(bytes: Buffer, maxLength: number): Promise<readonly Sheet[]> {
  const parts = await openParts(bytes);
  const root = await relationsOf(parts, '');
  const path = root.find(({ type }) => type === 'officeDocument')?.path ?? 'xl/workbook.xml';
  if (path.endsWith('.bin')) {
    throw new FileError('this is an Excel workbook in the binary form (.xlsb)', AS_XLSX);
  }
  const { sheets, from1904 } = await readSheetList(parts, path);
  const relations = await relationsOf(parts, path);
  const target = (type: string) => relations.find((relation) => relation.type === type)?.path;
  const strings = await readSharedStrings(parts, target('sharedStrings'), maxLength);
  const dateStyles = await readDateStyles(parts, target('styles'));
  return sheets.flatMap(({ name, hidden, relationId }) => {
    const found = relations.find(({ id, type }) => id === relationId && type === 'worksheet');
    if (found === undefined) return [];
    const rows = () => readRows(parts, found.path, { strings, dateStyles, from1904, maxLength });
    return [{ name, hidden, rows }];
  });
}

const AS_XLSX = 'Save it in Excel as an ordinary workbook (.xlsx) or as CSV (UTF-8).';

interface Parts {
  readonly zip: ZipFile;
  readonly entries: ReadonlyMap<string, Entry>;
}

async function openParts(bytes: Buffer): Promise<Parts> {
  const entries = new Map<string, Entry>();
  try {
    const zip = await fromBufferPromise(bytes);
    for await (const entry of zip.eachEntry()) {
      if (entries.size >= WORKBOOK_BOUNDS.parts) throw tooLarge('parts');
      // Ignore a second part of the same name. Programs differ in which one they read.
      const name = entry.fileName.toLowerCase();
      if (!entries.has(name)) entries.set(name, entry);
    }
    return { zip, entries };
  } catch (error) {
    throw damaged(error);
  }
}

/** Bytes parsed at once. Few, since each cell of some 20 bytes may refer to a string of any length. */
const PIECE_BYTES = 4096;

/** Called for each element and text. Names have no namespace prefix. */
interface Handlers {
  readonly open: (name: string, attributes: Readonly<Record<string, string>>) => void;
  readonly text?: (text: string) => void;
  readonly close?: (name: string) => void;
}

/** Parses a part. Yields after each piece, so that the caller can use the rows so far. */
async function* parseInPieces(
  { zip, entries }: Parts,
  path: string,
  maxBytes: number,
  { open, text, close }: Handlers,
): AsyncGenerator<void, void, undefined> {
  const entry = entries.get(path.toLowerCase());
  if (entry === undefined) throw damaged(new Error(`it has no part ${path}`));
  if (entry.isEncrypted()) throw new FileError('the workbook has a password', REMOVE_PASSWORD);
  // yauzl fails if a part is larger than the size in its header.
  if (entry.uncompressedSize > maxBytes) throw tooLarge('bytes');
  // sax limits text, names and attributes to 64 KiB a piece, and reads no external entities. A document type, which could
  // define others, is refused below.
  const parser = sax.parser(true, { strictEntities: true, position: false } as sax.SAXOptions);
  let depth = 0;
  Object.assign(parser, {
    position: 0,
    onerror(error: Error) {
      throw error;
    },
    ondoctype() {
      throw new Error('it has a document type');
    },
    onopentag({ name, attributes }: sax.Tag) {
      if (++depth > WORKBOOK_BOUNDS.depth) throw new Error('its elements are nested too deeply');
      open(localName(name), attributes);
    },
    onclosetag(name: string) {
      depth--;
      close?.(localName(name));
    },
    ...(text === undefined ? {} : { ontext: text, oncdata: text }),
  });
  try {
    const stream = await zip.openReadStreamPromise(entry);
    try {
      const decoder = new StringDecoder('utf8');
      for await (const piece of stream as AsyncIterable<Buffer>) {
        for (let at = 0; at < piece.length; at += PIECE_BYTES) {
          const text = decoder.write(piece.subarray(at, at + PIECE_BYTES));
          // The 64 KiB limit needs `position`. If sax counted it, that would take a quarter of the parse time.
          parser.position += text.length;
          parser.write(text);
          yield;
        }
      }
      parser.close();
    } finally {
      stream.destroy();
    }
  } catch (error) {
    throw damaged(error);
  }
  yield;
}

/** Parses a whole part. */
async function parse(parts: Parts, path: string, maxBytes: number, to: Handlers): Promise<void> {
  for await (const _ of parseInPieces(parts, path, maxBytes, to));
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
async function relationsOf(parts: Parts, path: string): Promise<readonly Relation[]> {
  const { dir, base } = posix.parse(path);
  const listed = posix.join(dir, '_rels', `${base}.rels`);
  const relations: Relation[] = [];
  if (!parts.entries.has(listed.toLowerCase())) return relations;
  await parse(parts, listed, WORKBOOK_BOUNDS.other, {
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
  await parse(parts, path, WORKBOOK_BOUNDS.other, {
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

/** Strings as consecutive bytes, which take a third of the memory of a million strings. */
class SharedStrings {
  #bytes = Buffer.alloc(64 * 1024);
  #ends: number[] = [];

  add(text: string): void {
    const start = this.#ends.at(-1) ?? 0;
    const end = start + Buffer.byteLength(text);
    if (end > this.#bytes.length) {
      const more = Buffer.alloc(Math.max(end, this.#bytes.length * 2));
      this.#bytes.copy(more, 0, 0, start);
      this.#bytes = more;
    }
    this.#bytes.write(text, start);
    this.#ends.push(end);
  }

  get(index: number): string | null {
    const end = this.#ends[index];
    return end === undefined ? null : this.#bytes.toString('utf8', this.#ends[index - 1] ?? 0, end);
  }
}

/** Reads the strings that cells refer to by number. Joins formatted runs and leaves out phonetic text. */
async function readSharedStrings(
  parts: Parts,
  path: string | undefined,
  maxLength: number,
): Promise<SharedStrings> {
  const strings = new SharedStrings();
  if (path === undefined) return strings;
  let text = '';
  let inText = false;
  let isPhonetic = false;
  await parse(parts, path, WORKBOOK_BOUNDS.strings, {
    open(name) {
      if (name === 'si') text = '';
      if (name === 'rPh') isPhonetic = true;
      inText = name === 't' && !isPhonetic;
    },
    text(piece) {
      if (!inText) return;
      text += piece;
      if (text.length > maxLength) throw tooLarge('text');
    },
    close(name) {
      if (name === 'si') strings.add(unescaped(text));
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
  await parse(parts, path, WORKBOOK_BOUNDS.other, {
    open(name, { numFmtId = '', formatCode = '' }) {
      if (name === 'numFmt') custom.set(numFmtId, isDateFormat(formatCode));
      if (name === 'cellXfs') inCellStyles = true;
      if (name !== 'xf' || !inCellStyles) return;
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
  readonly strings: SharedStrings;
  readonly dateStyles: readonly boolean[];
  /** True if days count from 1904, as in old workbooks from a Mac. */
  readonly from1904: boolean;
  readonly maxLength: number;
}

async function* readRows(
  parts: Parts,
  path: string,
  context: CellContext,
): AsyncGenerator<readonly SheetRow[], void, undefined> {
  const { maxLength } = context;
  let rows: SheetRow[] = [];
  let cells: SheetCell[] = [];
  let number = 0;
  let column = -1;
  let size = 0;
  let characters = 0;
  let cell = { type: 'n', style: 0, text: '', hasFormula: false };
  let inValue = false;
  let isPhonetic = false;
  const parsing = parseInPieces(parts, path, WORKBOOK_BOUNDS.sheet, {
    open(name, { r, t = 'n', s = '0' }) {
      if (name === 'row') {
        const next = r === undefined ? number + 1 : Number(r);
        if (!(next > number && next <= WORKBOOK_BOUNDS.rows)) throw new Error('its rows overlap');
        number = next;
        column = -1;
        size = 0;
        cells = [];
      } else if (name === 'c') {
        const next = r === undefined ? column + 1 : columnOf(r);
        if (!(next > column && next < WORKBOOK_BOUNDS.columns)) {
          throw new Error('its cells overlap');
        }
        column = next;
        cell = { type: t, style: Number(s), text: '', hasFormula: false };
      } else if (name === 'f') cell.hasFormula = true;
      else if (name === 'rPh') isPhonetic = true;
      inValue = name === 'v' || (name === 't' && !isPhonetic);
    },
    text(piece) {
      if (inValue && cell.text.length <= maxLength) cell.text += piece;
    },
    close(name) {
      inValue = false;
      if (name === 'rPh') isPhonetic = false;
      if (name === 'c') {
        const value = valueOf(cell, context);
        const room = maxLength - size;
        if (value !== null) {
          size += value.text.length + 1;
          const text = value.text.slice(0, Math.max(0, room));
          if (text !== '' || value.text === '') cells.push({ column, kind: value.kind, text });
        }
      }
      if (name !== 'row') return;
      rows.push({ number, cells, tooLong: size > maxLength });
      characters += Math.min(size, maxLength);
      cells = [];
    },
  });
  let pieces = 0;
  for await (const _ of parsing) {
    const isFull = rows.length >= BATCH_ROWS || characters >= BATCH_CHARACTERS;
    if (!isFull && ++pieces < BATCH_PIECES) continue;
    const batch = rows;
    rows = [];
    characters = 0;
    pieces = 0;
    yield batch;
  }
  yield rows;
}

/** A batch ends after about this many rows or characters, or after this many pieces without them. */
const BATCH_ROWS = 500;
const BATCH_CHARACTERS = 1024 * 1024;
const BATCH_PIECES = 256;

/** `B5` → 1. */
function columnOf(reference: string): number {
  const letters = /^[A-Z]{1,3}(?=\d)/.exec(reference)?.[0] ?? '';
  let column = 0;
  for (const letter of letters) column = column * 26 + letter.charCodeAt(0) - 64;
  return column - 1;
}

/** The value of a cell, or null if it is empty. */
function valueOf(
  cell: { type: string; style: number; text: string; hasFormula: boolean },
  { strings, dateStyles, from1904 }: CellContext,
): Omit<SheetCell, 'column'> | null {
  const { type, text } = cell;
  if (text === '') return cell.hasFormula ? { kind: 'unsolved', text } : null;
  switch (type) {
    case 's': {
      const shared = strings.get(Number(text));
      if (shared === null) throw new Error('a cell refers to a missing string');
      return shared === '' ? null : { kind: 'text', text: shared };
    }
    case 'str':
    case 'inlineStr':
      return { kind: 'text', text: unescaped(text) };
    case 'b':
      return { kind: 'boolean', text: text.trim() === '1' ? 'TRUE' : 'FALSE' };
    case 'e':
      return { kind: 'error', text };
    case 'd':
      return { kind: 'date', text };
    default: {
      const value = Number(text);
      if (!Number.isFinite(value)) throw new Error('a number can’t be parsed');
      const date = dateStyles[cell.style] === true ? dateText(value, from1904) : null;
      if (date !== null) return { kind: 'date', text: date };
      // Excel computes with 17 digits, but shows and accepts 15.
      return { kind: 'number', text: String(Number(value.toPrecision(15))) };
    }
  }
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

const REMOVE_PASSWORD = 'Remove the password in Excel, or save it as CSV (UTF-8).';

function tooLarge(what: 'parts' | 'bytes' | 'text'): FileError {
  const problem = {
    parts: `has more than ${WORKBOOK_BOUNDS.parts} parts`,
    bytes: 'has a part that is too large',
    text: 'has text that is longer than a record may be',
  }[what];
  return new FileError(`the workbook ${problem}`, TO_CSV);
}

function noWorkbook(): FileError {
  return new FileError('this is an Office document, but not an Excel workbook', TO_CSV);
}

/** Returns our own errors unchanged. Any other error means that the file is damaged. */
function damaged(error: unknown): FileError {
  if (error instanceof FileError) return error;
  return new FileError(
    'the workbook is damaged or cut off',
    'Copy it again, or open it in Excel and save it again.',
    { cause: error },
  );
}
