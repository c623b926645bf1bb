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
 * Replaces every spelling of the secrets (plain, JSON-escaped, URL-encoded) in `text` by a mask.
 * Secrets of fewer than 4 characters are left alone: masking them would shred any text.
 */
export function redact(text: string, secrets: readonly Secret[]): string {
  let out = text;
  for (const secret of secrets) {
    if (secret.reveal().length < 4) continue;
    for (const spelling of spellings(secret)) out = out.replaceAll(spelling, MASK);
  }
  return out;
}
