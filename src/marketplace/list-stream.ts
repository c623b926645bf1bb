import { wireHash } from './decode.js';
import type { Redactor } from '../domain/redact.js';
import { unavailable, type Failure, type Reply } from './reply.js';
import { listEndpoint, saidBy } from './endpoints.js';
import {
  asBuffer,
  excerpt,
  isHtmlDocument,
  MAX_STARTS,
  parse,
  readBody,
  type BodyReading,
} from './envelope.js';
import { envelopeQuirks, judgeFailure } from './judge.js';
import { ListScanner, type FoundRecord } from './list-scanner.js';
import type { HttpResponse } from './transport.js';
import { TransportError } from './transport-error.js';
import { ListBroken, type ItemList, type ListElement } from './types.js';

interface ListLimits {
  readonly maxListBytes: number;
  readonly maxRecordBytes: number;
}

const BATCH_RECORDS = 1_000;
const BATCH_BYTES = 1024 * 1024;
/** A preamble longer than this is not searched for the envelope again. */
const MAX_OPENING_BYTES = 1024 * 1024;
/** How much of the body's beginning to keep, to classify a body that is not a list. */
const BEGINNING_BYTES = 16 * 1024;

/**
 * Reads up to the first record (or to the end if there is none). Returns the failure if the body is not a list.
 * @throws {TransportError} when the body is cut off before the first record
 */
export async function openList(
  response: HttpResponse,
  limits: ListLimits,
  redactor: Redactor,
  signal: AbortSignal,
): Promise<Reply<ItemList>> {
  const stream = new ListStream(response, limits, redactor, signal);
  const failure = await stream.open();
  if (failure === null) return { kind: 'answered', httpStatus: response.httpStatus, data: stream };
  response.discard();
  return failure;
}

class ListStream implements ItemList {
  readonly batches: AsyncIterable<readonly ListElement[]>;
  readonly #source: AsyncGenerator<Buffer, void, undefined>;
  #scanner: ListScanner;
  /** The bytes before the list, in case the scan must restart; null once they are too many. */
  #opening: Buffer[] | null = [];
  #restarts = 0;
  #firstProblem: string | null = null;
  #beginning: Buffer = Buffer.alloc(0);
  #bytes = 0;

  constructor(
    private readonly response: HttpResponse,
    private readonly limits: ListLimits,
    private readonly redactor: Redactor,
    private readonly signal: AbortSignal,
  ) {
    this.#scanner = new ListScanner(limits.maxRecordBytes);
    this.#source = response.chunks(limits.maxListBytes);
    this.batches = this.#iterate();
  }

  bytes(): number {
    return this.#bytes;
  }

