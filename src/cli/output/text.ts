import { createRequire } from 'node:module';
import type { Writable } from 'node:stream';
import { stripVTControlCharacters, styleText } from 'node:util';
import type stringWidth from 'string-width';
import { moment } from '../../domain/moment.js';

// The marketplace's text is not trusted. It may contain escape sequences that overwrite lines or fake a
// prompt, and marks that reverse the direction of the text after them.
const CONTROL = /\p{Cc}/gu;
/** Latin letters and the program’s own symbols, in lines. */
const PLAIN = /^[\n\x20-\x7e\u00a1-\u00ac\u00ae-\u024f–—‘’“”…→−─✓✗·]*$/;
const LINE_ENDS = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/g;
const DIRECTION = /[\u202A-\u202E\u2066-\u2069\uFEFF]/g;

/** Makes text safe for a terminal, line by line. Tabs become blanks. */
export function safeLines(text: string): string {
  // Nearly all text is, and a thousand sellers have many lines.
  if (PLAIN.test(text)) return text;
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

/** Makes text safe for a terminal in one line: line ends, with the blanks around them, become one blank. */
export function safeLine(text: string): string {
  const [first = '', ...others] = safeLines(text).split('\n');
  const last = others.pop();
  if (last === undefined) return first;
  // Not by one regular expression: on long runs of blanks, its time grows with the square of their number.
  const between = others.map((line) => line.trim()).filter((line) => line !== '');
  return [first.trimEnd(), ...between, last.trimStart()].join(' ');
}

/** Latin letters and the program's own symbols, which all take one column. */
const NARROW = /^[\x20-\x7e\u00a1-\u00ac\u00ae-\u024f–—‘’“”…→−─✓✗]*$/;
const require = createRequire(import.meta.url);
let measureWidth: typeof stringWidth | null = null;

/** The number of columns that the text takes on a terminal. */
export function width(text: string): number {
  if (NARROW.test(text)) return text.length;
  // Loaded on first use: compiling its regular expressions takes 25 ms.
  measureWidth ??= (require('string-width') as { readonly default: typeof stringWidth }).default;
  if (text.length <= PIECE) return measureWidth(text);
  const plain = stripVTControlCharacters(text);
  let columns = 0;
  for (let start = 0, end = 0; start < plain.length; start = end) {
    const piece = plain.slice(start, start + PIECE);
    // The last character of the piece may continue behind it, so it is measured with the next piece. The very
    // last unit may be half of a surrogate pair.
    const lastCharacter = GRAPHEMES.segment(piece).containing(PIECE - 2)?.index;
    end = start + (lastCharacter || piece.length);
    columns += measureWidth(plain.slice(start, end));
  }
  return columns;
}

/** Long text is measured in pieces: the time of Intl.Segmenter grows with the square of their length. */
const PIECE = 1_000;
const GRAPHEMES = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Cuts text to at most `columns` columns. A cut text ends in …, and no character is split. */
export function cut(text: string, columns: number): string {
  // Measures only as much as could fit: descriptions may be megabytes long.
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

export function pad(text: string, columns: number, align: 'left' | 'right'): string {
  const blanks = ' '.repeat(Math.max(0, columns - width(text)));
  return align === 'left' ? text + blanks : blanks + text;
}

/** Words, which stay on one line. A command between backticks and a number with its unit are words too. */
const WORDS = /(\s*)((?:`[^`]*`|(?<=\d) (?=(?:[kMGTP]?B|s|min|h|d|%|×)(?!\w))|\S)+)/g;

/**
 * Wraps lines that are wider than `columns`, between words.
 * @param hang extra indent of continuation lines; default: none if the line starts with a capital, else 2
 */
export function wrap(text: string, columns: number, hang?: number): string {
  return text
    .split('\n')
    .map((line) => (width(line) <= columns ? line : wrapLine(line, columns, hang).join('\n')))
    .join('\n');
}

function wrapLine(line: string, columns: number, hang: number | undefined): string[] {
  const [, blanks = '', first = ''] = /^( *)(.?)/u.exec(stripVTControlCharacters(line)) ?? [];
  const indent = blanks + ' '.repeat(hang ?? (/\p{Lu}/u.test(first) ? 0 : 2));
  const lines: string[] = [];
  let current = '';
  let used = 0;
  for (const [, blanks = '', word = ''] of line.matchAll(WORDS)) {
    const more = width(blanks) + width(word);
    if (used > indent.length && used + more > columns) {
      lines.push(current);
      current = indent + word;
      used = indent.length + width(word);
    } else {
      current += blanks + word;
      used += more;
    }
  }
  return [...lines, current];
}

export interface Output extends Writable {
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export type Style = Parameters<typeof styleText>[0];

/** Width and colours of an output. */
export interface Look {
  /** Width of the terminal; null for pipes and files, where nothing is cut. */
  readonly columns: number | null;
  readonly colour: boolean;
}

/** Colours are on for a terminal, unless NO_COLOR (see no-color.org) or TERM=dumb is set. */
export function lookOf(output: Output, env: NodeJS.ProcessEnv): Look {
  if (output.isTTY !== true) return { columns: null, colour: false };
  const noColour = (env['NO_COLOR'] ?? '') !== '' || env['TERM'] === 'dumb';
  return { columns: output.columns || 80, colour: !noColour };
}

/** Applies a colour or weight if colours are on. The text must be safe already. */
export function paint(style: Style, text: string, look: Look): string {
  return look.colour ? styleText(style, text, { validateStream: false }) : text;
}

const MARKS = {
  good: ['✓', 'green'],
  busy: ['…', 'green'],
  quiet: ['–', 'yellow'],
  warn: ['!', 'yellow'],
  bad: ['✗', 'red'],
} as const;

/** The mark at the beginning of a line, by how good or bad it is. */
export function markOf(tone: keyof typeof MARKS, look: Look): string {
  const [mark, style] = MARKS[tone];
  return paint(style, mark, look);
}

/** Formats a time in UTC for a column. On a terminal: the day, or the time of today. Elsewhere: both. */
export function momentCell(at: Date, now: Date, { columns }: Pick<Look, 'columns'>): string {
  const text = moment(at);
  if (columns === null) return text;
  const isToday = text.slice(0, 10) === moment(now).slice(0, 10);
  return isToday ? `${text.slice(11, 16)}Z` : text.slice(0, 10);
}
