import type { Json } from '../domain/item.js';
import type { JsonObject } from '../domain/values.js';
import { MAX_DEPTH } from './envelope.js';
import type { ListElement } from './types.js';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  idOf,
  INCOMPLETE,
  isSpace,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  ValueWalk,
} from './value-walk.js';

/** How much to keep of a record that must not be decoded. */
const KEPT_OF_UNFIT_BYTES = 1024 * 1024;
/** Limits on the envelope's other members: keep no larger ones (or longer names), and no more than this many. */
const MAX_MEMBER_BYTES = 64 * 1024;
const MAX_MEMBERS = 64;
const MAX_PREAMBLE_BYTES = 1024 * 1024;

export interface FoundRecord extends Pick<ListElement, 'idHint' | 'unfit'> {
  readonly bytes: Uint8Array;
}

type State =
  | 'preamble'
  | 'preamble-brace' // after a `{` that may begin the envelope
  | 'name-or-end'
  | 'name'
  | 'in-name'
  | 'colon'
  | 'value-or-end'
  | 'value'
  | 'in-value'
  | 'next'
  | 'tail';

/**
 * Splits a list's envelope into records while it arrives (API 4.2). `items` may be an object, at any position
 * in the envelope (servers: shapes). Records are not parsed, and copied only if they span two chunks.
 */
export class ListScanner {
  /** True once the list itself has begun. */
  started = false;
  /** True once the envelope is complete. */
  finished = false;
  /** Why the body is not a valid list. Completes a sentence that begins with "the answer". */
  problem: string | null = null;
  preambleBytes = 0;
  /** True if the envelope is followed by more than white space. */
  hasTrailer = false;
  itemsIsObject = false;
  records = 0;
  pendingBytes = 0;

  readonly #maxRecordBytes: number;
  readonly #walk = new ValueWalk(MAX_DEPTH);
  readonly #members = new Map<string, string>();
  #found: FoundRecord[] = [];
  #state: State = 'preamble';
  #inItems = false;
  #name = '';
  /** In the trailer: true if a brace was the last character other than white space. */
  #braceEnds = false;
  #offset: number;
  /** Parts of the current name or value from earlier chunks. */
  #parts: Buffer[] = [];
  #size = 0;

  /** @param offset position of the first chunk in the body, for messages */
  constructor(maxRecordBytes: number, offset = 0) {
    this.#maxRecordBytes = maxRecordBytes;
    this.#offset = offset;
  }

