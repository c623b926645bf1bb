import { decodeItem } from '../domain/decode-item.js';
import { wireHash } from '../domain/fingerprint.js';
import type { Json } from '../domain/item.js';
import type { Failure, Reply } from '../domain/reply.js';
import { asBuffer, excerpt, isHtmlDocument, MAX_STARTS, parse, readBody } from './envelope.js';
import { envelopeQuirks, judgeFailure, saysError } from './judge.js';
import { ListBroken } from './list-broken.js';
import { ListScanner, type FoundRecord } from './list-scanner.js';
import { ITEM_NUMBERS, listQuestion } from './questions.js';
import type { KeyRedactor } from './redaction.js';
import type { StreamedResponse } from './response.js';
import { TransportError } from './transport-error.js';
import type { ItemList, ListElement } from './types.js';

export interface ListLimits {
  readonly maxListBytes: number;
  readonly maxRecordBytes: number;
}

const BATCH_RECORDS = 1_000;
const BATCH_BYTES = 1024 * 1024;
const MAX_OPENING_BYTES = 1024 * 1024;
/** What is kept of the body's beginning, for judging a body that turns out to be no list. */
const BEGINNING_BYTES = 16 * 1024;

/**
 * Reads a successful list reply to its first record, or to its end when there is none.
 * @returns the open list; or the reply judged, when it is none
 * @throws TransportError when the body breaks off before
 */
