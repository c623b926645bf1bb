import type { ChangeClass } from './changes.js';

/** A change to describe. */
interface ToldChange {
  readonly class: ChangeClass;
  /** A column of `mirror.items`, or `state`. */
  readonly field: string;
  readonly old: string | readonly string[] | null;
  readonly new: string | readonly string[] | null;
  /** Of a price: the item's currency before and after it. */
  readonly currencies?: {
    readonly old: string | null;
    readonly new: string | null;
  } | null;
}

/** A change in words. Texts are as the marketplace sent them; the caller escapes them for display. */
export type ChangeText =
  /** The state of the item: `added`, `missing`, `found again`, `removed`, `restored`. */
  | { readonly kind: 'state'; readonly word: string }
  /** Old and new value. */
  | {
      readonly kind: 'values';
      readonly label: string;
      readonly old: string;
      readonly new: string;
      readonly note: string | null;
    }
  /** Entries added to and removed from a list. */
  | {
      readonly kind: 'list';
      readonly label: string;
      readonly added: readonly string[];
      readonly removed: readonly string[];
      readonly note: string | null;
    };

const LABELS: Readonly<Record<string, string>> = {
  sub_category: 'subcategory',
  thumbnail_url: 'thumbnail',
  preview_image_url: 'preview image',
  preview_video_url: 'preview video',
  preview_audio_url: 'preview audio',
  price_regular: 'regular price',
  price_extended: 'extended price',
  demo_link: 'demo link',
  published_at: 'published',
};

/** Shown for an absent value. */
const NOTHING = '–';
/** Entries of a list that are shown; the others are counted. */
const MOST_PARTS = 5;

/** The name of a field for people. */
export function labelOf(field: string): string {
  return LABELS[field] ?? field;
}

/** Puts a change into words; texts are shortened to the part that differs, at most `width` characters each. */
export function describeChange(change: ToldChange, width: number): ChangeText {
  const { field, old, new: now } = change;
  const label = labelOf(field);
  if (field === 'state') return { kind: 'state', word: stateWord(change) };
  if (Array.isArray(old) || Array.isArray(now)) {
    const [before, after] = [listOf(old), listOf(now)];
    return field === 'screenshots' ? screenshots(before, after) : lists(label, before, after);
  }
  const [before, after] = [textOf(old), textOf(now)];
  if (change.class === 'price' && field !== 'currency') return price(label, change, before, after);
  if (change.class === 'media') return { kind: 'values', label, ...mediaNames(before, after) };
  if (field === 'published_at') return values(label, day(before), day(after));
  const texts = shortenDiff(before ?? NOTHING, after ?? NOTHING, width);
  return values(label, texts.old, texts.new);
}

function values(label: string, old: string | null, now: string | null): ChangeText {
  return { kind: 'values', label, old: old ?? NOTHING, new: now ?? NOTHING, note: null };
}

function stateWord({ class: kind, new: now }: ToldChange): string {
  if (kind === 'missing') return now === 'live' ? 'found again' : 'missing';
  return kind;
}

/** Shows an unchanged currency once. Has no percentage when the currency changes. */
function price(
  label: string,
  { currencies }: ToldChange,
  old: string | null,
  now: string | null,
): ChangeText {
  const [from, to] = [currencies?.old ?? null, currencies?.new ?? null];
  const changed = from !== to;
  const note =
    changed || old === null || now === null ? null : (percentChange(old, now)?.text ?? null);
  const oldText = withCurrency(old, changed || now === null ? from : null);
  return { kind: 'values', label, old: oldText, new: withCurrency(now, to), note };
}

function withCurrency(amount: string | null, currency: string | null): string {
  if (amount === null) return NOTHING;
  return currency === null ? amount : `${amount} ${currency}`;
}

function lists(label: string, before: readonly string[], after: readonly string[]): ChangeText {
  const { added, removed } = listDiff(before, after);
  const note = added.length + removed.length === 0 ? 'in another order' : null;
  return { kind: 'list', label, added: bounded(added), removed: bounded(removed), note };
}

