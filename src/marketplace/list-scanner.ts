import { isDecisive, MAX_DEPTH } from './envelope.js';
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

/** Of the envelope's other members, keep no larger ones and no more than this many. */
const MAX_MEMBER_BYTES = 64 * 1024;
const MAX_MEMBERS = 64;
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

/** The JSON texts of an object's small members, by name. */
export type Members = Map<string, string>;

export interface ScannedList {
  /** Null if the object has no list. */
  readonly records: readonly FoundRecord[] | null;
  readonly isObject: boolean;
  readonly isInData: boolean;
  /** The members of the envelope, and of its `data`; without the list. */
  readonly members: Members;
  readonly inData: Members;
  /** Why it is no valid list. Completes a sentence that begins with "the answer". */
  readonly problem: string | null;
  /** True if the bytes end too early. */
  readonly isCut: boolean;
  /** Index after the envelope, or of the problem. */
  readonly end: number;
}

/**
 * Finds the records of a list in its envelope (API 4.2): `items` or `data.items`, an array or an object with numbered
 * keys (servers: shapes), at any position. Records are not parsed.
 * @param start index of the envelope's brace
 */
export function scanList(bytes: Buffer, start: number): ScannedList {
  const scan = new Scan(bytes, start);
  let problem: string | null = null;
  let isCut = false;
  try {
    scan.object(scan.members, true);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    problem = error.message;
    isCut = error === CUT_OFF;
  }
  const { records, isObject, isInData, members, inData, at: end } = scan;
  return { records, isObject, isInData, members, inData, problem, isCut, end };
}

class Problem extends Error {}

const CUT_OFF = new Problem('ends early');

class Scan {
  records: FoundRecord[] | null = null;
  isObject = false;
  isInData = false;
  readonly members: Members = new Map();
  readonly inData: Members = new Map();

  constructor(
    private readonly bytes: Buffer,
    public at: number,
  ) {}

  /** Reads an object whose brace is here. */
  object(members: Members, isEnvelope: boolean): void {
    const names = new Set<string>();
    this.#elements(CLOSE_BRACE, () => {
      const name = this.#name();
      if (names.has(name)) throw new Problem(`has two fields named "${name}"`);
      if (isDecisive(name)) names.add(name);
      const opening = this.bytes[this.at];
      const isContainer = opening === OPEN_BRACE || opening === OPEN_BRACKET;
      if (name === 'items' && isContainer) {
        this.isInData = !isEnvelope;
        return this.#list(opening === OPEN_BRACE);
      }
      if (name === 'data' && isEnvelope && opening === OPEN_BRACE) {
        return this.object(this.inData, false);
      }
      const from = this.at;
      this.#value(null);
      if (this.at - from > MAX_MEMBER_BYTES || members.size >= MAX_MEMBERS) return;
      members.set(name, this.bytes.toString('utf8', from, this.at));
    });
  }

  #list(isObject: boolean): void {
    if (this.records !== null) throw new Problem('has two lists of items');
    const records: FoundRecord[] = [];
    this.isObject = isObject;
    if (!isObject) this.records = records;
    this.#elements(isObject ? CLOSE_BRACE : CLOSE_BRACKET, () => {
      if (isObject && !/^\d+$/.test(this.#name())) {
        throw new Problem('has an object instead of the list of items');
      }
      this.records = records;
      const start = this.at;
      const seen: Seen = { depth: 0, id: null };
      this.#value(seen);
      const unfit = unfitness(this.at - start, seen.depth);
      records.push({ start, end: this.at, idHint: seen.id, unfit });
      if (records.length > MAX_RECORDS) throw new Problem(`has more than ${MAX_RECORDS} records`);
    });
    this.records = records;
  }

  /** Reads what is between an opening bracket, which is here, and its closing one. */
  #elements(closing: number, read: () => void): void {
    this.#step(1);
    if (this.bytes[this.at] === closing) return this.#step(1);
    for (;;) {
      read();
      this.#step(0);
      const next = this.bytes[this.at];
      if (next !== COMMA && next !== closing) throw this.#invalid();
      this.#step(1);
      if (next === closing) return;
    }
  }

  /** Reads a name and its colon. */
  #name(): string {
    if (this.bytes[this.at] !== QUOTE) throw this.#invalid();
    const end = endOfString(this.bytes, this.at + 1);
    if (end === CUT) throw CUT_OFF;
    const text = this.bytes.toString('utf8', this.at, end);
    this.#step(end - this.at);
    if (this.bytes[this.at] !== COLON) throw this.#invalid();
    this.#step(1);
    try {
      return JSON.parse(text) as string;
    } catch {
      throw this.#invalid();
    }
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
