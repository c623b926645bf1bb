import { inspect } from 'node:util';

export const MASK = '[secret]';

/**
 * A value that cannot print by accident: string conversion, JSON, `console.log` and template
 * literals all show a mask. `reveal()` is the one way to the text.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return MASK;
  }

  toJSON(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
