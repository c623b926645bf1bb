import { MAX_DEPTH } from './envelope.js';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  CUT,
  endOfString,
  endOfValue,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipSpace,
  type Seen,
} from './json-walk.js';

/** A seller has no more items. Without this bound, a list of numbers would fill memory. */
const MAX_RECORDS = 2_000_000;
/** A larger record must not be decoded. */
const MAX_RECORD_BYTES = 64 * 1024 * 1024;

/** Where a record is in the body. */
export interface FoundRecord {
  readonly start: number;
  readonly end: number;
  readonly idHint: number | null;
  readonly unfit: string | null;
}

/** A list in its envelope. */
export interface FoundList {
  readonly records: FoundRecord[];
  /** Indexes of its opening bracket, and of what follows its closing one. */
  readonly from: number;
  to: number;
  readonly isObject: boolean;
  readonly isInData: boolean;
}

export interface ScannedEnvelope {
  /** Null if the object has no list. */
  readonly list: FoundList | null;
  /** Why it is no valid list. Completes a sentence that begins with "the answer". */
  readonly problem: string | null;
  /** True if the bytes end too early. */
  readonly isCut: boolean;
  /** Index after the envelope, or of the problem. */
  readonly end: number;
}

/**
 * Finds the records of a list in its envelope (API 4.2): `items` or `data.items`, an array or an object with numbered
 * keys (servers: shapes), at any position. Nothing is parsed.
 * @param start index of the envelope's brace
 */
export function scanList(bytes: Buffer, start: number): ScannedEnvelope {
  const scan = new Scan(bytes, start);
  let problem: Problem | null = null;
  try {
    scan.object(true);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    problem = error;
  }
  const { list, at: end } = scan;
  return { list, problem: problem?.message ?? null, isCut: problem === CUT_OFF, end };
}

class Problem extends Error {}

const CUT_OFF = new Problem('ends early');

class Scan {
  list: FoundList | null = null;

  constructor(
    private readonly bytes: Buffer,
    public at: number,
  ) {}

  /** Reads an object whose brace is here. */
  object(isEnvelope: boolean): void {
    this.#elements(CLOSE_BRACE, () => {
      const name = this.#name();
      const opening = this.bytes[this.at];
      const isContainer = opening === OPEN_BRACE || opening === OPEN_BRACKET;
      if (name === '"items"' && isContainer) return this.#list(opening === OPEN_BRACE, !isEnvelope);
      if (name === '"data"' && isEnvelope && opening === OPEN_BRACE) return this.object(false);
      this.#value(null);
    });
  }

  #list(isObject: boolean, isInData: boolean): void {
    if (this.list !== null) throw new Problem('has two lists of items');
    const list: FoundList = { records: [], from: this.at, to: this.at, isObject, isInData };
    // An object is a list only if its first key is a number.
    if (!isObject) this.list = list;
    this.#elements(isObject ? CLOSE_BRACE : CLOSE_BRACKET, () => {
      if (isObject && !/^"\d+"$/.test(this.#name())) {
        throw new Problem('has an object instead of the list of items');
      }
      this.list = list;
      const start = this.at;
      const seen: Seen = { depth: 0, id: null };
      this.#value(seen);
      const unfit = unfitness(this.at - start, seen.depth);
      list.records.push({ start, end: this.at, idHint: seen.id, unfit });
      if (list.records.length > MAX_RECORDS) {
        throw new Problem(`has more than ${MAX_RECORDS} records`);
      }
    });
    this.list = list;
    list.to = this.at;
  }

  /** Reads what is between an opening bracket, which is here, and its closing one. */
  #elements(closing: number, read: () => void): void {
    this.#step(1);
    for (let isFirst = true; ; isFirst = false) {
      if (!isFirst || this.bytes[this.at] !== closing) {
        read();
        this.#step(0);
      }
      const next = this.bytes[this.at];
      if (next !== COMMA && next !== closing) throw this.#invalid();
      this.#step(1);
      if (next === closing) return;
    }
  }

  /** Reads a name and its colon. @returns the name as written, in quotes */
  #name(): string {
    if (this.bytes[this.at] !== QUOTE) throw this.#invalid();
    const end = endOfString(this.bytes, this.at + 1);
    if (end === CUT) throw CUT_OFF;
    const name = this.bytes.toString('utf8', this.at, end);
    this.#step(end - this.at);
    if (this.bytes[this.at] !== COLON) throw this.#invalid();
    this.#step(1);
    return name;
  }

  #value(seen: Seen | null): void {
    const byte = this.bytes[this.at];
    const isPunctuation =
      byte === COMMA || byte === COLON || byte === CLOSE_BRACE || byte === CLOSE_BRACKET;
    if (byte === undefined || isPunctuation) throw this.#invalid();
    const end = endOfValue(this.bytes, this.at, seen);
    if (end === CUT) throw CUT_OFF;
    this.at = end;
  }

  #step(bytes: number): void {
    this.at = skipSpace(this.bytes, this.at + bytes);
  }

  #invalid(): Problem {
    if (this.at >= this.bytes.length) return CUT_OFF;
    return new Problem(`is not valid JSON (byte ${this.at + 1})`);
  }
}

function unfitness(size: number, depth: number): string | null {
  if (size > MAX_RECORD_BYTES) return `is larger than the ${MAX_RECORD_BYTES} bytes allowed`;
  return depth > MAX_DEPTH ? `nests deeper than ${MAX_DEPTH} levels` : null;
}
