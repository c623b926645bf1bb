import { inspect } from 'node:util';

const MASK = '[secret]';

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

/** Spellings under which a secret may turn up in somebody else's text. */
function spellings(secret: Secret): string[] {
  const text = secret.reveal();
  const json = JSON.stringify(text).slice(1, -1);
  return [
    ...new Set([
      text,
      json,
      encodeURIComponent(text),
      encodeURIComponent(text).replaceAll('%20', '+'),
    ]),
  ];
}

/**
 * Makes a function that replaces every spelling of the secrets (plain, JSON-escaped, URL-encoded) in
 * a text by a mask. Secrets of fewer than 4 characters are left alone: masking them would shred any
 * text. One expression for all, because a look for each takes seconds with a thousand of them.
 */
export function redactorOf(secrets: readonly Secret[]): (text: string) => string {
  const known = new Set(
    secrets.filter((secret) => secret.reveal().length >= 4).flatMap((secret) => spellings(secret)),
  );
  if (known.size === 0) return (text) => text;
  // The longest first: where one secret contains another, none of it may stay behind.
  const longestFirst = [...known].sort((a, b) => b.length - a.length);
  const expression = new RegExp(longestFirst.map(literally).join('|'), 'g');
  return (text) => text.replaceAll(expression, MASK);
}

/** `redactorOf` for a single text. */
export function redact(text: string, secrets: readonly Secret[]): string {
  return redactorOf(secrets)(text);
}

function literally(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}