function screenshots(before: readonly string[], after: readonly string[]): ChangeText {
  const label = 'screenshots';
  const { added, removed } = listDiff(before, after);
  if (added.length + removed.length === 0) {
    return { kind: 'list', label, added: [], removed: [], note: 'in another order' };
  }
  const count =
    before.length === after.length ? `${after.length}` : `${before.length} → ${after.length}`;
  const names = listDiff(added.map(fileName), removed.map(fileName));
  const [came, went] = [names.removed, names.added];
  if (came.length + went.length === 0) {
    return { kind: 'list', label, added: [], removed: [], note: `${count}, at other addresses` };
  }
  return { kind: 'list', label, added: bounded(came), removed: bounded(went), note: count };
}

function bounded(parts: readonly string[]): string[] {
  const shown = parts.slice(0, MOST_PARTS);
  const more = parts.length - shown.length;
  return more > 0 ? [...shown, `${more} more`] : shown;
}

/** Entries added to and removed from a list; an entry that occurs several times counts each time. */
export function listDiff(
  before: readonly string[],
  after: readonly string[],
): { readonly added: readonly string[]; readonly removed: readonly string[] } {
  const counts = new Map<string, number>();
  for (const part of before) counts.set(part, (counts.get(part) ?? 0) + 1);
  const added = after.filter((part) => {
    const left = counts.get(part) ?? 0;
    if (left > 0) counts.set(part, left - 1);
    return left === 0;
  });
  // Of equal entries, the last ones count as removed.
  const removed = before.toReversed().filter((part) => {
    const left = counts.get(part) ?? 0;
    if (left > 0) counts.set(part, left - 1);
    return left > 0;
  });
  return { added, removed: removed.toReversed() };
}

/** Two addresses, shortened to their file names, or to their hosts when these are equal. */
function mediaNames(
  old: string | null,
  now: string | null,
): { readonly old: string; readonly new: string; readonly note: string | null } {
  const [before, after] = [old, now].map((url) => (url === null ? NOTHING : fileName(url))) as [
    string,
    string,
  ];
  if (before !== after) return { old: before, new: after, note: null };
  const [from, to] = [hostOf(old), hostOf(now)];
  return from === to
    ? { old: before, new: after, note: 'at another address' }
    : { old: from, new: to, note: after };
}

