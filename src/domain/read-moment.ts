import { parseDuration } from './codes/recheck.js';

/** A moment read from text, or what is wrong with the text. */
export type MomentReading = { readonly at: Date } | { readonly fault: string };

const EXAMPLES = 'such as 2026-03-01, 2026-03-01T12:00Z or 7d';
const ISO =
  /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/i;

/**
 * Reads a moment: a day, which is its beginning, a day and a time, or a length of time, which is so
 * long ago. What has no zone is UTC, as all times are shown.
 */
export function readMoment(text: string, now: Date): MomentReading {
  const plain = text.trim();
  const [whole, day = '', time = '00:00', zone = 'Z'] = ISO.exec(plain) ?? [];
  if (whole === undefined) return ago(plain, now);
  const offset = zone.length === 5 ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone.toUpperCase();
  const at = new Date(`${day}T${time}${offset}`);
  // A day such as 30 February would quietly be one of March.
  const exists = new Date(`${day}T00:00Z`);
  if (Number.isNaN(at.getTime()) || Number.isNaN(exists.getTime())) return noSuch(plain);
  return exists.toISOString().startsWith(day) ? { at } : noSuch(plain);
}

function noSuch(text: string): MomentReading {
  return { fault: `"${text}" is no moment that exists` };
}

function ago(text: string, now: Date): MomentReading {
  const length = parseDuration(text);
  if ('ms' in length && text !== '') return { at: new Date(now.getTime() - length.ms) };
  return { fault: `"${text}" is no moment; give one ${EXAMPLES}` };
}
