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
