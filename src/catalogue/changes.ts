import { FIELD_CLASSES, ITEM_FIELDS, type FieldValue } from '../domain/item.js';
import { count } from '../domain/text.js';

/** People and feeds filter changes by these classes. */
export const CHANGE_CLASSES = [
  ...FIELD_CLASSES,
  'added',
  'missing',
  'removed',
  'restored',
] as const;
export type ChangeClass = (typeof CHANGE_CLASSES)[number];

/** One line for a field that changed in many items of a run. */
export interface ChangeFold {
  readonly runId: bigint;
  readonly sellerId: string;
  readonly changedAt: Date;
  readonly class: ChangeClass;
  readonly field: string;
  /** The old and new value, if they are the same for all items; otherwise null. */
  readonly same: {
    readonly old: FieldValue;
    readonly new: FieldValue;
  } | null;
  /** Changed items. */
  readonly items: number;
  /** All items of the seller. */
  readonly of: number;
  /** Number of the last of these changes: the line is shown there. */
  readonly place: bigint;
}

/** Up to this many changes are shown one by one. */
export const FEW_CHANGES = 20;

/** If a field changed in this percentage of items, the whole catalogue changed. */
const WIDE_PERCENT = 90;

/** A field that changed in all or nearly all items at once. */
export interface WideChange {
  readonly field: string;
  readonly items: number;
  /** Listed items that the mirror already had. */
  readonly of: number;
}

/** `price_regular changed in all 225 items`. */
export function describeWide({ field, items, of }: WideChange): string {
  return items >= of
    ? `${field} changed in all ${count(of)} items`
    : `${field} changed in ${count(items)} of ${count(of)} items`;
}

/** Finds changes such as a new currency, a sale or a new image host. @param compared listed items known before */
export function wideChanges(changed: ReadonlyMap<string, number>, compared: number): WideChange[] {
  return ITEM_FIELDS.map(({ column }) => {
    return { field: column, items: changed.get(column) ?? 0, of: compared };
  }).filter(({ items }) => items > 1 && items * 100 >= compared * WIDE_PERCENT);
}

interface FieldChange {
  readonly class: ChangeClass;
  /** A column of `mirror.items`, or `state`. */
  readonly field: string;
  readonly old: FieldValue;
  readonly new: FieldValue;
  /** For a price: the item's currency before and after the change. */
  readonly currencies?: { readonly old: string | null; readonly new: string | null } | null;
}

const LABELS: Readonly<Record<string, string>> = {
  sub_category: 'subcategory',
  published_at: 'published',
  price_regular: 'regular price',
  price_extended: 'extended price',
};

const TYPES = new Map(ITEM_FIELDS.map(({ column, type }) => [column, type]));

const NO_VALUE = '–';
/** More entries of a list are only counted. */
const MAX_ENTRIES = 5;

export function fieldLabel(field: string): string {
  return LABELS[field] ?? field.replace(/_url$/, '').replaceAll('_', ' ');
}

/**
 * A change as one line: `removed`, `+new −old` for a list, or `10.00 → 8.00 USD (-20.0 %)`. Texts come from the
 * marketplace unescaped; the caller must escape them. They are cut to the part that differs.
 * @param width most characters of each text
 */
export function changeText(change: FieldChange, width: number): string {
  const { field, old, new: now } = change;
  if (field === 'state') return stateWord(change);
  if (Array.isArray(old) || Array.isArray(now)) return lists(change);
  const [before, after] = [textOf(old), textOf(now)];
  const type = TYPES.get(field);
  if (type === 'money') return price(change, before, after);
  if (type === 'time') return arrow(day(before), day(after));
  if (change.class === 'media') return media(before, after);
  const texts = shortenDiff(before ?? NO_VALUE, after ?? NO_VALUE, width);
  return arrow(texts.old, texts.new);
}

function arrow(old: string | null, now: string | null, note: string | null = null): string {
  const [before, after] = [old ?? NO_VALUE, now ?? NO_VALUE];
  const looksSame = visible(before) === visible(after);
  return noted(
    `${before} → ${after}`,
    note ?? (looksSame ? 'differs in invisible characters' : null),
  );
}

function noted(text: string, note: string | null): string {
  return note === null ? text : `${text} (${note})`.trimStart();
}

function visible(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, '').replaceAll(/\s+/g, ' ');
}

function stateWord({ class: kind, new: now }: FieldChange): string {
  if (kind === 'missing') return now === 'live' ? 'found again' : 'missing';
  return kind;
}

/** Shows an unchanged currency once, and a percentage only if the currency is unchanged. */
function price({ currencies }: FieldChange, old: string | null, now: string | null): string {
  const [from, to] = [currencies?.old ?? null, currencies?.new ?? null];
  const isSame = from === to;
  const percent = isSame && old !== null && now !== null ? percentChange(old, now) : null;
  const oldText = withCurrency(old, isSame && now !== null ? null : from);
  return arrow(oldText, withCurrency(now, to), percent?.text);
}

