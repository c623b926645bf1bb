/** What keeps a list from being read or a result from being written, with what to do about it. */
export class IntakeError extends Error {
  override readonly name = 'IntakeError';

  /** @param remedy one sentence: what to do about it */
  constructor(
    message: string,
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The code of an error of Node's, such as `ENOENT`; empty when it has none. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

/**
 * Text from a list as it may stand in a message: in quotes, cut, without what could move a
 * terminal's cursor or turn the direction of writing.
 */
export function shown(text: string, most = 60): string {
  const safe = text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\u061C\u200B-\u200F\u2028-\u202E\u2066-\u2069\uFEFF]/gu, '\uFFFD');
  return `"${safe.length > most ? `${safe.slice(0, most - 1)}…` : safe}"`;
}

/** `"a", "b" and 3 more`. */
export function shownList(texts: readonly string[], most = 20): string {
  const some = texts.slice(0, most).map((text) => shown(text));
  const more = texts.length - some.length;
  return more > 0 ? `${some.join(', ')} and ${more} more` : some.join(', ');
}
