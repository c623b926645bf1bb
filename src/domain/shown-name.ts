const MOST_CHARACTERS = 60;

/**
 * A name of the marketplace's as it may stand in a sentence: one line, without control characters and
 * marks that turn the direction of reading, and of bounded length.
 */
export function shownName(name: string): string {
  const plain = name
    .slice(0, MOST_CHARACTERS * 8)
    .toWellFormed()
    .replaceAll(/\p{Cc}|[\u202A-\u202E\u2066-\u2069\u2028\u2029\uFEFF]/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const characters = Array.from(plain);
  return characters.length <= MOST_CHARACTERS
    ? plain
    : `${characters
        .slice(0, MOST_CHARACTERS - 1)
        .join('')
        .trimEnd()}…`;
}
