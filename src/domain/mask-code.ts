/**
 * A purchase code as it may be shown: its first characters, 4 at most and never more than a quarter
 * of it, so that a person who has it recognises it and nobody else learns it.
 */
export function maskCode(text: string): string {
  const kept = text.slice(0, Math.min(4, Math.floor(text.length / 4)));
  return `${kept.toWellFormed()}…`;
}

/** UUIDs, the usual form of purchase codes, and what is written in as many digits without hyphens. */
const LIKELY_CODES = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|[\da-f]{32,}/gi;

/** The text with everything masked that looks like a purchase code or a key. */
export function maskLikelyCodes(text: string): string {
  return text.replaceAll(LIKELY_CODES, maskCode);
}
