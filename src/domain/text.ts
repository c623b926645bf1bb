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

const COUNT = new Intl.NumberFormat('en');

/** `2,000` */
export function count(number: number | bigint): string {
  return COUNT.format(number);
}

/** A count with its noun: `1 item`, `2,000 items`. */
export function plural(number: number | bigint, one: string, many = `${one}s`): string {
  return `${count(number)} ${Number(number) === 1 ? one : many}`;
}

const ONE_DIGIT = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

/** Formats bytes in decimal units: 1500 → `1.5 kB`. */
export function bytes(number: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = number;
  let unit = 0;
  // From 999.95 on, rounding would give 1,000 of the unit.
  while (Math.abs(value) >= (unit === 0 ? 1000 : 999.95) && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${ONE_DIGIT.format(value)} ${units[unit]}`;
}

/** `1,234.50 USD`; a dash without an amount. */
export function money(
  amount: { toFixed(digits: number): string } | string | null,
  currency: string | null,
): string {
  if (amount === null) return '–';
  const text = typeof amount === 'string' ? amount : amount.toFixed(2);
  const [whole = '', cents = '00'] = text.split('.');
  const grouped = whole.replace(/\B(?=(?:\d{3})+$)/g, ',');
  return [`${grouped}.${cents}`, currency].filter(Boolean).join(' ');
}

/** Formats milliseconds in one or two units: `0.04 s`, `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function duration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 95) return `${Math.ceil(ms / 10) / 100} s`;
  if (ms < 9950) return `${ONE_DIGIT.format(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const two = (number: number, of: number, large: string, small: string): string => {
    const rest = number % of === 0 ? '' : ` ${number % of} ${small}`;
    return `${count(Math.floor(number / of))} ${large}${rest}`;
  };
  if (seconds < 3600) return two(seconds, 60, 'min', 's');
  const minutes = Math.round(seconds / 60);
  if (minutes < 24 * 60) return two(minutes, 60, 'h', 'min');
  return two(Math.round(minutes / 60), 24, 'd', 'h');
}

/** A length in one unit, for ages: `20 s`, `12 min`, `47 h`, `5 d`, `9 years`. */
export function roughly(ms: number): string {
  const seconds = Math.floor(Math.abs(ms) / 1000);
  const days = Math.floor(seconds / 86_400);
  const years = Math.floor(days / 365.25);
  if (years >= 2) return `${years} years`;
  if (days >= 2) return `${days} d`;
  const [unit, length] = seconds < 60 ? ['s', 1] : seconds < 3600 ? ['min', 60] : ['h', 3600];
  return `${Math.floor(seconds / length)} ${unit}`;
}

/** Formats how long ago something was: `just now`, `12 min ago`, `3 h ago`, `9 years ago`; or `in 3 h`. */
export function age(at: Date, now: Date): string {
  const ms = now.getTime() - at.getTime();
  if (Math.abs(ms) < 5_000) return 'just now';
  return ms < 0 ? `in ${roughly(ms)}` : `${roughly(ms)} ago`;
}
