import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import sax from 'sax';
import { fromBufferPromise, type Entry as ZipEntry, type ZipFile } from 'yauzl';
import type { Secret } from '../../domain/secret.js';
import { isUserError, type UserError } from '../../domain/user-error.js';
import { columnOf, isDateFormat, unescaped, valueOf, type CellContext } from './cells.js';
import {
  assertCell,
  assertCells,
  assertSize,
  MOST_BYTES,
  refused,
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
  const path = await bookPath(parts);
  if (path.endsWith('.bin')) {
    throw refused('this is an Excel workbook in the binary form (.xlsb)', AS_XLSX);
  }
  if (!parts.entries.has(path.toLowerCase())) throw noWorkbook();
  const book = await elementsOf(parts, path);
  if (book[0]?.name !== 'workbook') throw noWorkbook();
  const { date1904 = '' } = book.find(({ name }) => name === 'workbookPr')?.attributes ?? {};
  const relations = await relationsOf(parts, path);
  const target = (type: string) => relations.find((relation) => relation.type === type)?.path;
  const context = {
    strings: await readSharedStrings(parts, target('sharedStrings')),
    dateStyles: await readDateStyles(parts, target('styles')),
    from1904: /^(?:1|true)$/.test(date1904),
  };
  return book.flatMap(({ name, attributes }) => {
    if (name !== 'sheet') return [];
    const { name: title = '', state = 'visible' } = attributes;
    const [, wanted] = Object.entries(attributes).find(([key]) => /^\w+:id$/.test(key)) ?? [];
    const found = relations.find(({ id, type }) => id === wanted && type === 'worksheet');
    if (found === undefined) return [];
    const rows = () => readRows(parts, found.path, context);
    return [{ name: title, path: found.path, hidden: state !== 'visible', rows }];
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
    throw refused('the workbook has a password', remedy);
  }
  // yauzl fails if a part is larger than the size in its header.
  if (entry.uncompressedSize > MOST_PART_BYTES) {
    throw refused('the workbook has a part that is too large', TO_CSV);
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

type Attributes = Readonly<Record<string, string>>;

/** Called for each element and text. Names have no namespace prefix. */
interface Handlers {
  readonly open: (name: string, attributes: Attributes) => void;
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

interface Element {
  readonly name: string;
  readonly parent: string;
  readonly attributes: Attributes;
}

/** The elements of a part that is no list, such as the styles. */
async function elementsOf(parts: Parts, path: string): Promise<readonly Element[]> {
  const elements: Element[] = [];
  const open: string[] = [];
  await parsePart(parts, path, {
    open(name, attributes) {
      elements.push({ name, parent: open.at(-1) ?? '', attributes });
      open.push(name);
    },
    close: () => open.pop(),
  });
  return elements;
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
  if (!parts.entries.has(listed.toLowerCase())) return [];
  const elements = await elementsOf(parts, listed);
  return elements.flatMap(({ name, attributes }) => {
    const { Id = '', Type = '', Target = '', TargetMode } = attributes;
    // Never open anything outside the workbook.
    if (name !== 'Relationship' || TargetMode === 'External') return [];
    const to = posix.join('/', Target.startsWith('/') ? '' : dir, Target).slice(1);
    return [{ id: Id, type: Type.slice(Type.lastIndexOf('/') + 1), path: to }];
  });
}

/** The part that lists the sheets. */
export async function bookPath(parts: Parts): Promise<string> {
  const root = await relationsOf(parts, '');
  return root.find(({ type }) => type === 'officeDocument')?.path ?? 'xl/workbook.xml';
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
  const elements = path === undefined ? [] : await elementsOf(parts, path);
  const custom = new Map<string, string>();
  for (const { name, attributes } of elements) {
    const { numFmtId = '', formatCode = '' } = attributes;
    if (name === 'numFmt') custom.set(numFmtId, formatCode);
  }
  return elements
    .filter(({ name, parent }) => name === 'xf' && parent === 'cellXfs')
    .map(({ attributes: { numFmtId = '' } }) =>
      isDateFormat(Number(numFmtId), custom.get(numFmtId)),
    );
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

function noWorkbook(): UserError {
  return refused('this is an Office document, but not an Excel workbook', TO_CSV);
}

/** Returns our own errors unchanged. Any other error means that the file is damaged. */
function damaged(error: unknown): UserError {
  if (isUserError(error, 'FILE')) return error;
  const remedy = 'Copy it again, or open it in Excel and save it again.';
  return refused('the workbook is damaged or cut off', remedy, error);
}
