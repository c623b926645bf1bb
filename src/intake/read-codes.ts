import { describeCodeFault, readCode } from '../domain/codes/code.js';
import { cellMasker } from '../domain/redact.js';
import { MASK } from '../domain/secret.js';
import { isShortenedNumber, SHORTENED_NUMBER } from './columns.js';
import { hasCells, planCsv } from './csv-list.js';
import { decodeJson, planJson } from './json-list.js';
import {
  HEAD_BYTES,
  decoderOf,
  findEncoding,
  gunzipped,
  isGzip,
  isWorkbook,
  peek,
  refuseBinary,
  type Peeked,
} from './source.js';
import { planText } from './text-list.js';
import { FileError, quoted, wrongFile } from './types.js';
import type {
  Format,
  Intake,
  IntakeOptions,
  IntakeRow,
  Plan,
  Reading,
  Sample,
  Tally,
  UncheckedRow,
} from './types.js';

/** Bytes decoded at once. Small, so that their rows are garbage collected before the next piece. */
const PIECE_BYTES = 32 * 1024;
const MAX_RECORD = 1024 * 1024;
const MAX_BATCH = 1000;
const MAX_FIRST_ROWS = 1000;

/**
 * Finds out how a list is written, and reads it.
 * @throws FileError when it is not a list of codes, or the column of codes is unclear
 */
export async function readCodes(
  source: AsyncIterable<Uint8Array>,
  options: IntakeOptions,
): Promise<Intake> {
  const file = await peek(source);
  const compressed = isGzip(file.head);
  let content: Peeked | null = null;
  const close = async (): Promise<void> => {
    await content?.close();
    await file.close();
  };
  try {
    content = compressed ? await peek(gunzipped(file.bytes, options.maxUnpackedBytes)) : file;
    const reading = await readingOf(content, options);
    return intakeOf(reading, compressed, options, close);
  } catch (error) {
    await close();
    throw error;
  }
}

async function readingOf(source: Peeked, options: IntakeOptions): Promise<Reading> {
  const { sheet, format } = options;
  const mask = cellMasker(options.keys ?? []);
  const wanted = {
    column: options.column === undefined ? undefined : mask(options.column),
    mask,
    maxLength: options.maxRecordBytes ?? MAX_RECORD,
  };
  if (isWorkbook(source.head) && (format === undefined || format === 'xlsx')) {
    // Loaded on demand: only workbooks need its libraries.
    const { readXlsx } = await import('./xlsx-list.js');
    return readXlsx(source.bytes, { ...wanted, sheet, maxBytes: options.maxUnpackedBytes });
  }
  const reading = readText(source, options, wanted);
  if (sheet === undefined) return reading;
  throw new FileError(
    `there is no sheet in a list that is read as ${reading.format}`,
    'Leave --sheet out, or name an Excel workbook (.xlsx).',
  );
}

function readText(
  source: Peeked,
  options: IntakeOptions,
  wanted: Omit<Sample, 'text' | 'whole'>,
): Reading {
  const { head, bytes } = source;
  const { encoding, bomLength, reason } = findEncoding(source);
  refuseBinary(head, encoding);
  const whole = source.whole && head.length <= HEAD_BYTES;
  const text = decoderOf(encoding, [])(head.subarray(bomLength, HEAD_BYTES), whole);
  const sample: Sample = { ...wanted, text, whole };
  if (whole && text.trim() === '') throw wrongFile('the list is empty');
  const found = findFormat(sample, options.name, options.format);
  const { newReader, ...columns } = planOf(found.format, sample);

  async function* rows(tally: Tally): AsyncGenerator<readonly UncheckedRow[], void, undefined> {
    const read = newReader(tally);
    const decode = decoderOf(encoding, tally.notes);
    for await (const piece of piecesOf(bytes, bomLength)) {
      yield read(decode(piece, piece.length === 0), piece.length === 0);
    }
  }

  return {
    ...columns,
    format: found.format,
    encoding,
    bom: bomLength > 0,
    rows,
    reasons: [found.reason, reason, ...columns.reasons],
    first: newReader(newTally())(text, whole).slice(0, MAX_FIRST_ROWS),
  };
}

function newTally(): Tally {
  return { rows: 0, rejected: 0, blankLines: 0, notes: [] };
}

