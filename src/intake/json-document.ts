import { KEPT_OF_TOO_LONG } from './text-list.js';
import { IntakeError, shown } from './types.js';

export interface JsonRecord {
  readonly line: number;
  /** The value's JSON; its beginning when it is too long. */
  readonly text: string;
  readonly tooLong: boolean;
}

/** A step of reading, which pauses where the text that has arrived ends. */
type Steps<Result = void> = Generator<undefined, Result, undefined>;

const MAX_NAME = 1024;

// Tokens that may begin or end a part of a value. A text is one token, if all of it has arrived.
const IN_BRACKETS = /"[^"\\\n]*"|["[\]{}]/g;
const IN_WORD = /"[^"\\\n]*"|["[\]{}, \t\n:]/g;
const IN_STRING = /["\\\n]/g;
const ESCAPED = /[^]/g;
const AFTER_WORD = /[\]}, \t\n:]/;

/**
 * Cuts a JSON document into the values of its list as the text arrives; no library does that. Each value is
 * parsed by itself, so that an invalid one doesn't stop the others.
 */
export class JsonDocument {
  /** Name of the member that is the list; null when the document itself is. */
  list: string | null = null;
  /** Text that has arrived, with LF as its only line end, and how much of it is read. */
  #text = '';
  #at = 0;
  #line = 1;
  /** A CR whose LF may be in the next piece. */
  #heldBack = '';
  #isLast = false;
  #found: JsonRecord[] = [];
  readonly #steps = this.#document();
  readonly #maxLength: number;
  readonly #mask: (name: string) => string;

  /**
   * @param maxLength longest record, in UTF-16 units
   * @param mask masks API keys in the names of members, which messages show
   */
  constructor(maxLength: number, mask: (name: string) => string) {
    this.#maxLength = maxLength;
    this.#mask = mask;
  }

  /** @throws IntakeError where the document's structure is broken */
  push(piece: string, isLast: boolean): JsonRecord[] {
    const text = this.#heldBack + piece;
    this.#heldBack = !isLast && text.endsWith('\r') ? '\r' : '';
    const whole = text.slice(0, text.length - this.#heldBack.length);
    this.#text = this.#text.slice(this.#at) + whole.replaceAll(/\r\n?/g, '\n');
    this.#at = 0;
    this.#isLast = isLast;
    this.#found = [];
    this.#steps.next();
    return this.#found;
  }

  *#document(): Steps {
    if (yield* this.#accepts('[')) yield* this.#elements();
    else if (!(yield* this.#accepts('{'))) this.#fail('a JSON list begins with [ or {');
    else {
      yield* this.#members();
      if (this.list === null) {
        throw new IntakeError(
          'the JSON object has no list of texts or objects',
          'Give an array of codes, an array of objects, or an object with one such array.',
        );
      }
    }
    for (;;) {
      this.#skipSpace();
      if (this.#at < this.#text.length)
        this.#fail('something follows after the end of the document');
      yield;
    }
  }

  *#elements(): Steps {
    if (yield* this.#accepts(']')) return;
    do {
      const record = yield* this.#value(this.#maxLength);
      this.#found.push(record);
    } while (yield* this.#goesOn(']', 'values'));
  }

  *#members(): Steps {
    if (yield* this.#accepts('}')) return;
    do {
      const name = yield* this.#name();
      if (!(yield* this.#accepts('['))) yield* this.#value(0);
      else if (['"', '{'].includes(yield* this.#next())) {
        if (this.list !== null) {
          throw new IntakeError(
            `the JSON object has two lists: ${shown(this.list)} and ${shown(name)}`,
            'Leave only the list with the codes in the file.',
          );
        }
        this.list = name;
        yield* this.#elements();
      } else if (!(yield* this.#accepts(']'))) {
        // An array of numbers, arrays and the like can't be the list of codes.
        yield* this.#value(0, 1);
      }
    } while (yield* this.#goesOn('}', 'members'));
  }

  *#name(): Steps<string> {
    if ((yield* this.#next()) !== '"') this.#fail('the name of a member is missing');
    const { text } = yield* this.#value(MAX_NAME);
    if (!(yield* this.#accepts(':'))) this.#fail('a colon is missing after the name of a member');
    try {
      return this.#mask(JSON.parse(text) as string);
    } catch {
      this.#fail('the name of a member is not valid JSON');
    }
  }

  *#goesOn(close: string, of: string): Steps<boolean> {
    if (yield* this.#accepts(close)) return false;
    if (!(yield* this.#accepts(','))) this.#fail(`a comma is missing between two ${of}`);
    return !(yield* this.#accepts(close));
  }

  /** @param maxLength longest text that is kept @param open brackets before the value that it closes */
  *#value(maxLength: number, open = 0): Steps<JsonRecord> {
    if (',:]}'.includes(yield* this.#next())) this.#fail('a value is missing');
    const line = this.#line;
    let text = '';
    let length = 0;
    let depth = open;
    let inString = false;
    let isEscaped = false;
    for (let isOpen = true; isOpen;) {
      const tokens = isEscaped ? ESCAPED : inString ? IN_STRING : depth > 0 ? IN_BRACKETS : IN_WORD;
      tokens.lastIndex = this.#at;
      const found = tokens.exec(this.#text);
      const token = found?.[0] ?? '';
      if (token === '\n' && inString) this.#fail('a text is not closed before the line ends');
      const isAfterWord = tokens === IN_WORD && token.length === 1 && AFTER_WORD.test(token);
      const end = (found?.index ?? Infinity) + (isAfterWord ? 0 : token.length);
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

  /** Reads a character, if it is the next one that is not white space. */
  *#accepts(char: string): Steps<boolean> {
    if ((yield* this.#next()) !== char) return false;
    this.#at++;
    return true;
  }

  /** The next character that is not white space. It is not read. */
  *#next(): Steps<string> {
    for (;;) {
      this.#skipSpace();
      const char = this.#text[this.#at];
      if (char !== undefined) return char;
      yield* this.#more();
    }
  }

  /** Waits for the next piece of the text. */
  *#more(): Steps {
    if (this.#isLast) this.#fail('ends before the document does: it was cut off');
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
    throw new IntakeError(
      `line ${this.#line}: ${problem}`,
      'Correct or export the JSON again. One value a line (NDJSON) would survive a broken line.',
    );
  }
}
