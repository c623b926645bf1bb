import type { ChangeClass } from './changes.js';
import { percentChange } from './percent.js';
import { shortenDiff } from './text-diff.js';

/** What there is to know of a change to tell it. */
export interface ToldChange {
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

/** A change in words. Texts are as the marketplace sent them: whoever shows them makes them safe. */
export type ChangeText =
  /** Of the item as a whole: `new`, `missing`, `found again`, `removed`, `restored`. */
  | { readonly kind: 'state'; readonly word: string }
  /** Old and new value. `same` when they differ only in what was left out. */
  | {
      readonly kind: 'values';
      readonly label: string;
      readonly old: string;
      readonly new: string;
      readonly note: string | null;
    }
  /** Parts of a list that came and went. */
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

/** Where there is nothing. */
const NOTHING = '–';
/** More parts of a list than these are counted. */
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

/** A currency is told once when it is the same; a change of currency is no change in percent. */
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

/** What came to a list and what left it; parts that occur several times count as often. */
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
  // Of equal parts, those at the end are the ones that left.
  const removed = before.toReversed().filter((part) => {
    const left = counts.get(part) ?? 0;
    if (left > 0) counts.set(part, left - 1);
    return left > 0;
  });
  return { added, removed: removed.toReversed() };
}

/** Two addresses by what tells them apart: the names of the files, or else the hosts. */
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
