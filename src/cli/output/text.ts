import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';

// Marketplace text is hostile: it may hold escape sequences that retitle a terminal, overwrite
// lines or fake a prompt, and marks that turn the reading direction of what follows.
const CONTROL = /\p{Cc}/gu;
const LINE_ENDS = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/g;
const DIRECTION = /[\u202A-\u202E\u2066-\u2069\uFEFF]/g;

/** Text of several lines that is safe to write to a terminal. Tabs become blanks. */
export function safeLines(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(LINE_ENDS, '\n')
    .split('\n')
    .map((line) =>
      stripVTControlCharacters(line)
        .replaceAll('\t', '  ')
        .replaceAll(DIRECTION, '')
        .replaceAll(CONTROL, '\uFFFD'),
    )
    .join('\n');
}

/** The same in one line: line ends become one blank. */
export function safeLine(text: string): string {
  return safeLines(text).replaceAll(/\s*\n\s*/g, ' ');
}

/** Columns the text takes on a terminal: wide characters and emoji take two. */
export function width(text: string): number {
  return stringWidth(text);
}

const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** The text in at most `columns` columns, its end replaced by … when it is longer. Never half a character. */
export function cut(text: string, columns: number): string {
  // Only what could still fit is measured: descriptions may be megabytes.
  const most = columns * 32 + 32;
  if (text.length <= most && width(text) <= columns) return text;
  if (columns < 1) return '';
  let out = '';
  let used = 0;
  for (const { segment } of GRAPHEMES.segment(text.slice(0, most).toWellFormed())) {
    used += width(segment);
    if (used > columns - 1) break;
    out += segment;
  }
  return `${out.trimEnd()}…`;
}

/** Fills up with blanks to `columns`. */
export function pad(text: string, columns: number, align: 'left' | 'right'): string {
  const blanks = ' '.repeat(Math.max(0, columns - width(text)));
  return align === 'left' ? text + blanks : blanks + text;
}
