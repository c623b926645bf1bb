import { posix } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import sax from 'sax';
import { fromBufferPromise, type Entry, type ZipFile } from 'yauzl';
import { IntakeError, TO_CSV } from './types.js';

/*
 * Reads an Excel workbook (.xlsx; ECMA-376): XML files in a ZIP archive. Libraries that do all of this
 * hold a whole sheet in memory and unpack without a limit. Here a sheet is read row by row, and no part
 * can become larger than the bounds below, whatever the file says of itself.
 */

/** Bounds of a workbook. Excel itself has none but those of rows, columns and characters of a cell. */
export const WORKBOOK_BOUNDS = {
  /** Bytes of the file, which is in memory while it is read. */
  file: 128 * 1024 ** 2,
  /** Bytes that a sheet unpacks to. */
  sheet: 2 * 1024 ** 3,
  /** Bytes that all texts together unpack to: they are in memory, each once. */
  texts: 256 * 1024 ** 2,
  /** Bytes that the list of sheets and the formats unpack to. */
  other: 16 * 1024 ** 2,
  parts: 10_000,
  rows: 1_048_576,
  columns: 16_384,
  /** Elements within each other. */
  depth: 50,
} as const;

/** One cell that is not empty. */
export interface SheetCell {
  /** From 0. */
  readonly column: number;
  /** A text as it is; a number with the 15 digits that Excel keeps; a date as `2026-11-23 14:05:00`. */
  readonly text: string;
  /** `unsolved`: a formula without its result. */
  readonly kind: 'text' | 'number' | 'date' | 'boolean' | 'error' | 'unsolved';
}

export interface SheetRow {
  /** As Excel shows it, from 1. */
  readonly number: number;
  /** In their order. */
  readonly cells: readonly SheetCell[];
  /** Its texts are longer than a record may be; they are cut. */
  readonly tooLong: boolean;
}

export interface Sheet {
  readonly name: string;
  readonly hidden: boolean;
  /** Rows in batches, some of them empty, read as they are taken. @throws IntakeError when the sheet is damaged or too large */
  rows(): AsyncGenerator<readonly SheetRow[], void, undefined>;
}

/**
 * Opens a workbook.
 * @param maxLength longest row, in UTF-16 units
 * @returns its sheets in their order, without those that are only a chart
 * @throws IntakeError when it is damaged, too large, has a password, or is no workbook
 */
export async function openWorkbook(bytes: Buffer, maxLength: number): Promise<readonly Sheet[]> {
  const parts = await openParts(bytes);
  const root = await relationsOf(parts, '');
  const path = root.find(({ type }) => type === 'officeDocument')?.path ?? 'xl/workbook.xml';
  if (path.endsWith('.bin')) {
    throw new IntakeError('this is an Excel workbook in the binary form (.xlsb)', AS_XLSX);
  }
  const { sheets, from1904 } = await readSheetList(parts, path);
  const relations = await relationsOf(parts, path);
  const target = (type: string) => relations.find((one) => one.type === type)?.path;
  const texts = await readTexts(parts, target('sharedStrings'), maxLength);
  const dates = await readDateFormats(parts, target('styles'));
  return sheets.flatMap(({ name, hidden, relation }) => {
    const found = relations.find(({ id, type }) => id === relation && type === 'worksheet');
    if (found === undefined) return [];
    const rows = () => readRows(parts, found.path, { texts, dates, from1904, maxLength });
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
      // A second part of a name is not read: programs differ in which one they take.
      const name = entry.fileName.toLowerCase();
      if (!entries.has(name)) entries.set(name, entry);
    }
    return { zip, entries };
  } catch (error) {
    throw damaged(error);
  }
}

/** Bytes parsed at once: few, since each cell of some 20 bytes may name a text of any length. */
const PIECE_BYTES = 4096;

interface Handlers {
  readonly open: (name: string, attributes: Readonly<Record<string, string>>) => void;
  readonly text?: (text: string) => void;
  readonly close?: (name: string) => void;
}

/**
 * Reads a part and tells the handlers what is in it, names without their prefix. Ends a moment after each
 * piece, so that the caller can take what came.
 */
