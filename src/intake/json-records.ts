import { IntakeError, shown } from './types.js';

/** One value of a JSON list, not decoded yet. */
export interface JsonRecord {
  /** Where it begins, from 1. */
  readonly line: number;
  /** The value's JSON; its beginning when it is too long. */
  readonly text: string;
  readonly tooLong: boolean;
}

/** Cuts text into records: a JSON document or one value a line. */
export interface RecordSplitter {
  /** The records that end in this piece of the text. */
  push(piece: string): JsonRecord[];
  /** The records that the end of the text completes. */
  end(): JsonRecord[];
  readonly blankLines: number;
  /** Where the list is in the document, as a sentence. */
  place(): string | null;
}

const MAX_NAME = 1024;
const KEPT_OF_TOO_LONG = 256;

type State =
  | 'start'
  | 'element'
  | 'in-element'
  | 'after-element'
  | 'name'
  | 'in-name'
  | 'colon'
  | 'member'
  | 'maybe-list'
  | 'in-member'
  | 'after-member'
  | 'tail';

/**
 * Cuts a JSON document into the values of its list as the text arrives: an array, or an object with
 * one array of texts or objects. Only finds where values begin and end; each is parsed by itself, so
 * that an invalid value doesn't stop the others.
 */
export class JsonSplitter implements RecordSplitter {
  readonly blankLines = 0;
  readonly #maxLength: number;
  readonly #mask: (name: string) => string;
  #state: State = 'start';
  /** The list is a member of an object. */
  #wrapped = false;
  #name = '';
  /** Name of the member that is the list. */
  #list: string | null = null;
  #line = 1;
  #lastWasCr = false;
  // The value that is being read.
  #text = '';
  #keepText = false;
  #size = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #begunAt = 1;
  #found: JsonRecord[] = [];

  /**
   * @param maxLength longest record, in UTF-16 units
   * @param mask masks API keys in the names of members, which messages show
   */
  constructor(maxLength: number, mask: (name: string) => string) {
    this.#maxLength = maxLength;
    this.#mask = mask;
  }

  place(): string | null {
    return this.#list === null ? null : `The list is the object's member ${shown(this.#list)}.`;
  }

