import type { Json, Purchase, PurchasedItem } from '../item.js';
import { isObject, readsAsTimestamp } from '../values.js';

/** A purchase as read, beside the JSON it was read from: a field that is null may not have been sent. */
export interface PurchaseReading {
  readonly value: Purchase;
  readonly raw: Json;
}

/** Whether a purchase is supported at a moment; `none` also where nothing is known of it. */
export type Support = 'active' | 'expired' | 'none';

/**
 * What a new answer says replaces what was known; what it leaves out is kept, since shapes may be reduced
 * (spec 2.5). Support is taken away only where the field is there and empty.
 */
export function mergePurchase(known: Purchase | null, { value, raw }: PurchaseReading): Purchase {
  if (known === null) return value;
  const saysSupport =
    isObject(raw) && 'supported_until' in raw && readsAsTimestamp(raw['supported_until']);
  return {
    ...known,
    ...told(value),
    item: mergeItem(known.item, value.item),
    supportedUntil: saysSupport ? value.supportedUntil : known.supportedUntil,
  };
}

/** The fields that are not null. */
function told<T extends object>(value: T): Partial<T> {
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(fields) as Partial<T>;
}

/**
 * Two items are never mixed. Where there is no telling whether it is another, what was known is kept, unless
 * that is no more than an address.
 */
function mergeItem(known: PurchasedItem | null, fresh: PurchasedItem | null): PurchasedItem | null {
  if (fresh === null) return known;
  if (known === null) return fresh;
  const same = areSame(known, fresh);
  if (same === null) return known.id === null && known.name === null ? fresh : known;
  return same ? { ...known, ...told(fresh) } : fresh;
}

/** By their ids or, where one is missing, their names; null where neither can be compared. */
function areSame(a: PurchasedItem, b: PurchasedItem): boolean | null {
  if (a.id !== null && b.id !== null) return a.id === b.id;
  return a.name === null || b.name === null ? null : a.name === b.name;
}

/** @param now milliseconds since 1970 */
export function supportAt(
  { supportedUntil }: Pick<Purchase, 'supportedUntil'>,
  now: number,
): Support {
  if (supportedUntil === null) return 'none';
  return Date.parse(supportedUntil) > now ? 'active' : 'expired';
}

type TransitionKind =
  /** Was valid: probably refunded or cancelled (field notes: errors). */
  | 'became-invalid'
  | 'became-valid'
  | 'license-changed'
  | 'price-changed'
  | 'item-changed'
  | 'support-extended'
  | 'support-shortened'
  /** Time has passed; nobody changed anything. */
  | 'support-expired';

export interface CodeTransition {
  readonly kind: TransitionKind;
  readonly from: string | null;
  readonly to: string | null;
}

/**
 * Purchases are those that are known, reduced answers filled up from earlier ones, so that a shape that says
 * less is no change.
 */
function transitionsOf(before: KnownCode | null, now: KnownCode): readonly CodeTransition[] {
  if (before === null) return [];
  const out: CodeTransition[] = [];
  if (before.verdict !== now.verdict) {
    const kind = now.verdict === 'invalid' ? 'became-invalid' : 'became-valid';
    out.push({ kind, from: before.verdict, to: now.verdict });
  }
  if (now.verdict === 'valid' && before.purchase !== null && now.purchase !== null) {
    out.push(...purchaseTransitions(before.purchase, now.purchase));
    // Support may have ended between the two checks.
    const hasExpired =
      supportAt(before.purchase, before.checkedAt) === 'active' &&
      supportAt(now.purchase, now.checkedAt) === 'expired';
    if (hasExpired) out.push({ kind: 'support-expired', from: 'active', to: 'expired' });
  }
  return out;
}

type Value = (purchase: Purchase) => string | null;

/**
 * Values whose change is told. Letter case is no change: licences pass through the site's translation
 * table, and a currency is the same however its code is written.
 */
const COMPARED: readonly (readonly [TransitionKind, Value])[] = [
  ['license-changed', ({ licenseType }) => licenseType],
  ['price-changed', priceOf],
  ['item-changed', itemOf],
];

function purchaseTransitions(before: Purchase, now: Purchase): CodeTransition[] {
  const changed = COMPARED.flatMap(([kind, valueOf]) => {
    const [from, to] = [valueOf(before), valueOf(now)];
    // To learn a value is not to see it change.
    return from === null || to === null || isSameWord(from, to) ? [] : [{ kind, from, to }];
  });
  return [...changed, ...supportChange(before, now)];
}

/**
 * A purchase without an end of support had none only if the full shape has been seen of it: reduced
 * ones never tell (field notes: reduced shapes).
 */
function supportChange(before: Purchase, now: Purchase): CodeTransition[] {
  const [from, to] = [before.supportedUntil, now.supportedUntil];
  const wasTold = from !== null || (before.item?.full ?? null) !== null;
  if (from === to || !wasTold) return [];
  const kind = untilOf(now) > untilOf(before) ? 'support-extended' : 'support-shortened';
  return [{ kind, from, to }];
}

function untilOf({ supportedUntil }: Purchase): number {
  return supportedUntil === null ? -Infinity : Date.parse(supportedUntil);
}

function priceOf({ price, currency }: Purchase): string | null {
  return price === null ? null : [price, currency].filter((part) => part !== null).join(' ');
}

function itemOf({ item }: Purchase): string | null {
  return item === null || item.id === null ? null : String(item.id);
}

function isSameWord(a: string, b: string): boolean {
  return a.trim().toLowerCase() === b.trim().toLowerCase();
}

/** What the mirror holds of a code. A code that was never proven is not known. */
export interface KnownCode {
  readonly verdict: 'valid' | 'invalid';
  /** The last purchase seen, kept when the code becomes invalid; null when there never was one. */
  readonly purchase: Purchase | null;
  /** When the verdict was last proven, milliseconds since 1970. */
  readonly checkedAt: number;
}

export type NewVerdict =
  | { readonly verdict: 'valid'; readonly purchase: PurchaseReading }
  | { readonly verdict: 'invalid' | 'unproven' };

export interface KnownCodeUpdate {
  /** Null when nothing is known still. */
  readonly known: KnownCode | null;
  readonly transitions: readonly CodeTransition[];
}

/**
 * An unproven judgement changes nothing, nor does one older than what is known: of two audits the later wins.
 * @param at when the code was answered or denied, milliseconds since 1970
 */
export function updateKnownCode(
  before: KnownCode | null,
  news: NewVerdict,
  at: number,
): KnownCodeUpdate {
  const isOlder = before !== null && at < before.checkedAt;
  if (news.verdict === 'unproven' || isOlder) return { known: before, transitions: [] };
  const purchase =
    news.verdict === 'valid'
      ? mergePurchase(before?.purchase ?? null, news.purchase)
      : (before?.purchase ?? null);
  const known: KnownCode = { verdict: news.verdict, purchase, checkedAt: at };
  return { known, transitions: transitionsOf(before, known) };
}