  tolerated(): readonly string[] {
    const quirks: string[] = [];
    const before = this.#beginning.subarray(0, this.#scanner.preambleBytes).toString();
    if (before.startsWith('\uFEFF')) quirks.push('envelope.bom');
    if (before.replace('\uFEFF', '').trim() !== '') quirks.push('envelope.preamble');
    if (this.#scanner.itemsIsObject) quirks.push('envelope.items-object');
    if (this.#scanner.hasTrailer) quirks.push('envelope.trailer');
    const envelope = this.#scanner.finished ? this.#scanner.envelope() : null;
    return envelope === null ? quirks : [...quirks, ...envelopeQuirks(envelope)];
  }

  /** Reads up to the first record; returns the failure when the body is not a list. */
  async open(): Promise<Failure | null> {
    while (await this.#advance()) {
      if (isHtmlDocument(this.#beginning.toString())) return this.#judgeBeginning();
      while (this.#restartScan());
      if (this.#scanner.problem !== null) return this.#judgeBeginning();
      if (this.#scanner.records > 0) break;
    }
    this.#opening = null;
    const { records, finished, started, hasTrailer } = this.#scanner;
    // An object within other text, without a list, is rather a part of a web page.
    const isEnvelope = finished && (started || !hasTrailer);
    if (records > 0 || isEnvelope) return this.#judgeEnvelope();
    return this.#judgeBeginning();
  }

  async *#iterate(): AsyncGenerator<readonly ListElement[], void, undefined> {
    try {
      do {
        this.#throwProblem();
        const { pendingBytes, pendingCount } = this.#scanner;
        const isFull = pendingBytes >= BATCH_BYTES || pendingCount >= BATCH_RECORDS;
        if (isFull) yield* this.#takeBatches();
      } while (await this.#advance());
      this.#throwProblem();
      const failure = this.#scanner.finished ? this.#judgeEnvelope() : this.#cutOff();
      if (failure !== null) throw new ListBroken(failure);
      yield* this.#takeBatches();
    } catch (error) {
      throw error instanceof TransportError ? new ListBroken(error.failure) : error;
    } finally {
      this.response.discard();
    }
  }

  /** Reads one chunk; false at the end of the body. */
  async #advance(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done === true) return false;
    const chunk = next.value;
    this.#bytes += chunk.length;
    if (this.#beginning.length < BEGINNING_BYTES) {
      const more = chunk.subarray(0, BEGINNING_BYTES - this.#beginning.length);
      this.#beginning = Buffer.concat([this.#beginning, more]);
    }
    this.#scanner.push(chunk);
    this.#opening?.push(chunk);
    if (this.#bytes > MAX_OPENING_BYTES) this.#opening = null;
    return true;
  }

  /**
   * Searches for the envelope further on if the first JSON found is not it: PHP warnings in front may contain
   * JSON too. Returns false if it was the envelope, or if nothing is left to try.
   */
  #restartScan(): boolean {
    const { problem, started, preambleBytes } = this.#scanner;
    if (problem === null || started || this.#opening === null) return false;
    if (this.#restarts++ === MAX_STARTS) return false;
    const body = Buffer.concat(this.#opening);
    const next = preambleBytes + 1;
    if (next >= body.length) return false;
    this.#firstProblem ??= problem;
    this.#scanner = new ListScanner(this.limits.maxRecordBytes, next);
    this.#scanner.push(body.subarray(next));
    return true;
  }

  *#takeBatches(): Generator<readonly ListElement[], void, undefined> {
    let batch: ListElement[] = [];
    let size = 0;
    for (const found of this.#scanner.take()) {
      batch.push(new Element(found, this.redactor));
      size += found.bytes.length;
      if (batch.length < BATCH_RECORDS && size < BATCH_BYTES) continue;
      yield batch;
      this.signal.throwIfAborted();
      batch = [];
      size = 0;
    }
    if (batch.length > 0) yield batch;
  }

  #throwProblem(): void {
    const { problem } = this.#scanner;
    if (problem !== null) throw new ListBroken(this.#unreadable(`the answer ${problem}`));
  }

  /** Judges the envelope's other members that have been read. */
  #judgeEnvelope(): Failure | null {
    const envelope = this.#scanner.envelope();
    if (envelope === null) return this.#unreadable('the envelope of the list is not valid JSON');
    if (this.#scanner.started && saidBy(envelope) !== 'error') return null;
    if (this.#scanner.records > 0) {
      const { msg, message, status } = envelope;
      const said = excerpt(JSON.stringify(msg ?? message ?? status ?? null), this.redactor, 100);
      return this.#unreadable(
        `the marketplace sent a list of items together with an error, ${said}`,
      );
    }
    const text = this.#beginning.toString();
    return this.#judge({ kind: 'object', value: envelope, tolerated: [], text, repeated: null });
  }

  /** Judges a body that is not a list, by its beginning. */
  #judgeBeginning(): Failure {
    const reading = readBody(this.#beginning);
    if (this.#scanner.unfinished && !isHtmlDocument(reading.text)) return this.#cutOff();
    const problem = this.#firstProblem ?? this.#scanner.problem;
    const begun = this.#scanner.started && reading.kind !== 'html';
    if (problem !== null && (begun || reading.kind === 'other')) {
      return this.#unreadable(`the answer ${problem}`);
    }
    return this.#judge(reading);
  }

  #judge(reading: BodyReading): Failure {
    return judgeFailure(listEndpoint, this.response.httpStatus, reading, this.redactor);
  }

  #cutOff(): Failure {
    const detail = `the list ended early, after ${this.#bytes} bytes`;
    return unavailable(this.response.httpStatus, 'cut-off', detail);
  }

  #unreadable(detail: string): Failure {
    return {
      kind: 'unreadable',
      httpStatus: this.response.httpStatus,
      detail,
      excerpt: excerpt(this.#beginning.toString(), this.redactor),
    };
  }
}

/** A record that masks the key only when `bytes` is read, which never happens for unchanged records. */
class Element implements ListElement {
  readonly idHint: number | null;
  readonly unfit: string | null;
  #bytes: Uint8Array | null = null;

  constructor(
    private readonly found: FoundRecord,
    private readonly redactor: Redactor,
  ) {
    this.unfit = found.unfit;
    // A key of digits, sent back as an id.
    const isKey = found.idHint !== null && redactor.mayChange(String(found.idHint));
    this.idHint = isKey ? null : found.idHint;
  }

  get bytes(): Uint8Array {
    this.#bytes ??= this.#masked();
    return this.#bytes;
  }

  wireHash(): Uint8Array {
    return wireHash(this.found.bytes);
  }

  #masked(): Uint8Array {
    const received = asBuffer(this.found.bytes);
    if (!this.redactor.mayChange(received.toString('latin1'))) return received;
    const text = received.toString();
    const json = this.unfit === null ? parse(text) : undefined;
    if (json === undefined) return Buffer.from(this.redactor.text(text));
    const masked = this.redactor.json(json);
    return masked === json ? received : Buffer.from(JSON.stringify(masked));
  }
}
