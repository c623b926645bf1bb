/** Whether a list looks like purchase codes at all. Pure. */

import { isTypicalCode, LONGEST_CODE } from '../../marketplace/code.js';
import { maskCode, maskLikelyCodes } from '../../domain/secret.js';
import { quoted } from '../../listing/file-error.js';
import { isShortenedNumber, kindOf, plainOf } from './kinds.js';
import type { List } from './types.js';

export interface Doubt {
  /** Examined records with text in the column of codes. */
  readonly total: number;
  /** Records that look unlike codes. */
  readonly odd: number;
  /** The length of known codes: `37 characters`. Null if too few are known. */
  readonly known: string | null;
  /** Examples such as `line 3: "Dear customer"`, with possible codes masked. */
  readonly samples: readonly string[];
}

/** Known codes needed for a comparison. Fewer may look alike by chance. */
const ENOUGH_KNOWN = 20;
const MAX_SAMPLES = 3;
/** Records examined at the beginning of a list. */
const MOST_EXAMINED = 1_000;

/**
 * Returns a doubt if more than half of the first 1,000 records look unlike codes: white space or a tag, dates, amounts,
 * addresses, numbers that Excel shortened, more than 255 characters. If 20 valid codes are known, compares with their
 * lengths instead. UUIDs and hex codes are fine then too.
 * @param known valid codes of the seller
 */
export function doubtOf(
  { entries, layout }: Pick<List, 'entries' | 'layout'>,
  known: readonly string[],
): Doubt | null {
  const lengths = known.map(({ length }) => length).sort((a, b) => a - b);
  const [shortest = 0, longest = 0] = [lengths[0], lengths.at(-1)];
  const isKnown = known.length >= ENOUGH_KNOWN;
  const records = entries
    .slice(0, MOST_EXAMINED)
    .map(({ line, columns }) => ({ line, text: plainOf(columns[layout.codeColumn] ?? '') }))
    .filter(({ text }) => text !== '');
  const odd = records.filter(({ text }) =>
    isKnown
      ? (text.length < shortest || text.length > longest) && !isTypicalCode(text)
      : isUnlikely(text),
  );
  if (odd.length * 2 <= records.length) return null;
  return {
    total: records.length,
    odd: odd.length,
    known: isKnown ? `${shortest === longest ? '' : `${shortest} to `}${longest} characters` : null,
    samples: odd.slice(0, MAX_SAMPLES).map(({ line, text }) => `line ${line}: ${sampleOf(text)}`),
  };
}

function sampleOf(text: string): string {
  return isPlain(text)
    ? quoted(maskLikelyCodes(text), 40)
    : `${maskCode(text)} (${text.length} characters)`;
}

/** Prose, markup, a date, an amount or an address: hardly a code of any marketplace. */
function isUnlikely(text: string): boolean {
  return text.length > LONGEST_CODE || isPlain(text) || ['email', 'link'].includes(kindOf(text));
}

/** Prose, markup, a date or an amount, which messages may quote. */
function isPlain(text: string): boolean {
  const kind = kindOf(text);
  return (
    /\s|<[/!?a-z]/i.test(text) ||
    isShortenedNumber(text) ||
    kind === 'date' ||
    (kind === 'number' && /[.,]/.test(text))
  );
}