  /**
   * The values that end in this piece of the text.
   * @throws IntakeError where the document's structure is broken
   */
  push(piece: string): JsonRecord[] {
    this.#found = [];
    let from = 0;
    for (let at = 0; at < piece.length; at++) {
      const char = piece.charCodeAt(at);
      this.#countLine(char);
      if (!this.#inValue()) {
        this.#between(char);
        if (this.#inValue()) from = at;
      } else if (!this.#goesOn(char)) {
        this.#keep(piece, from, at);
        this.#endValue();
        this.#between(char);
      } else if (this.#depth === 0 && !this.#inString && (char === QUOTE || isClosing(char))) {
        this.#keep(piece, from, at + 1);
        this.#endValue();
      }
    }
    if (this.#inValue()) this.#keep(piece, from, piece.length);
    return this.#found;
  }

  /** @throws IntakeError when the document isn't complete */
  end(): JsonRecord[] {
    if (this.#state === 'start') return [];
    if (this.#state !== 'tail') this.#fail('ends before the document does: it was cut off');
    if (this.#wrapped && this.#list === null) {
      throw new IntakeError(
        'the JSON object has no list of texts or objects',
        'Give an array of codes, an array of objects, or an object with one such array.',
      );
    }
    return [];
  }

  #countLine(char: number): void {
    if (char === CR || (char === LF && !this.#lastWasCr)) this.#line++;
    this.#lastWasCr = char === CR;
  }

  #inValue(): boolean {
    const state = this.#state;
    return state === 'in-element' || state === 'in-name' || state === 'in-member';
  }

  /** Adds a character to the value; false when the character ends the value instead. */
  #goesOn(char: number): boolean {
    if (this.#inString) {
      if (char === LF || char === CR) this.#fail('a text is not closed before the line ends', -1);
      if (this.#escaped) this.#escaped = false;
      else if (char === BACKSLASH) this.#escaped = true;
      else if (char === QUOTE) this.#inString = false;
      return true;
    }
    if (
      this.#depth === 0 &&
      (isClosing(char) || char === COMMA || char === COLON || isSpace(char))
    ) {
      return false;
    }
    this.#open(char);
    return true;
  }

  #open(char: number): void {
    if (char === QUOTE) this.#inString = true;
    else if (char === OPEN_BRACE || char === OPEN_BRACKET) this.#depth++;
    else if (isClosing(char)) this.#depth--;
  }

  #begin(state: State, char: number, keepText: boolean): void {
    this.#state = state;
    this.#begunAt = this.#line;
    this.#keepText = keepText;
    this.#text = '';
    this.#size = 0;
    this.#depth = 0;
    this.#open(char);
  }

  #keep(piece: string, from: number, to: number): void {
    this.#size += to - from;
    const maxLength = this.#state === 'in-name' ? MAX_NAME : this.#maxLength;
    if (!this.#keepText) return;
    this.#text += piece.slice(from, to);
    if (this.#size <= maxLength) return;
    this.#text = this.#text.slice(0, KEPT_OF_TOO_LONG);
    this.#keepText = false;
  }

  #endValue(): void {
    if (this.#state === 'in-member') this.#state = 'after-member';
    else if (this.#state === 'in-name') this.#endName();
    else {
      const tooLong = this.#size > this.#maxLength;
      this.#found.push({ line: this.#begunAt, text: this.#text, tooLong });
      this.#state = 'after-element';
    }
  }

  #endName(): void {
    try {
      this.#name = this.#mask(JSON.parse(this.#text) as string);
    } catch {
      this.#fail('the name of a member is not valid JSON');
    }
    this.#state = 'colon';
  }

  /** A character outside of any value. */
  #between(char: number): void {
    if (isSpace(char)) return;
    switch (this.#state) {
      case 'start':
        this.#start(char);
        return;
      case 'element':
        if (char === CLOSE_BRACKET) this.#endList();
        else this.#element(char);
        return;
      case 'after-element':
        if (char === COMMA) this.#state = 'element';
        else if (char === CLOSE_BRACKET) this.#endList();
        else this.#fail('a comma is missing between two values');
        return;
      case 'name':
        if (char === CLOSE_BRACE) this.#state = 'tail';
        else if (char === QUOTE) this.#begin('in-name', char, true);
        else this.#fail('the name of a member is missing');
        return;
      case 'colon':
        if (char !== COLON) this.#fail('a colon is missing after the name of a member');
        this.#state = 'member';
        return;
      case 'member':
        if (char === OPEN_BRACKET) this.#state = 'maybe-list';
        else if (isPunctuation(char)) this.#fail('a value is missing');
        else this.#begin('in-member', char, false);
        return;
      case 'maybe-list':
        this.#maybeList(char);
        return;
      case 'after-member':
        if (char === COMMA) this.#state = 'name';
        else if (char === CLOSE_BRACE) this.#state = 'tail';
        else this.#fail('a comma is missing between two members');
        return;
      default:
        this.#fail('something follows after the end of the document');
    }
  }

  #start(char: number): void {
    if (char === OPEN_BRACKET) this.#state = 'element';
    else if (char === OPEN_BRACE) {
      this.#wrapped = true;
      this.#state = 'name';
    } else this.#fail('a JSON list begins with [ or {');
  }

  #element(char: number): void {
    if (isPunctuation(char)) this.#fail('a value is missing');
    this.#begin('in-element', char, true);
  }

  /** The first character within an array that is a member. */
  #maybeList(char: number): void {
    if (char === CLOSE_BRACKET) {
      this.#state = 'after-member';
    } else if (char !== QUOTE && char !== OPEN_BRACE) {
      // An array of numbers, arrays and the like can't be the list of codes.
      this.#begin('in-member', OPEN_BRACKET, false);
      this.#open(char);
    } else if (this.#list !== null) {
      throw new IntakeError(
        `the JSON object has two lists: ${shown(this.#list)} and ${shown(this.#name)}`,
        'Leave only the list with the codes in the file.',
      );
    } else {
      this.#list = this.#name;
      this.#element(char);
    }
  }

  #endList(): void {
    this.#state = this.#wrapped ? 'after-member' : 'tail';
  }

  /** @param shift added to the current line for the line of the fault */
  #fail(problem: string, shift = 0): never {
    throw new IntakeError(
      `line ${this.#line + shift}: ${problem}`,
      'Correct or export the JSON again. One value a line (NDJSON) would survive a broken line.',
    );
  }
}

const [QUOTE, BACKSLASH, COMMA, COLON, CR, LF] = [0x22, 0x5c, 0x2c, 0x3a, 0x0d, 0x0a];
const [OPEN_BRACKET, CLOSE_BRACKET, OPEN_BRACE, CLOSE_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

function isClosing(char: number): boolean {
  return char === CLOSE_BRACKET || char === CLOSE_BRACE;
}

function isPunctuation(char: number): boolean {
  return isClosing(char) || char === COMMA || char === COLON;
}

function isSpace(char: number): boolean {
  return char === 0x20 || char === 0x09 || char === LF || char === CR;
}
