import { storableJsonText } from '../db/stored-text.js';
import type { Json, Purchase, PurchasedItem } from '../domain/item.js';
import { isObject, readsAsTimestamp } from '../domain/values.js';
import type { Sourced } from '../marketplace/types.js';
import type { Verdict } from './rules.js';

/** A purchase as the store keeps it: of a full item, only that it was full. */
export interface KnownPurchase extends Omit<Purchase, 'item' | 'isSupportUnknown'> {
  readonly item: KnownItem | null;
  /** True: the marketplace sent an end of support that can't be read. */
  readonly isSupportUnknown: boolean;
}
type KnownItem = Omit<PurchasedItem, 'full'> & { readonly full: boolean };

/** `none`: no support, or none known. `unknown`: its end can't be read. */
export type Support = 'active' | 'expired' | 'none' | 'unknown';

/** A purchase that an answer brought, without what the store does not keep: thousands may wait for their proof. */
export interface FoundPurchase {
  readonly value: KnownPurchase;
  /** Whether the answer says until when there is support, also if it says that there is none. */
  readonly hasSupport: boolean;
  /** The purchase as received, as JSON that can be stored; null if it is too large. */
  readonly raw: string | null;
  /** SHA-256 of the answer, in hexadecimal digits. */
  readonly sha256: string;
}

/** Keeps of an answer what the store keeps. Its item goes if its id identifies it in the mirror. */
export function foundPurchase({
  value,
  raw,
  sha256,
}: Pick<Sourced<Purchase>, 'value' | 'raw' | 'sha256'>): FoundPurchase {
  const { item, isSupportUnknown = false, ...rest } = value;
  const known = item && { ...item, full: item.full !== null };
  const sent = isObject(raw) && 'supported_until' in raw ? raw['supported_until'] : undefined;
  return {
    value: { ...rest, item: known, isSupportUnknown },
    hasSupport: sent !== undefined && readsAsTimestamp(sent),
    raw: storableJsonText((known?.id ?? null) === null ? raw : withoutItem(raw)),
    sha256,
  };
}

/** A million purchases share few items. */
function withoutItem(raw: Json): Json {
  if (!isObject(raw)) return raw;
  const { item: _, ...rest } = raw;
  return rest;
}

/**
 * Updates the known purchase with a new answer. Fields that the answer leaves out are kept, because shapes
 * may be reduced (API 2.5). Support ends only if the answer has the field and it is empty.
 */
export function mergePurchase(
  known: KnownPurchase | null,
  { value, hasSupport }: Pick<FoundPurchase, 'value' | 'hasSupport'>,
): KnownPurchase {
  if (known === null) return value;
  return {
    ...known,
    ...withoutNulls(value),
    item: mergeItem(known.item, value.item),
    supportedUntil: hasSupport ? value.supportedUntil : known.supportedUntil,
    isSupportUnknown: value.isSupportUnknown || (!hasSupport && known.isSupportUnknown),
  };
}

function withoutNulls<T extends object>(value: T): Partial<T> {
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(fields) as Partial<T>;
}

/**
 * Never mixes two items. If ids and names can't tell whether both are the same item, the known one is kept,
 * unless nothing but its address is known.
 */
function mergeItem(known: KnownItem | null, fresh: KnownItem | null): KnownItem | null {
  if (fresh === null) return known;
  if (known === null) return fresh;
  const same = areSame(known, fresh);
  if (same === null) return known.id === null && known.name === null ? fresh : known;
  return same ? { ...known, ...withoutNulls(fresh), full: known.full || fresh.full } : fresh;
}

/** Compares ids or, if one is missing, names; null if neither can be compared. */
function areSame(a: KnownItem, b: KnownItem): boolean | null {
  if (a.id !== null && b.id !== null) return a.id === b.id;
  return a.name === null || b.name === null ? null : a.name === b.name;
}

/** @param now milliseconds since 1970 */
export function supportAt(
  { supportedUntil, isSupportUnknown }: Pick<KnownPurchase, 'supportedUntil' | 'isSupportUnknown'>,
  now: number,
): Support {
  if (isSupportUnknown) return 'unknown';
  if (supportedUntil === null) return 'none';
  return Date.parse(supportedUntil) > now ? 'active' : 'expired';
}

type TransitionKind =
  /** Refunded, reversed, or the buyer’s account is closed: servers answer the same (servers: errors). */
  | 'became-invalid'
  | 'became-valid'
  | 'license-changed'
  | 'price-changed'
  | 'item-changed'
  /** The buyer has downloaded the item. */
  | 'downloaded'
  | 'support-extended'
  | 'support-shortened'
  /** Its end date has passed between two checks. */
  | 'support-expired';