  /** Reads a chunk. Don't change its bytes while its records are in use. */
  push(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && this.problem === null) at = this.#step(chunk, at);
    this.#offset += chunk.length;
  }

  /** True inside the envelope, or after a brace that may begin it, unless there is a problem. */
  get unfinished(): boolean {
    return this.problem === null && !this.finished && this.#state !== 'preamble';
  }

  get pendingCount(): number {
    return this.#found.length;
  }

  take(): FoundRecord[] {
    const taken = this.#found;
    this.#found = [];
    this.pendingBytes = 0;
    return taken;
  }

  /** The envelope's small members other than the list; null if one is invalid JSON. */
  envelope(): JsonObject | null {
    try {
      const entries = [...this.#members].map(([name, text]): [string, Json] => [
        name,
        JSON.parse(text) as Json,
      ]);
      return Object.fromEntries(entries);
    } catch {
      return null;
    }
  }

  /** Reads from `at` until the state changes or the chunk ends. Returns the position after that. */
  #step(chunk: Buffer, at: number): number {
    switch (this.#state) {
      case 'in-value':
      case 'in-name':
        return this.#continue(chunk, at, at);
      case 'preamble':
        return this.#seekBrace(chunk, at);
      default:
        return isSpace(chunk[at]) ? at + 1 : this.#punctuation(chunk, at);
    }
  }

  #seekBrace(chunk: Buffer, at: number): number {
    const brace = chunk.indexOf(OPEN_BRACE, at);
    const stop = brace < 0 ? chunk.length : brace;
    this.preambleBytes = this.#offset + stop;
    if (this.preambleBytes > MAX_PREAMBLE_BYTES) this.problem = 'has no JSON in its first MiB';
    if (brace < 0) return stop;
    this.#state = 'preamble-brace';
    return stop + 1;
  }

  #punctuation(chunk: Buffer, at: number): number {
    const byte = chunk[at] as number;
    switch (this.#state) {
      case 'preamble-brace':
        // A brace without a quote after it belongs to the preamble: PHP names closures `{closure}`.
        if (byte === QUOTE) return this.#begin('in-name', chunk, at);
        this.#state = 'preamble';
        return at;
      case 'name-or-end':
      case 'name':
        if (byte === QUOTE) return this.#begin('in-name', chunk, at);
        if (byte === CLOSE_BRACE && this.#state === 'name-or-end') this.#closeContainer();
        else this.#fail(at);
        return at + 1;
      case 'colon':
        if (byte === COLON) this.#state = 'value';
        else this.#fail(at);
        return at + 1;
      case 'next':
        return this.#afterValue(byte, at);
      case 'value-or-end':
        if (byte === CLOSE_BRACKET) {
          this.#closeContainer();
          return at + 1;
        }
        return this.#beginValue(chunk, at);
      case 'value':
        return this.#beginValue(chunk, at);
      default:
        return this.#trailer(chunk, at);
    }
  }

  /** Text after the envelope doesn't matter, but a second object may contradict the first. */
  #trailer(chunk: Buffer, at: number): number {
    this.hasTrailer = true;
    if (this.#braceEnds && chunk[at] === QUOTE) this.problem = 'continues after its end';
    this.#braceEnds = chunk[at] === OPEN_BRACE;
    return at + 1;
  }

  #afterValue(byte: number, at: number): number {
    const inArray = this.#inItems && !this.itemsIsObject;
    if (byte === COMMA) this.#state = inArray ? 'value' : 'name';
    else if (byte === (inArray ? CLOSE_BRACKET : CLOSE_BRACE)) this.#closeContainer();
    else this.#fail(at);
    return at + 1;
  }

  #closeContainer(): void {
    if (this.#inItems) {
      this.#inItems = false;
      this.started = true;
      this.#state = 'next';
    } else {
      this.finished = true;
      this.#state = 'tail';
    }
  }

  #endName(last: Buffer, at: number): void {
    this.#keep(last);
    const text = Buffer.concat(this.#parts).toString();
    this.#forget();
    this.#state = 'colon';
    try {
      this.#name = JSON.parse(text) as string;
    } catch {
      this.#fail(at);
    }
    if (!this.#inItems) return;
    if (/^\d+$/.test(this.#name)) this.started = true;
    else this.problem = 'has an object instead of the list of items';
  }

  #beginValue(chunk: Buffer, at: number): number {
    const byte = chunk[at] as number;
    const isArray = byte === OPEN_BRACKET;
    if (!this.#inItems && this.#name === 'items' && (isArray || byte === OPEN_BRACE)) {
      if (this.started) this.problem = 'has two lists of items';
      this.#inItems = true;
      this.itemsIsObject = !isArray;
      this.started ||= isArray;
      this.#state = isArray ? 'value-or-end' : 'name-or-end';
      return at + 1;
    }
    if (byte === COMMA || byte === COLON || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) {
      this.#fail(at);
      return at + 1;
    }
    return this.#begin('in-value', chunk, at);
  }

  #begin(state: 'in-name' | 'in-value', chunk: Buffer, at: number): number {
    this.#walk.begin(chunk[at] as number);
    this.#state = state;
    return this.#continue(chunk, at, at + 1);
  }

  /** Reads a name or value. @param start where it begins in this chunk @param at where to continue */
  #continue(chunk: Buffer, start: number, at: number): number {
    const after = this.#walk.walk(chunk, at);
    const stop = after === INCOMPLETE ? chunk.length : after;
    const bytes = start === 0 && stop === chunk.length ? chunk : chunk.subarray(start, stop);
    if (after === INCOMPLETE) {
      this.#keep(bytes);
      return stop;
    }
    if (this.#state === 'in-name') this.#endName(bytes, start);
    else if (this.#inItems) this.#endRecord(bytes);
    else this.#endMember(bytes);
    return stop;
  }

  /** Keeps part of a name or value, up to the size limit. */
  #keep(bytes: Buffer): void {
    const isRecord = this.#inItems && this.#state === 'in-value';
    const limit = isRecord ? this.#maxRecordBytes : MAX_MEMBER_BYTES;
    const wasWithin = this.#size <= limit;
    this.#size += bytes.length;
    if (!wasWithin) return;
    this.#parts.push(bytes);
    if (this.#size > limit) {
      this.#parts = isRecord ? [shorten(Buffer.concat(this.#parts))] : [];
    }
  }

  #endRecord(last: Buffer): void {
    const whole = this.#parts.length === 0;
    if (!whole) this.#keep(last);
    const size = whole ? last.length : this.#size;
    const joined = whole ? last : Buffer.concat(this.#parts);
    const unfit = this.#unfit(size);
    const bytes = unfit === null ? joined : shorten(joined);
    const idHint = this.#walk.idUnsure && !whole ? idOf(joined, MAX_DEPTH) : this.#walk.id;
    this.#found.push({ bytes, idHint, unfit });
    this.records++;
    this.pendingBytes += bytes.length;
    this.#state = 'next';
    this.#forget();
  }

  #unfit(size: number): string | null {
    if (size > this.#maxRecordBytes) {
      return `is larger than the ${this.#maxRecordBytes} bytes allowed`;
    }
    return this.#walk.tooDeep ? `nests deeper than ${MAX_DEPTH} levels` : null;
  }

  #endMember(last: Buffer): void {
    this.#keep(last);
    if (this.#size <= MAX_MEMBER_BYTES && this.#members.size < MAX_MEMBERS) {
      this.#members.set(this.#name, Buffer.concat(this.#parts).toString());
    }
    this.#state = 'next';
    this.#forget();
  }

  #forget(): void {
    this.#parts = [];
    this.#size = 0;
  }

  #fail(at: number): void {
    this.problem ??= `is not valid JSON (byte ${this.#offset + at + 1})`;
  }
}

/** Copies the beginning, so that the large buffer can be freed. */
function shorten(bytes: Buffer): Buffer {
  return Buffer.from(bytes.subarray(0, KEPT_OF_UNFIT_BYTES));
}
