import { refuseBinary } from './binary.js';
import { planCsv } from './csv-list.js';
import { decoderOf, findEncoding, type Decoder } from './encoding.js';
import { IntakeError } from './error.js';
import { findFormat } from './format.js';
import { Peekable } from './head.js';
import { planJson } from './json-list.js';
import type { Plan, Sample } from './row.js';
import { planText } from './text-list.js';
import type { Format, Intake, IntakeOptions, IntakeRow, Tally } from './types.js';
import { isGzip, unpacked } from './unpack.js';

/** What is looked at to find out how to read the list. */
const HEAD_BYTES = 256 * 1024;
/** The most that is decoded at once: little, so that what is made of it is gone before the next. */
const PIECE_BYTES = 32 * 1024;
const MAX_RECORD = 1024 * 1024;
const MAX_BATCH = 1000;

/**
 * Begins to read a list of purchase codes: text, CSV, JSON or NDJSON in whatever encoding. How it
 * is read is known when this returns, and nothing but the beginning has been read.
 * @param source bytes of the list, such as `openSource` or stdin give them
 * @throws IntakeError when it is no list of codes, or there is no telling where the codes are
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
  const head = await bytes.peek(HEAD_BYTES);
  const { encoding, mark, reason } = findEncoding(head);
  refuseBinary(head.bytes, encoding);
  const first = head.bytes.subarray(mark, HEAD_BYTES);
  const whole = head.whole && head.bytes.length <= HEAD_BYTES;
  const sampler = decoderOf(encoding);
  const sample: Sample = {
    text: sampler.decode(first) + (whole ? sampler.end() : ''),
    whole,
    column: options.column,
    most: options.maxRecordBytes ?? MAX_RECORD,
  };
  if (whole && sample.text.trim() === '') {
    throw new IntakeError('the list is empty', 'Check that the right file was exported.');
  }
  const found = findFormat(sample, options.name, options.format);
  const plan = planOf(found.format, sample);
  const decoder = decoderOf(encoding);
  const tally = new RunningTally(plan, decoder);
  return {
    layout: {
      format: found.format,
      encoding,
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
    rows: rowsOf(textOf(bytes, mark, decoder), plan, tally),
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

async function* rowsOf(
  text: AsyncIterable<string>,
  { reader }: Plan,
  tally: RunningTally,
): AsyncGenerator<readonly IntakeRow[], void, undefined> {
  for await (const piece of text) yield* batches(reader.push(piece), tally);
  yield* batches(reader.end(), tally);
}

function* batches(
  rows: readonly IntakeRow[],
  tally: RunningTally,
): Generator<readonly IntakeRow[], void, undefined> {
  for (let at = 0; at < rows.length; at += MAX_BATCH) {
    const batch = rows.slice(at, at + MAX_BATCH);
    tally.count(batch);
    yield batch;
  }
}

class RunningTally implements Tally {
  readonly #plan: Plan;
  readonly #decoder: Decoder;
  rows = 0;
  rejected = 0;

  constructor(plan: Plan, decoder: Decoder) {
    this.#plan = plan;
    this.#decoder = decoder;
  }

  get blankLines(): number {
    return this.#plan.reader.blankLines;
  }

  get notes(): readonly string[] {
    return [...this.#decoder.notes, ...this.#plan.reader.notes()];
  }

  count(batch: readonly IntakeRow[]): void {
    this.rows += batch.length;
    for (const row of batch) if ('rejected' in row) this.rejected++;
  }
}