/** The name of the file at an address; the address itself when it has none. */
export function fileName(url: string): string {
  const path = url.replace(/[?#].*$/s, '');
  return path.split('/').findLast((part) => part !== '') ?? url;
}

function hostOf(url: string | null): string {
  return url !== null && URL.canParse(url) ? new URL(url).host : NOTHING;
}

/** `2026-01-02T03:04:05Z` → `2026-01-02 03:04:05Z`. */
function day(at: string | null): string | null {
  return at?.replace('T', ' ') ?? null;
}

function listOf(value: ToldChange['old']): readonly string[] {
  if (value === null) return [];
  return typeof value === 'string' ? [value] : value;
}

function textOf(value: ToldChange['old']): string | null {
  return typeof value === 'string' ? value : null;
}

/** The change of an amount in percent. */
interface PercentChange {
  /** In percent, rounded to two decimals, halves away from zero: `-20.00`. */
  readonly exact: string;
  /** `+12.5 %`, `-20.0 %`. */
  readonly text: string;
}

/**
 * The exact change of an amount (decimal text) in percent. Null when the old amount is zero or one of
 * them is not an amount.
 */
export function percentChange(old: string, now: string): PercentChange | null {
  const [before, after] = [hundredths(old), hundredths(now)];
  if (before === null || after === null || before === 0n) return null;
  const base = before < 0n ? -before : before;
  const difference = after - before;
  const size = difference < 0n ? -difference : difference;
  /** In so many parts of a percent, rounded. */
  const inParts = (parts: bigint): bigint => (size * 200n * parts + base) / (2n * base);
  const [tenths, cents] = [inParts(10n), inParts(100n)];
  const fraction = String(cents % 100n).padStart(2, '0');
  return {
    exact: `${difference < 0n && cents > 0n ? '-' : ''}${cents / 100n}.${fraction}`,
    text: `${difference < 0n ? '-' : '+'}${tenths / 10n}.${tenths % 10n} %`,
  };
}

/** `12.5` → 1250n; null unless the text is an amount with at most two decimals. */
function hundredths(text: string): bigint | null {
  const parts = /^(-?)(\d+)(?:\.(\d{1,2})0*)?$/.exec(text);
  if (parts === null) return null;
  const [, sign = '', whole = '', fraction = ''] = parts;
  const size = BigInt(whole + fraction.padEnd(2, '0'));
  return sign === '' ? size : -size;
}

/** Two texts, each shortened to the part in which they differ. */
interface TextDiff {
  readonly old: string;
  readonly new: string;
}

/**
 * Shortens two texts to the words that differ with a few words around; … marks each cut. Each is at
 * most `width` characters (UTF-16 units) long, and no character is cut in half. Texts that differ stay
 * different when `width` is 16 or more.
 */
export function shortenDiff(old: string, now: string, width: number): TextDiff {
  if (old.length <= width && now.length <= width) return { old, new: now };
  const around = Math.floor(width / 4);
  const most = Math.floor(width / 3);
  const start = wordStart(old, commonStart(old, now), most);
  const end = commonEnd(old, now, start);
  const from = contextStart(old, start, around);
  const shorten = (text: string): string => {
    const to = contextEnd(text, text.length - end, around);
    const [before, after] = [from > 0 ? '…' : '', to < text.length ? '…' : ''];
    return bound(`${before}${text.slice(from, to)}${after}`, width);
  };
  return { old: shorten(old), new: shorten(now) };
}

function commonStart(a: string, b: string): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a.charCodeAt(n) === b.charCodeAt(n)) n++;
  return n;
}

/** Length of the common end, from the beginning of a word. */
function commonEnd(a: string, b: string, start: number): number {
  const most = Math.min(a.length, b.length) - start;
  let n = 0;
  while (n < most && a.charCodeAt(a.length - 1 - n) === b.charCodeAt(b.length - 1 - n)) n++;
  while (n > 0 && !isSpace(a, a.length - n)) n--;
  return n;
}

/** The beginning of the word around a place, at most `most` characters before it. */
function wordStart(text: string, place: number, most: number): number {
  let at = place;
  while (at > 0 && place - at < most && !isSpace(text, at - 1)) at--;
  return wholeCharacter(text, at);
}

/** The beginning of the words before a place that fit into `most` characters. */
function contextStart(text: string, place: number, most: number): number {
  if (place <= most) return 0;
  let at = place - most;
  while (at < place && !isSpace(text, at - 1)) at++;
  return wholeCharacter(text, at);
}

/** The end of the words after a place that fit into `most` characters. */
function contextEnd(text: string, place: number, most: number): number {
  if (text.length - place <= most) return text.length;
  let at = place + most;
  while (at > place && !isSpace(text, at)) at--;
  return wholeCharacter(text, at);
}

function bound(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, wholeCharacter(text, width - 1))}…`;
}

function isSpace(text: string, at: number): boolean {
  return /\s/.test(text.charAt(at));
}

/** The place, or the one before when it is in the middle of a pair of surrogates. */
function wholeCharacter(text: string, at: number): number {
  const isLow = (n: number): boolean => (text.charCodeAt(n) & 0xfc00) === 0xdc00;
  const isHigh = (n: number): boolean => (text.charCodeAt(n) & 0xfc00) === 0xd800;
  return at > 0 && at < text.length && isLow(at) && isHigh(at - 1) ? at - 1 : at;
}