function intakeOf(
  { first, rows, ...layout }: Reading,
  compressed: boolean,
  options: IntakeOptions,
  close: () => Promise<void>,
): Intake {
  const mask = cellMasker(options.keys ?? []);
  const check = (row: UncheckedRow): IntakeRow => checkRow(row, layout.codeColumn, mask);
  const tally = newTally();

  async function* checkedRows(): AsyncGenerator<readonly IntakeRow[], void, undefined> {
    for await (const part of rows(tally)) {
      for (let at = 0; at < part.length; at += MAX_BATCH) {
        const batch = part.slice(at, at + MAX_BATCH).map(check);
        tally.rows += batch.length;
        tally.rejected += batch.filter((row) => 'rejected' in row).length;
        yield batch;
      }
    }
  }

  return {
    layout: {
      ...layout,
      compressed,
      reasons: [...(compressed ? ['It is compressed with gzip.'] : []), ...layout.reasons],
    },
    first: first.map(check),
    rows: checkedRows(),
    tally,
    close,
  };
}

function planOf(format: TextFormat, sample: Sample): Plan {
  if (format === 'txt') return planText(sample);
  return format === 'csv' ? planCsv(sample) : planJson(sample, format === 'ndjson');
}

/** The bytes without the byte order mark, in pieces of at most `PIECE_BYTES`. The last piece is empty. */
async function* piecesOf(
  bytes: AsyncIterable<Uint8Array>,
  bomLength: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let skipped = bomLength;
  for await (const chunk of bytes) {
    for (let at = skipped; at < chunk.length; at += PIECE_BYTES) {
      yield chunk.subarray(at, at + PIECE_BYTES);
    }
    skipped = 0;
  }
  yield new Uint8Array();
}

/** Masks API keys in a row, and rejects it if its text can't be a code. */
function checkRow(row: UncheckedRow, codeColumn: number, mask: Sample['mask']): IntakeRow {
  const { line } = row;
  const masked = row.columns.map((cell) => mask(cell));
  const isSafe = masked.every((cell, index) => cell === row.columns[index]);
  const columns = isSafe ? row.columns : masked;
  if ('rejected' in row) return isSafe ? row : { ...row, columns };
  const read = readCode(row.text);
  if (!('code' in read)) {
    return { line, rejected: `the code ${describeCodeFault(read.reason)}`, columns };
  }
  const { code } = read;
  // `readCode` removes quotes around a key, while the cell still has them.
  if (code === row.columns[codeColumn] ? columns[codeColumn] !== code : mask(code) !== code) {
    const hidden = columns.map((cell, index) => (index === codeColumn ? MASK : cell));
    return { line, rejected: 'the code is an API key, which is masked here', columns: hidden };
  }
  if (isShortenedNumber(code)) return { line, rejected: SHORTENED_NUMBER, columns };
  return { line, code, columns };
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
  sample: Sample,
  name: string,
  requested: Format | undefined,
): { format: TextFormat; reason: string } {
  if (requested === 'xlsx') {
    throw new FileError('this is not an Excel workbook', 'Leave --input-format out.');
  }
  if (requested !== undefined) {
    return { format: requested, reason: `Read as ${requested}, as requested.` };
  }
  if (/^\s*<(?:!doctype|html|\?xml)/i.test(sample.text)) {
    return { format: 'txt', reason: 'Read as txt, because it is a web page or XML.' };
  }
  const extension = /\.([a-z]+)$/i.exec(name.replace(/\.gz$/i, ''))?.[1]?.toLowerCase() ?? '';
  const named = BY_EXTENSION[extension] ?? null;
  const json = jsonKind(sample, named);
  if (json !== null && json !== named) {
    return { format: json, reason: `Read as ${json}, because its beginning is ${json}.` };
  }
  if (named !== null) {
    const reason = `Read as ${named}, because its name ends in ${quoted(extension)}.`;
    return { format: named, reason };
  }
  return hasCells(sample)
    ? { format: 'csv', reason: 'Read as csv, because its lines have several cells.' }
    : { format: 'txt', reason: 'Read as txt, because its lines have a single value.' };
}

/** Whether the text is one JSON document or one value a line. Null if it is not JSON. */
function jsonKind({ text }: Sample, named: Format | null): 'json' | 'ndjson' | null {
  const start = text.trimStart();
  if (/^\[\s*(?:["{[\]\d-]|true|false|null)/.test(start)) return 'json';
  if (!/^\{\s*["}]/.test(start)) return null;
  if (named === 'ndjson') return 'ndjson';
  const end = start.search(/[\r\n]/);
  const first = decodeJson(end < 0 ? start : start.slice(0, end));
  if (first.kind !== 'object') return 'json';
  const isAlone = end < 0 || start.slice(end).trim() === '';
  const hasList = [...first.fields.values()].some((field) => /^\[(?:"|\{)/.test(field.text));
  return isAlone && hasList ? 'json' : 'ndjson';
}
