/** One line of a text. */
export interface Line {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** How it ended: LF, CRLF, CR, or not at all. */
  readonly end: string;
  /** It was longer than allowed: `text` is its beginning only. */
  readonly tooLong: boolean;
}

const KEPT_OF_TOO_LONG = 256;

/** Cuts text into lines as it comes in; LF, CRLF and CR end a line, in any mixture. */
export class LineSplitter {
  readonly #most: number;
  #rest = '';
  #dropping = false;
  #number = 1;

  /** @param most longest line, in UTF-16 units; of a longer one only the beginning is kept */
  constructor(most: number) {
    this.#most = most;
  }

  /** The lines that end in this piece of the text. */
  push(piece: string): Line[] {
    const lines: Line[] = [];
    const text = this.#rest + piece;
    let start = 0;
    let [lf, cr] = [text.indexOf('\n'), text.indexOf('\r')];
    while (lf >= 0 || cr >= 0) {
      const isCr = cr >= 0 && (lf < 0 || cr < lf);
      // The LF of this CR may be in the next piece.
      if (isCr && cr + 1 === text.length) break;
      const end = !isCr ? '\n' : lf === cr + 1 ? '\r\n' : '\r';
      const at = isCr ? cr : lf;
      lines.push(this.#line(text.slice(start, at), end));
      start = at + end.length;
      if (lf >= 0 && lf < start) lf = text.indexOf('\n', start);
      if (cr >= 0 && cr < start) cr = text.indexOf('\r', start);
    }
    this.#keep(text.slice(start));
    return lines;
  }

  /** The last line, when nothing ended it. */
  end(): Line[] {
    if (this.#rest === '') return [];
    const cr = this.#rest.endsWith('\r');
    const line = this.#line(cr ? this.#rest.slice(0, -1) : this.#rest, cr ? '\r' : '');
    this.#rest = '';
    return [line];
  }

  #line(text: string, end: string): Line {
    const tooLong = this.#dropping || text.length > this.#most;
    this.#dropping = false;
    return {
      number: this.#number++,
      text: tooLong ? text.slice(0, KEPT_OF_TOO_LONG) : text,
      end,
      tooLong,
    };
  }

  #keep(rest: string): void {
    if (rest.length <= this.#most) {
      this.#rest = rest;
      return;
    }
    this.#dropping = true;
    this.#rest = rest.slice(0, KEPT_OF_TOO_LONG) + (rest.endsWith('\r') ? '\r' : '');
  }
}
