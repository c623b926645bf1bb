/** Control characters and marks that are not seen but act: on terminals, on lines, on reading direction. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * The same text with an escape of JSON for every character that is not seen, so that text from
 * outside can neither forge a line nor command a terminal. What was JSON still means the same.
 */
export function escapeUnseen(text: string): string {
  return text.replaceAll(UNSEEN, (character) => {
    if (character === '\n') return String.raw`\n`;
    const units = Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
  });
}