function withCurrency(amount: string | null, currency: string | null): string | null {
  return amount === null || currency === null ? amount : `${amount} ${currency}`;
}

function lists({ class: kind, old, new: now }: FieldChange): string {
  const [before, after] = [listOf(old), listOf(now)];
  const { added, removed } = listDiff(before, after);
  if (added.length + removed.length === 0) return noted('', 'in another order');
  if (kind !== 'media') return entries(added, removed);
  // Screenshots are shown by file name and count.
  const { length } = after;
  const number = before.length === length ? `${length}` : `${before.length} → ${length}`;
  const names = listDiff(removed.map(fileName), added.map(fileName));
  const isMoved = names.added.length + names.removed.length === 0;
  const note = isMoved ? `${number}, at other addresses` : number;
  return noted(entries(names.added, names.removed), note);
}

function entries(added: readonly string[], removed: readonly string[]): string {
  return [...signed('+', added), ...signed('−', removed)].join(' ');
}

function signed(sign: string, all: readonly string[]): readonly string[] {
  const more = all.length - MAX_ENTRIES;
  const shown = more > 0 ? [...all.slice(0, MAX_ENTRIES), `${more} more`] : all;
  return shown.map((entry) => `${sign}${entry}`);
}

/** Entries added to and removed from a list. Repeated entries count each time. */
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
  // Among equal entries, the last ones count as removed.
  const removed = before.toReversed().filter((part) => {
    const left = counts.get(part) ?? 0;
    if (left > 0) counts.set(part, left - 1);
    return left > 0;
  });
  return { added, removed: removed.toReversed() };
}

/** Shows two addresses by file name or, if the file names are equal, by host. */
function media(old: string | null, now: string | null): string {
  const [before, after] = [old && fileName(old), now && fileName(now)];
  if (before !== after) return arrow(before, after);
  const [from, to] = [hostOf(old), hostOf(now)];
  return from === to ? arrow(before, after, 'at another address') : arrow(from, to, after);
}

/** The file name in an address; the whole address if it has none. */
export function fileName(url: string): string {
  const path = url.replace(/[?#].*$/s, '');
  return path.split('/').findLast((part) => part !== '') ?? url;
}

function hostOf(url: string | null): string | null {
  return url !== null && URL.canParse(url) ? new URL(url).host : null;
}

/** `2026-01-02T03:04:05Z` → `2026-01-02 03:04:05Z`. */
function day(at: string | null): string | null {
  return at?.replace('T', ' ') ?? null;
}

function listOf(value: FieldValue): readonly string[] {
  return typeof value === 'object' ? (value ?? []) : [String(value)];
}

function textOf(value: FieldValue): string | null {
  return typeof value === 'object' ? null : String(value);
}

/** @returns `exact`, such as `-20.00`, and `text`, such as `+12.5 %`; null if the old amount is zero */
export function percentChange(
  old: string,
  now: string,
): { readonly exact: string; readonly text: string } | null {
  const [before, after] = [hundredths(old), hundredths(now)];
  if (before === null || after === null || before === 0n) return null;
  const base = before < 0n ? -before : before;
  const difference = after - before;
  const size = difference < 0n ? -difference : difference;
  /** The change in 1/`parts` of a percent, rounded. */
  const inParts = (parts: bigint): bigint => (size * 200n * parts + base) / (2n * base);
  const [tenths, cents] = [inParts(10n), inParts(100n)];
  const fraction = String(cents % 100n).padStart(2, '0');
  return {
    exact: `${difference < 0n && cents > 0n ? '-' : ''}${cents / 100n}.${fraction}`,
    text: `${difference < 0n ? '-' : '+'}${tenths / 10n}.${tenths % 10n} %`,
  };
}

/** `12.5` → 1250n; null if the text is not an amount with at most two decimals. */
function hundredths(text: string): bigint | null {
  const parts = /^(-?)(\d+)(?:\.(\d{1,2})0*)?$/.exec(text);
  if (parts === null) return null;
  const [, sign = '', whole = '', fraction = ''] = parts;
  const size = BigInt(whole + fraction.padEnd(2, '0'));
  return sign === '' ? size : -size;
}

/**
 * Shortens two texts to `width` UTF-16 units around their first difference; … marks each cut. No character is cut in
 * half. Different texts stay different if `width` is at least 16.
 */
export function shortenDiff(
  old: string,
  now: string,
  width: number,
): { readonly old: string; readonly new: string } {
  if (old.length <= width && now.length <= width) return { old, new: now };
  let start = 0;
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start++;
  const from = wholeCharacter(old, Math.max(0, start - Math.floor(width / 4)));
  const shorten = (text: string): string => {
    const shown = `${from > 0 ? '…' : ''}${text.slice(from)}`;
    return shown.length <= width ? shown : `${shown.slice(0, wholeCharacter(shown, width - 1))}…`;
  };
  return { old: shorten(old), new: shorten(now) };
}

/** The index, moved back by one if it would split a surrogate pair. */
function wholeCharacter(text: string, at: number): number {
  return /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(Math.max(0, at - 1), at + 1))
    ? at - 1
    : at;
}
