import { describeCodeFault, readCode } from '../domain/codes/code.js';
import { cellMasker } from '../domain/redact.js';
import { MASK } from '../domain/secret.js';
import { isShortenedNumber } from './columns.js';
import { hasCells, planCsv } from './csv-list.js';
import { decodeJson, planJson } from './json-list.js';
import {
  HEAD_BYTES,
  begin,
  decoderOf,
  findEncoding,
  isGzip,
  isWorkbook,
  refuseBinary,
  unpacked,
  type Begun,
} from './source.js';
import { planText } from './text-list.js';
import { IntakeError, shown } from './types.js';
import type {
  Format,
  Intake,
  IntakeOptions,
  IntakeRow,
  Plan,
  Reading,
  Sample,
  Tally,
} from './types.js';

/** Bytes decoded at once: few, so that their rows are collected as garbage before the next piece. */
const PIECE_BYTES = 32 * 1024;
const MAX_RECORD = 1024 * 1024;
const MAX_BATCH = 1000;
const MAX_FIRST_ROWS = 1000;

/** @throws IntakeError when it is not a list of codes, or the column of codes is not clear */
export async function readCodes(
  source: AsyncIterable<Uint8Array>,
  options: IntakeOptions,
): Promise<Intake> {
  let begun = await begin(source);
  const close = [begun.close];
  try {
    const compressed = isGzip(begun.head);
    if (compressed) {
      begun = await begin(unpacked(begun.bytes, options.maxUnpackedBytes));
      close.unshift(begun.close);
    }
    const reading = await readingOf(begun, options);
    return intakeOf(reading, compressed, options, async () => {
      for (const one of close) await one();
    });
  } catch (error) {
    for (const one of close) await one();
    throw error;
  }
}

async function readingOf(begun: Begun, options: IntakeOptions): Promise<Reading> {
  const { sheet, format } = options;
  const mask = cellMasker(options.keys ?? []);
  const wanted = {
    column: options.column === undefined ? undefined : mask(options.column),
    mask,
    maxLength: options.maxRecordBytes ?? MAX_RECORD,
  };
  if (isWorkbook(begun.head) && (format === undefined || format === 'xlsx')) {
    // Only workbooks need the libraries for them.
    const { readXlsx } = await import('./xlsx-list.js');
    return readXlsx(begun.bytes, { ...wanted, sheet, maxBytes: options.maxUnpackedBytes });
  }
  const reading = readText(begun, options, wanted);
  if (sheet === undefined) return reading;
  throw new IntakeError(
    `there is no sheet in a list that is read as ${reading.format}`,
    'Leave --sheet out, or name an Excel workbook (.xlsx).',
  );
}

/** @throws IntakeError when it is not a list of codes, or the column of codes is not clear */
function readText(
  begun: Begun,
  options: IntakeOptions,
  wanted: Omit<Sample, 'text' | 'whole'>,
): Reading {
  const { head, bytes } = begun;
  const { encoding, mark, reason } = findEncoding(begun);
  refuseBinary(head, encoding);
  const whole = begun.whole && head.length <= HEAD_BYTES;
  const text = decoderOf(encoding, [])(head.subarray(mark, HEAD_BYTES), whole);
  const sample: Sample = { ...wanted, text, whole };
  if (whole && text.trim() === '') {
    throw new IntakeError('the list is empty', 'Check that the right file was exported.');
  }
  const found = findFormat(sample, options.name, options.format);
  const { newReader, ...columns } = planOf(found.format, sample);

  async function* rows(tally: Tally): AsyncGenerator<readonly IntakeRow[], void, undefined> {
    const read = newReader(tally);
    const decode = decoderOf(encoding, tally.notes);
    for await (const piece of piecesOf(bytes, mark)) {
      yield read(decode(piece, piece.length === 0), piece.length === 0);
    }
  }

  return {
    ...columns,
    format: found.format,
    encoding,
    bom: mark > 0,
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
  const check = (row: IntakeRow): IntakeRow => checked(row, layout.codeColumn, mask);
  const tally = newTally();

  async function* checkedRows(): AsyncGenerator<readonly IntakeRow[], void, undefined> {
    for await (const found of rows(tally)) {
      for (let at = 0; at < found.length; at += MAX_BATCH) {
        const batch = found.slice(at, at + MAX_BATCH).map(check);
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

/** The bytes without the byte order mark, in pieces of bounded size; the last one is empty. */
async function* piecesOf(
  bytes: AsyncIterable<Uint8Array>,
  mark: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let skipped = mark;
  for await (const chunk of bytes) {
    for (let at = skipped; at < chunk.length; at += PIECE_BYTES) {
      yield chunk.subarray(at, at + PIECE_BYTES);
    }
    skipped = 0;
  }
  yield new Uint8Array();
}

/** The row with API keys masked; rejected when its text can't be a code. */
function checked(row: IntakeRow, codeColumn: number, mask: Sample['mask']): IntakeRow {
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
  // Reading the code removes quotes around a key; the cell still has them.
  if (code === row.columns[codeColumn] ? columns[codeColumn] !== code : mask(code) !== code) {
    const hidden = columns.map((cell, index) => (index === codeColumn ? MASK : cell));
    return { line, rejected: 'the code is an API key, which is masked here', columns: hidden };
  }
  if (isShortenedNumber(code))
    return { line, rejected: 'Excel has shortened this number', columns };
  return isSafe ? row : { line, text: row.text, columns };
}

type TextFormat = Exclude<Format, 'xlsx'>;

interface FormatFound {
  readonly format: TextFormat;
  readonly reason: string;
}

const BY_ENDING: Readonly<Record<string, TextFormat>> = {
  csv: 'csv',
  tsv: 'csv',
  tab: 'csv',
  psv: 'csv',
  json: 'json',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  jsonlines: 'ndjson',
};

/** The format asked for, or the one of the content, or of the name. Excel saves tables as `.txt`. */
function findFormat(sample: Sample, name: string, asked: Format | undefined): FormatFound {
  if (asked === 'xlsx') {
    throw new IntakeError('this is not an Excel workbook', 'Leave --input-format out.');
  }
  if (asked !== undefined) return { format: asked, reason: `Read as ${asked}, as asked for.` };
  if (/^\s*<(?:!doctype|html|\?xml)/i.test(sample.text)) {
    return { format: 'txt', reason: 'Read as txt, because it is a web page or XML.' };
  }
  const ending = /\.([a-z]+)$/i.exec(name.replace(/\.gz$/i, ''))?.[1]?.toLowerCase() ?? '';
  const named = BY_ENDING[ending] ?? null;
  const json = jsonKind(sample, named);
  if (json !== null && json !== named) {
    return { format: json, reason: `Read as ${json}, because that is what its beginning is.` };
  }
  if (named !== null) {
    return {
      format: named,
      reason: `Read as ${named}, because its name ends in ${shown(ending)}.`,
    };
  }
  return hasCells(sample)
    ? { format: 'csv', reason: 'Read as csv, because its lines have several cells.' }
    : { format: 'txt', reason: 'Read as txt, because its lines have a single value.' };
}

/** Whether the text is one JSON document or one value a line; null when it is not JSON. */
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