export async function openList(
  response: StreamedResponse,
  limits: ListLimits,
  redactor: KeyRedactor,
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
  readonly #response: StreamedResponse;
  readonly #signal: AbortSignal;
  readonly #redactor: KeyRedactor;
  readonly #maxRecordBytes: number;
  readonly #source: AsyncGenerator<Buffer, void, undefined>;
  #scanner: ListScanner;
  /** All that came before the list began, as long as it is small enough to start over. */
  #opening: Buffer[] | null = [];
  #restarts = 0;
  #firstProblem: string | null = null;
  #beginning: Buffer = Buffer.alloc(0);
  #bytes = 0;

  constructor(
    response: StreamedResponse,
    limits: ListLimits,
    redactor: KeyRedactor,
    signal: AbortSignal,
  ) {
    this.#response = response;
    this.#signal = signal;
    this.#redactor = redactor;
    this.#maxRecordBytes = limits.maxRecordBytes;
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
    const envelope = this.#scanner.finished ? this.#scanner.envelope() : null;
    return envelope === null ? quirks : [...quirks, ...envelopeQuirks(envelope)];
  }

  /** Reads up to the first record; returns the failure when the body is something else. */
  async open(): Promise<Failure | null> {
    while (await this.#advance()) {
      if (isHtmlDocument(this.#beginning.toString())) return this.#judgeBeginning();
      while (this.#startOver());
      if (this.#scanner.problem !== null) return this.#judgeBeginning();
      if (this.#scanner.records > 0) break;
    }
    this.#opening = null;
    if (this.#scanner.records > 0 || this.#scanner.finished) return this.#judgeEnvelope();
    return this.#judgeBeginning();
  }

  async *#iterate(): AsyncGenerator<readonly ListElement[], void, undefined> {
    try {
      do {
        this.#throwProblem();
        const { pendingBytes, pendingCount } = this.#scanner;
        if (pendingBytes >= BATCH_BYTES || pendingCount >= BATCH_RECORDS) yield* this.#taken();
      } while (await this.#advance());
      this.#throwProblem();
      const failure = this.#scanner.finished ? this.#judgeEnvelope() : this.#cutOff();
      if (failure !== null) throw new ListBroken(failure);
      yield* this.#taken();
    } catch (error) {
      throw error instanceof TransportError ? new ListBroken(error.failure) : error;
    } finally {
      this.#response.discard();
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
   * Looks for the envelope further on when what was taken for it is none: the text that PHP prints
   * before it may hold JSON too. Returns false when there is no reason or no way to.
   */
  #startOver(): boolean {
    const { problem, started, preambleBytes } = this.#scanner;
    if (problem === null || started || this.#opening === null) return false;
    if (this.#restarts++ === MAX_STARTS) return false;
    const body = Buffer.concat(this.#opening);
    const next = preambleBytes + 1;
    if (next >= body.length) return false;
    this.#firstProblem ??= problem;
    this.#scanner = new ListScanner(this.#maxRecordBytes, next);
    this.#scanner.push(body.subarray(next));
    return true;
  }

  *#taken(): Generator<readonly ListElement[], void, undefined> {
    let batch: ListElement[] = [];
    let size = 0;
    for (const found of this.#scanner.take()) {
      batch.push(new Element(found, this.#redactor));
      size += found.bytes.length;
      if (batch.length < BATCH_RECORDS && size < BATCH_BYTES) continue;
      yield batch;
      this.#signal.throwIfAborted();
      batch = [];
      size = 0;
    }
    if (batch.length > 0) yield batch;
  }

  #throwProblem(): void {
    const { problem } = this.#scanner;
    if (problem !== null) throw new ListBroken(this.#unreadable(`the answer ${problem}`));
  }

  /** Judges by the members of the envelope besides the list, as far as they have been read. */
  #judgeEnvelope(): Failure | null {
    const envelope = this.#scanner.envelope();
    if (envelope === null) return this.#unreadable('the envelope of the list is no sound JSON');
    if (this.#scanner.started && !saysError(envelope)) return null;
    if (this.#scanner.records > 0) {
      const said = excerpt(envelope['msg'] as string, this.#redactor, 100);
      return this.#unreadable(`a list of items came together with an error, "${said}"`);
    }
    const reading = {
      kind: 'object',
      value: envelope,
      tolerated: [],
      text: this.#beginning.toString(),
    } as const;
    return judgeFailure(listQuestion, this.#response.httpStatus, reading, this.#redactor);
  }

  /** Judges a body that never came to be a list by its beginning. */
  #judgeBeginning(): Failure {
    const reading = readBody(this.#beginning);
    if (this.#scanner.unfinished && !isHtmlDocument(reading.text)) return this.#cutOff();
    const problem = this.#firstProblem ?? this.#scanner.problem;
    const begun = this.#scanner.started && reading.kind !== 'html';
    if (problem !== null && (begun || reading.kind === 'other')) {
      return this.#unreadable(`the answer ${problem}`);
    }
    return judgeFailure(listQuestion, this.#response.httpStatus, reading, this.#redactor);
  }

  #cutOff(): Failure {
    return {
      kind: 'unavailable',
      httpStatus: this.#response.httpStatus,
      reason: 'cut-off',
      detail: `the list ended early, after ${this.#bytes} bytes`,
      retryAt: null,
    };
  }

  #unreadable(detail: string): Failure {
    return {
      kind: 'unreadable',
      httpStatus: this.#response.httpStatus,
      detail,
      excerpt: excerpt(this.#beginning.toString(), this.#redactor),
    };
  }
}

/** A record that is looked through for the key when its bytes are asked for: an unchanged one never is. */
class Element implements ListElement {
  readonly idHint: number | null;
  readonly unfit: string | null;
  readonly #received: Uint8Array;
  readonly #redactor: KeyRedactor;
  #bytes: Uint8Array | null = null;

  constructor({ bytes, idHint, unfit }: FoundRecord, redactor: KeyRedactor) {
    this.#received = bytes;
    this.#redactor = redactor;
    this.unfit = unfit;
    // An item may have the key for its id by chance; a record that is no item may not.
    const isItem = idHint === null || !redactor.isNumber(idHint) || this.#isItem();
    this.idHint = isItem ? idHint : null;
  }

  get bytes(): Uint8Array {
    this.#bytes ??= this.#masked();
    return this.#bytes;
  }

  wireHash(): Uint8Array {
    return wireHash(this.#received);
  }

  #isItem(): boolean {
    const json = parse(asBuffer(this.#received).toString());
    return this.unfit === null && json !== undefined && decodeItem(json).ok;
  }

  #masked(): Uint8Array {
    const received = asBuffer(this.#received);
    if (!this.#redactor.mayChange(received.toString('latin1'))) return received;
    const text = received.toString();
    const json = this.unfit === null ? parse(text) : undefined;
    const masked = json === undefined ? this.#redactor.text(text) : this.#maskedJson(text, json);
    return masked === text ? received : Buffer.from(masked);
  }

  #maskedJson(text: string, json: Json): string {
    const item = this.#redactor.json(json, ITEM_NUMBERS);
    const masked = decodeItem(item).ok ? item : this.#redactor.json(json);
    return masked === json ? text : JSON.stringify(masked);
  }
}
