/** White space, control characters, and characters that are invisible or reverse the text after them. */
const UNSAFE = /[\s\p{Cc}\u200b-\u200f\u202a-\u202e\u2060-\u2069]+/gu;

/** The text on one line without invisible characters. A longer text is cut to `maxLength` code units. */
export function oneLine(text: string, maxLength = Infinity): string {
  const line = text.toWellFormed().replaceAll(UNSAFE, ' ').trim();
  if (line.length <= maxLength) return line;
  // The cut may leave half of a surrogate pair.
  return `${line.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** Maximum characters of a name. */
const MAX_CHARACTERS = 60;

/**
 * Makes a name from the marketplace safe for a sentence: one line of at most 60 characters. Unlike `oneLine`, it
 * keeps the joiners that some scripts and emoji need, and counts a character outside of the BMP as one.
 */
export function displayName(name: string): string {
  const plain = name
    .slice(0, MAX_CHARACTERS * 8)
    .toWellFormed()
    .replaceAll(/\p{Cc}|[\u202A-\u202E\u2066-\u2069\u2028\u2029\uFEFF]/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  const characters = Array.from(plain);
  if (characters.length <= MAX_CHARACTERS) return plain;
  return `${characters
    .slice(0, MAX_CHARACTERS - 1)
    .join('')
    .trimEnd()}…`;
}