interface CodeTransition {
  readonly kind: TransitionKind;
  readonly from: string | null;
  readonly to: string | null;
}

/** Compares merged purchases, so that a reduced answer does not look like a change. */
function transitionsOf(before: KnownCode | null, now: KnownCode): readonly CodeTransition[] {
  if (before === null) return [];
  const out: CodeTransition[] = [];
  if (before.verdict !== now.verdict) {
    const kind = now.verdict === 'valid' ? 'became-valid' : 'became-invalid';
    out.push({ kind, from: before.verdict, to: now.verdict });
  }
  if (now.verdict === 'valid' && before.purchase !== null && now.purchase !== null) {
    out.push(...purchaseTransitions(before.purchase, now.purchase));
    const hasExpired =
      supportAt(before.purchase, before.checkedAt) === 'active' &&
      supportAt(now.purchase, now.checkedAt) === 'expired';
    if (hasExpired) out.push({ kind: 'support-expired', from: 'active', to: 'expired' });
  }
  return out;
}

type Value = (purchase: KnownPurchase) => string | null;

/**
 * Values whose change is a transition. Letter case does not count: licences pass through the site's
 * translation table, and currency codes mean the same in any case.
 */
const COMPARED: readonly (readonly [TransitionKind, Value])[] = [
  ['license-changed', ({ licenseType }) => licenseType],
  ['price-changed', priceOf],
  ['item-changed', itemOf],
];

function purchaseTransitions(before: KnownPurchase, now: KnownPurchase): CodeTransition[] {
  const changed = COMPARED.flatMap(([kind, valueOf]) => {
    const [from, to] = [valueOf(before), valueOf(now)];
    // A value that was unknown before has not changed.
    return from === null || to === null || isSameWord(from, to) ? [] : [{ kind, from, to }];
  });
  const downloaded: CodeTransition[] =
    before.downloaded === false && now.downloaded === true
      ? [{ kind: 'downloaded', from: 'no', to: 'yes' }]
      : [];
  return [...changed, ...downloaded, ...supportChange(before, now)];
}

/**
 * A missing end of support means "no support" only if the full shape was seen: reduced shapes never have it
 * (servers: shapes).
 */
function supportChange(before: KnownPurchase, now: KnownPurchase): CodeTransition[] {
  const [from, to] = [before.supportedUntil, now.supportedUntil];
  const wasKnown = from !== null || before.item?.full === true;
  if (from === to || !wasKnown) return [];
  const kind = untilOf(now) > untilOf(before) ? 'support-extended' : 'support-shortened';
  return [{ kind, from, to }];
}

function untilOf({ supportedUntil }: KnownPurchase): number {
  return supportedUntil === null ? -Infinity : Date.parse(supportedUntil);
}

function priceOf({ price, currency }: KnownPurchase): string | null {
  return price === null ? null : [price, currency].filter((part) => part !== null).join(' ');
}

function itemOf({ item }: KnownPurchase): string | null {
  return item === null || item.id === null ? null : String(item.id);
}

function isSameWord(a: string, b: string): boolean {
  return a.trim().toLowerCase() === b.trim().toLowerCase();
}

/** What the mirror knows about a code that has a proven verdict. */
export interface KnownCode {
  readonly verdict: Exclude<Verdict, 'unproven'>;
  /** The last purchase seen, kept when the code becomes invalid; null if there never was one. */
  readonly purchase: KnownPurchase | null;
  /** When the verdict was last proven, milliseconds since 1970. */
  readonly checkedAt: number;
}

export type NewVerdict =
  | { readonly verdict: 'valid'; readonly purchase: FoundPurchase }
  | { readonly verdict: 'invalid' | 'unproven' };

export interface KnownCodeUpdate {
  /** Null if the code is still unknown. */
  readonly known: KnownCode | null;
  readonly transitions: readonly CodeTransition[];
}

/**
 * Applies a new verdict to a code. An unproven one changes nothing, nor does one older than the last check.
 * @param at when the code was answered or denied, milliseconds since 1970
 */
export function updateKnownCode(
  before: KnownCode | null,
  result: NewVerdict,
  at: number,
): KnownCodeUpdate {
  const isOlder = before !== null && at < before.checkedAt;
  if (result.verdict === 'unproven' || isOlder) return { known: before, transitions: [] };
  const purchase =
    result.verdict === 'valid'
      ? mergePurchase(before?.purchase ?? null, result.purchase)
      : (before?.purchase ?? null);
  // Whatever has a purchase was valid once.
  const verdict =
    result.verdict === 'invalid' && purchase !== null ? 'no_longer_valid' : result.verdict;
  const known: KnownCode = { verdict, purchase, checkedAt: at };
  return { known, transitions: transitionsOf(before, known) };
}
