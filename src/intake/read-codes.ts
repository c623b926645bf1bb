import { describeCodeFault, readCode } from '../domain/codes/code.js';
import { cellMaskOf } from '../domain/redact.js';
import { MASK } from '../domain/secret.js';
import { isShortenedNumber, nameRank } from './columns.js';
import { findDelimiter, firstLines, firstRecords, planCsv } from './csv-list.js';
import {
  Peekable,
  decoderOf,
  findEncoding,
  isGzip,
  refuseBinary,
  type Decoder,
  unpacked,
} from './source.js';
import { IntakeError, shown } from './types.js';
import type {
  Format,
  Intake,
  IntakeOptions,
  IntakeRow,
  Plan,
  RowReader,
  Sample,
  Tally,
} from './types.js';
import { decodeJson, planJson } from './json-list.js';
import { planText } from './text-list.js';

/** Bytes at the beginning from which the format is found. */
const HEAD_BYTES = 256 * 1024;
/** Bytes decoded at once: few, so that their rows are collected as garbage before the next piece. */
const PIECE_BYTES = 32 * 1024;
const MAX_RECORD = 1024 * 1024;
const MAX_BATCH = 1000;
/** Rows in `Intake.first`. */
const MAX_FIRST_ROWS = 1000;

/**
 * Opens a list of purchase codes: text, CSV, JSON or NDJSON in any encoding. Reads the beginning and
 * finds out how to read the rest.
 * @param source bytes of the list, from `openSource` or stdin
 * @throws IntakeError when it is not a list of codes, or the column of codes is not clear
 */
export async function readCodes(
  source: AsyncIterable<Uint8Array>,
  options: IntakeOptions,
): Promise<Intake> {
  const raw = new Peekable(source);
  try {
    const compressed = isGzip((await raw.peek(2)).bytes);
    const bytes = compressed ? new Peekable(unpacked(raw, options.maxUnpackedBytes)) : raw;
    return await intakeOf(bytes, compressed, options);
  } catch (error) {
    await raw.close();
    throw error;
  }
}

async function intakeOf(
  bytes: Peekable,
  compressed: boolean,
  options: IntakeOptions,
): Promise<Intake> {
  const mask = cellMaskOf(options.keys ?? []);
  const head = await bytes.peek(HEAD_BYTES);
  const { encoding, mark, reason } = findEncoding(head);
  refuseBinary(head.bytes, encoding);
  const first = head.bytes.subarray(mark, HEAD_BYTES);
  const whole = head.whole && head.bytes.length <= HEAD_BYTES;
  const sampler = decoderOf(encoding);
  const sample: Sample = {
    text: sampler.decode(first) + (whole ? sampler.end() : ''),
    whole,
    column: typeof options.column === 'string' ? mask(options.column) : options.column,
    mask,
    maxLength: options.maxRecordBytes ?? MAX_RECORD,
  };
  if (whole && sample.text.trim() === '') {
    throw new IntakeError('the list is empty', 'Check that the right file was exported.');
  }
  const found = findFormat(sample, options.name, options.format);
  const plan = planOf(found.format, sample);
  const decoder = decoderOf(encoding);
  const checkRow = (row: IntakeRow): IntakeRow => checked(row, plan.codeColumn, mask);
  const reader = plan.newReader();
  const tally = new RunningTally(reader, decoder);
  return {
    layout: {
      format: found.format,
      encoding,
      bom: mark > 0,
      compressed,
      delimiter: plan.delimiter,
      header: plan.header,
      columns: plan.columns,
      codeColumn: plan.codeColumn,
      reasons: [
        ...(compressed ? ['It is compressed with gzip.'] : []),
        ...[found.reason, reason, ...plan.reasons],
      ],
    },
    first: firstRows(plan.newReader(), sample).map(checkRow),
    rows: rowsOf(textOf(bytes, mark, decoder), reader, checkRow, tally),
    tally,
    close: () => bytes.close(),
  };
}

function planOf(format: Format, sample: Sample): Plan {
  switch (format) {
    case 'txt':
      return planText(sample);
    case 'csv':
      return planCsv(sample);
    case 'json':
      return planJson(sample, false);
    case 'ndjson':
      return planJson(sample, true);
  }
}

/** The text in pieces of bounded size, without its byte order mark. */
async function* textOf(
  bytes: Peekable,
  mark: number,
  decoder: Decoder,
): AsyncGenerator<string, void, undefined> {
  let skipped = mark;
  for await (const chunk of bytes.read()) {
    for (let at = skipped; at < chunk.length; at += PIECE_BYTES) {
      yield decoder.decode(chunk.subarray(at, at + PIECE_BYTES));
    }
    skipped = 0;
  }
  yield decoder.end();
}

function firstRows(reader: RowReader, { text, whole }: Sample): readonly IntakeRow[] {
  const complete = reader.push(text);
  return (whole ? [...complete, ...reader.end()] : complete).slice(0, MAX_FIRST_ROWS);
}

async function* rowsOf(
  text: AsyncIterable<string>,
  reader: RowReader,
  checkRow: (row: IntakeRow) => IntakeRow,
  tally: RunningTally,
): AsyncGenerator<readonly IntakeRow[], void, undefined> {
  for await (const piece of text) yield* batches(reader.push(piece), checkRow, tally);
  yield* batches(reader.end(), checkRow, tally);
}

function* batches(
  rows: readonly IntakeRow[],
  checkRow: (row: IntakeRow) => IntakeRow,
  tally: RunningTally,
): Generator<readonly IntakeRow[], void, undefined> {
  for (let at = 0; at < rows.length; at += MAX_BATCH) {
    const batch = rows.slice(at, at + MAX_BATCH).map(checkRow);
    tally.count(batch);
    yield batch;
  }
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

class RunningTally implements Tally {
  readonly #reader: RowReader;
  readonly #decoder: Decoder;
  rows = 0;
  rejected = 0;

  constructor(reader: RowReader, decoder: Decoder) {
    this.#reader = reader;
    this.#decoder = decoder;
  }

  get blankLines(): number {
    return this.#reader.blankLines;
  }

  get notes(): readonly string[] {
    return [...this.#decoder.notes, ...this.#reader.notes()];
  }

  count(batch: readonly IntakeRow[]): void {
    this.rows += batch.length;
    for (const row of batch) if ('rejected' in row) this.rejected++;
  }
}

interface FormatFound {
  readonly format: Format;
  readonly reason: string;
}

const BY_ENDING: Readonly<Record<string, Format>> = {
  ...{ csv: 'csv', tsv: 'csv', tab: 'csv', psv: 'csv' },
  ...{ json: 'json', ndjson: 'ndjson', jsonl: 'ndjson', jsonlines: 'ndjson' },
};

/**
 * Share of the first records that a separator must split for them to be CSV. Low, because a table
 * read as lines would have every line checked as a code; the opposite mistake is noticed at once.
 */
const SOME_CUT = 0.5;

/**
 * The format of a list: the one asked for, or the one that its content shows, or that of its name.
 * A `.txt` may be anything, because Excel saves tables under that name.
 * @param name of the file, or `stdin`
 */
function findFormat(sample: Sample, name: string, asked: Format | undefined): FormatFound {
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

function hasCells(sample: Sample): boolean {
  const lines = firstLines(sample);
  const { delimiter, cutting, line } = findDelimiter(lines, sample.maxLength);
  if (cutting >= SOME_CUT) return true;
  const [first] = firstRecords(lines.slice(line), delimiter, sample.maxLength, sample.whole);
  const cells = first?.cells ?? [];
  return cells.length > 1 && cells.some((cell) => nameRank(cell) !== null);
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
