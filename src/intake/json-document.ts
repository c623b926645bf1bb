import { KEPT_OF_TOO_LONG } from './text-list.js';
import { FileError, quoted } from './types.js';

export interface JsonRecord {
  readonly line: number;
  /** The value's JSON, or its beginning if it is too long. */
  readonly text: string;
  readonly tooLong: boolean;
}

/** A step of the parser. It yields to wait for the next piece of text. */
type Steps<Result = void> = Generator<undefined, Result, undefined>;

const MAX_NAME = 1024;

// Tokens that may begin or end a part of a value. A string that is complete in the buffer is one token.
const IN_BRACKETS = /"[^"\\\n]*"|["[\]{}]/g;
const IN_WORD = /"[^"\\\n]*"|["[\]{}, \t\n:]/g;
const IN_STRING = /["\\\n]/g;
const ESCAPED = /[^]/g;
const AFTER_WORD = /[\]}, \t\n:]/;

/**
 * Splits a JSON document into the values of its list while the text arrives. Each value is parsed separately later, so
 * that an invalid one doesn't stop the others. No library does that.
 */
export class JsonDocument {
  /** Name of the member with the list, or null if the document itself is the list. */
  list: string | null = null;
  /** The buffered text, with LF as its only line end. */
  #text = '';
  /** Position in `#text`. */
  #at = 0;
  #line = 1;
  /** A CR at the end of a piece, which an LF may follow. */
  #heldBack = '';
  #isLast = false;
  #records: JsonRecord[] = [];
  readonly #steps = this.#document();
  readonly #maxLength: number;
  readonly #mask: (name: string) => string;

  /**
   * @param maxLength longest record, in UTF-16 units
   * @param mask masks API keys in names of members, which messages show
   */
  constructor(maxLength: number, mask: (name: string) => string) {
    this.#maxLength = maxLength;
    this.#mask = mask;
  }

  /** Adds text. @returns the records that end in it @throws FileError when the document's structure is broken */
  push(piece: string, isLast: boolean): JsonRecord[] {
    const text = this.#heldBack + piece;
    this.#heldBack = !isLast && text.endsWith('\r') ? '\r' : '';
    const whole = text.slice(0, text.length - this.#heldBack.length);
    this.#text = this.#text.slice(this.#at) + whole.replaceAll(/\r\n?/g, '\n');
    this.#at = 0;
    this.#isLast = isLast;
    this.#records = [];
    this.#steps.next();
    return this.#records;
  }

  *#document(): Steps {
    if (yield* this.#accept('[')) yield* this.#elements();
    else if (!(yield* this.#accept('{'))) this.#fail('a JSON list must begin with [ or {');
    else {
      yield* this.#members();
      if (this.list === null) {
        throw new FileError(
          'the JSON object has no list of strings or objects',
          'Use an array of codes, an array of objects, or an object with one such array.',
        );
      }
    }
    for (;;) {
      this.#skipSpace();
      if (this.#at < this.#text.length) this.#fail('there is text after the end of the document');
      yield;
    }
  }

  *#elements(): Steps {
    if (yield* this.#accept(']')) return;
    do {
      const record = yield* this.#value(this.#maxLength);
      this.#records.push(record);
    } while (yield* this.#acceptComma(']', 'values'));
  }

  *#members(): Steps {
    if (yield* this.#accept('}')) return;
    do {
      const name = yield* this.#name();
      if (!(yield* this.#accept('['))) yield* this.#value(0);
      else if (['"', '{'].includes(yield* this.#peek())) {
        if (this.list !== null) {
          throw new FileError(
            `the JSON object has two lists: ${quoted(this.list)} and ${quoted(name)}`,
            'Leave only the list with the codes in the file.',
          );
        }
        this.list = name;
        yield* this.#elements();
      } else if (!(yield* this.#accept(']'))) {
        // An array of numbers, arrays and the like can't be the list of codes.
        yield* this.#value(0, 1);
      }
    } while (yield* this.#acceptComma('}', 'members'));
  }

  *#name(): Steps<string> {
    if ((yield* this.#peek()) !== '"') this.#fail('the name of a member is missing');
    const { text } = yield* this.#value(MAX_NAME);
    if (!(yield* this.#accept(':'))) this.#fail('a colon is missing after the name of a member');
    try {
      return this.#mask(JSON.parse(text) as string);
    } catch {
      this.#fail('the name of a member is not valid JSON');
    }
  }

  /** Reads a comma or the closing bracket. @returns false at the end of the array or object */
  *#acceptComma(close: string, parts: string): Steps<boolean> {
    if (yield* this.#accept(close)) return false;
    if (!(yield* this.#accept(','))) this.#fail(`a comma is missing between two ${parts}`);
    return !(yield* this.#accept(close));
  }

  /**
   * Reads a value.
   * @param maxLength longest text to keep
   * @param open number of brackets that were opened before
   */
  *#value(maxLength: number, open = 0): Steps<JsonRecord> {
    if (',:]}'.includes(yield* this.#peek())) this.#fail('a value is missing');
    const line = this.#line;
    let text = '';
    let length = 0;
    let depth = open;
    let inString = false;
    let isEscaped = false;
    for (let isOpen = true; isOpen;) {
      const tokens = isEscaped ? ESCAPED : inString ? IN_STRING : depth > 0 ? IN_BRACKETS : IN_WORD;
      tokens.lastIndex = this.#at;
      const match = tokens.exec(this.#text);
      const token = match?.[0] ?? '';
      if (token === '\n' && inString) this.#fail('a string is not closed before the line ends');
      const isAfterWord = tokens === IN_WORD && token.length === 1 && AFTER_WORD.test(token);
      const end = (match?.index ?? Infinity) + (isAfterWord ? 0 : token.length);
      const part = this.#take(end);
      length += part.length;
      if (text.length <= maxLength) text += part;
      if (token === '') {
        yield* this.#more();
        continue;
      }
      if (isEscaped) isEscaped = false;
      else if (token === '\\') isEscaped = true;
      else if (token === '"') inString = !inString;
      else if (token === '[' || token === '{') depth++;
      else if (!isAfterWord && token.length === 1) depth--;
      isOpen = depth > 0 || inString;
    }
    const tooLong = length > maxLength;
    return { line, text: tooLong ? text.slice(0, KEPT_OF_TOO_LONG) : text, tooLong };
  }

  /** Reads `char` if it is the next character after white space. */
  *#accept(char: string): Steps<boolean> {
    if ((yield* this.#peek()) !== char) return false;
    this.#at++;
    return true;
  }

  /** The next character after white space, without reading it. */
  *#peek(): Steps<string> {
    for (;;) {
      this.#skipSpace();
      const char = this.#text[this.#at];
      if (char !== undefined) return char;
      yield* this.#more();
    }
  }

  /** Waits for the next piece of text. */
  *#more(): Steps {
    if (this.#isLast) this.#fail('the document is cut off');
    yield;
  }

  #skipSpace(): void {
    for (; this.#at < this.#text.length; this.#at++) {
      const char = this.#text[this.#at];
      if (char === '\n') this.#line++;
      else if (char !== ' ' && char !== '\t') return;
    }
  }

  #take(end: number): string {
    const part = this.#text.slice(this.#at, end);
    this.#at += part.length;
    for (let at = part.indexOf('\n'); at >= 0; at = part.indexOf('\n', at + 1)) this.#line++;
    return part;
  }

  #fail(problem: string): never {
    throw new FileError(
      `line ${this.#line}: ${problem}`,
      'Correct the JSON or export it again. With one value a line (NDJSON), other lines survive a broken one.',
    );
  }
}