async function* parsed(
  { zip, entries }: Parts,
  path: string,
  maxBytes: number,
  { open, text, close }: Handlers,
): AsyncGenerator<void, void, undefined> {
  const entry = entries.get(path.toLowerCase());
  if (entry === undefined) throw damaged(new Error(`it has no part ${path}`));
  if (entry.isEncrypted()) throw new IntakeError('the workbook has a password', NO_PASSWORD);
  // What unpacks to more than is said here fails.
  if (entry.uncompressedSize > maxBytes) throw tooLarge('bytes');
  // Texts, names and attributes come in pieces of at most 64 KiB. External entities are not read, nor
  // are entities of a document type known, which a workbook must not have.
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
      if (++depth > WORKBOOK_BOUNDS.depth) throw new Error('its elements are too deep');
      open(local(name), attributes);
    },
    onclosetag(name: string) {
      depth--;
      close?.(local(name));
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
          // Its limit of 64 KiB needs the place. To count each character, and lines, takes a quarter of the time.
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

/** Parses a part to its end. */
async function parse(parts: Parts, path: string, maxBytes: number, to: Handlers): Promise<void> {
  for await (const _ of parsed(parts, path, maxBytes, to));
}

function local(name: string): string {
  return name.slice(name.indexOf(':') + 1);
}

interface Relation {
  readonly id: string;
  /** The last part of its address: `worksheet`. */
  readonly type: string;
  readonly path: string;
}

/** The parts that a part names. @param path of that part; empty for the workbook as a whole */
async function relationsOf(parts: Parts, path: string): Promise<readonly Relation[]> {
  const { dir, base } = posix.parse(path);
  const listed = posix.join(dir, '_rels', `${base}.rels`);
  const relations: Relation[] = [];
  if (!parts.entries.has(listed.toLowerCase())) return relations;
  await parse(parts, listed, WORKBOOK_BOUNDS.other, {
    open(name, { Id = '', Type = '', Target = '', TargetMode }) {
      // What is outside of the workbook is never opened.
      if (name !== 'Relationship' || TargetMode === 'External') return;
      const path = posix.join('/', Target.startsWith('/') ? '' : dir, Target).slice(1);
      relations.push({ id: Id, type: Type.slice(Type.lastIndexOf('/') + 1), path });
    },
  });
  return relations;
}

async function readSheetList(parts: Parts, path: string) {
  const sheets: { name: string; hidden: boolean; relation: string }[] = [];
  let from1904 = false;
  let isWorkbook = false;
  if (!parts.entries.has(path.toLowerCase())) throw noWorkbook();
  await parse(parts, path, WORKBOOK_BOUNDS.other, {
    open(name, attributes) {
      if (name === 'workbook') isWorkbook = true;
      if (name === 'workbookPr') from1904 = /^(?:1|true)$/.test(attributes['date1904'] ?? '');
      if (name !== 'sheet') return;
      const relation = Object.entries(attributes).find(([key]) => /^\w+:id$/.test(key))?.[1] ?? '';
      const { name: title = '', state = 'visible' } = attributes;
      sheets.push({ name: title, hidden: state !== 'visible', relation });
    },
  });
  if (!isWorkbook) throw noWorkbook();
  return { sheets, from1904 };
}

/** Texts one after another, as bytes: a million strings would take three times the memory. */
class Texts {
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

/** The texts that cells name by number; a text in several formats is joined, its pronunciation left out. */
async function readTexts(parts: Parts, path: string | undefined, max: number): Promise<Texts> {
  const texts = new Texts();
  if (path === undefined) return texts;
  let text = '';
  let within = false;
  let phonetic = false;
  await parse(parts, path, WORKBOOK_BOUNDS.texts, {
    open(name) {
      if (name === 'si') text = '';
      if (name === 'rPh') phonetic = true;
      within = name === 't' && !phonetic;
    },
    text(piece) {
      if (!within) return;
      text += piece;
      if (text.length > max) throw tooLarge('text');
    },
    close(name) {
      if (name === 'si') texts.add(unescaped(text));
      if (name === 'rPh') phonetic = false;
      within = false;
    },
  });
  return texts;
}

/** For each style of cells, whether it shows numbers as dates. */
async function readDateFormats(parts: Parts, path: string | undefined): Promise<boolean[]> {
  const own = new Map<string, boolean>();
  const styles: boolean[] = [];
  if (path === undefined) return styles;
  let inCells = false;
  await parse(parts, path, WORKBOOK_BOUNDS.other, {
    open(name, { numFmtId = '', formatCode = '' }) {
      if (name === 'numFmt') own.set(numFmtId, isDateFormat(formatCode));
      if (name === 'cellXfs') inCells = true;
      if (name !== 'xf' || !inCells) return;
      styles.push(own.get(numFmtId) ?? isBuiltInDate(Number(numFmtId)));
    },
    close(name) {
      if (name === 'cellXfs') inCells = false;
    },
  });
  return styles;
}

/** Formats of dates and times that every workbook has, those of East Asia included. */
function isBuiltInDate(id: number): boolean {
  return (id >= 14 && id <= 22) || (id >= 27 && id <= 36) || (id >= 45 && id <= 58);
}

/** True where the format has a day, month, year, hour or second outside of quotes, colours and currencies. */
function isDateFormat(code: string): boolean {
  return /[dmyhs]/i.test(code.replaceAll(/"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]/gi, ''));
}

interface Reading {
  readonly texts: Texts;
  readonly dates: readonly boolean[];
  readonly from1904: boolean;
  readonly maxLength: number;
}

async function* readRows(
  parts: Parts,
  path: string,
  reading: Reading,
): AsyncGenerator<readonly SheetRow[], void, undefined> {
  let rows: SheetRow[] = [];
  let cells: SheetCell[] = [];
  let number = 0;
  let column = -1;
  let size = 0;
  let characters = 0;
  let cell = { type: 'n', style: 0, text: '', hasFormula: false };
  let within = false;
  let phonetic = false;
  const next = parsed(parts, path, WORKBOOK_BOUNDS.sheet, {
    open(name, { r, t = 'n', s = '0' }) {
      if (name === 'row') {
        const given = r === undefined ? number + 1 : Number(r);
        if (!(given > number && given <= WORKBOOK_BOUNDS.rows)) throw new Error('its rows overlap');
        number = given;
        column = -1;
        size = 0;
        cells = [];
      } else if (name === 'c') {
        const given = r === undefined ? column + 1 : columnOf(r);
        if (!(given > column && given < WORKBOOK_BOUNDS.columns)) {
          throw new Error('its cells overlap');
        }
        column = given;
        cell = { type: t, style: Number(s), text: '', hasFormula: false };
      } else if (name === 'f') cell.hasFormula = true;
      else if (name === 'rPh') phonetic = true;
      within = name === 'v' || (name === 't' && !phonetic);
    },
    text(piece) {
      if (within && cell.text.length <= reading.maxLength) cell.text += piece;
    },
    close(name) {
      within = false;
      if (name === 'rPh') phonetic = false;
      if (name === 'c') {
        const found = valueOf(cell, reading);
        const room = reading.maxLength - size;
        if (found !== null) {
          size += found.text.length + 1;
          const text = found.text.slice(0, Math.max(0, room));
          if (text !== '' || found.text === '') cells.push({ column, kind: found.kind, text });
        }
      }
      if (name !== 'row') return;
      rows.push({ number, cells, tooLong: size > reading.maxLength });
      characters += Math.min(size, reading.maxLength);
      cells = [];
    },
  });
  let pieces = 0;
  for await (const _ of next) {
    const isFull = rows.length >= BATCH_ROWS || characters >= BATCH_CHARACTERS;
    if (!isFull && ++pieces < BATCH_PIECES) continue;
    const taken = rows;
    rows = [];
    characters = 0;
    pieces = 0;
    yield taken;
  }
  yield rows;
}

/** A batch has about so many rows or characters; few or none where so many pieces hold no more. */
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

/** What a cell holds; null when it is empty. */
function valueOf(
  cell: { type: string; style: number; text: string; hasFormula: boolean },
  { texts, dates, from1904 }: Reading,
): Omit<SheetCell, 'column'> | null {
  const { type, text } = cell;
  if (text === '') return cell.hasFormula ? { kind: 'unsolved', text } : null;
  switch (type) {
    case 's': {
      const shared = texts.get(Number(text));
      if (shared === null) throw new Error('it names a text that it does not have');
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
      if (!Number.isFinite(value)) throw new Error('one of its numbers is none');
      const date = dates[cell.style] === true ? dateText(value, from1904) : null;
      if (date !== null) return { kind: 'date', text: date };
      // Excel computes with 17 digits, but shows and takes 15.
      return { kind: 'number', text: String(Number(value.toPrecision(15))) };
    }
  }
}

/** `_x000D_` is how a workbook writes characters that XML can't have. */
function unescaped(text: string): string {
  if (!text.includes('_x')) return text;
  return text.replaceAll(/_x([\dA-Fa-f]{4})_/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

const DAY_MS = 86_400_000;
/** Days from 1899-12-30, Excel's day 0, to 1904-01-01, day 0 of old workbooks from a Mac. */
const DAYS_TO_1904 = 1462;

/** Excel's days since 1900 as a date, time or both, to the second; null where it has no date. */
function dateText(days: number, from1904: boolean): string | null {
  const since1900 = from1904 && days >= 1 ? days + DAYS_TO_1904 : days;
  // Excel counts a 29 February 1900, which never was.
  const shifted = !from1904 && days >= 1 && days < 60 ? since1900 + 1 : since1900;
  if (shifted < 0 || shifted >= 2_958_466) return null;
  const ms = Math.round(shifted * 86_400) * 1000;
  const iso = new Date(Date.UTC(1899, 11, 30) + ms).toISOString();
  if (days < 1) return iso.slice(11, 19);
  return ms % DAY_MS === 0 ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${iso.slice(11, 19)}`;
}

const NO_PASSWORD = 'Take the password off in Excel, or save it as CSV (UTF-8).';

function tooLarge(what: 'parts' | 'bytes' | 'text'): IntakeError {
  const problem = {
    parts: `has more than ${WORKBOOK_BOUNDS.parts} parts`,
    bytes: 'unpacks to more than is allowed',
    text: 'has a text that is longer than a record may be',
  }[what];
  return new IntakeError(`the workbook ${problem}`, TO_CSV);
}

function noWorkbook(): IntakeError {
  return new IntakeError('this is an Office document, but not an Excel workbook', TO_CSV);
}

/** Our own errors stay; all others mean that the file is broken. */
function damaged(error: unknown): IntakeError {
  if (error instanceof IntakeError) return error;
  return new IntakeError(
    'the workbook is damaged or cut off',
    'Copy it again, or open it in Excel and save it again.',
    { cause: error },
  );
}
