import type { Purchase } from '../item.js';
import { mergePurchase, supportAt, type PurchaseReading } from './purchase.js';

/** What can happen to a code between two checks. */
export type TransitionKind =
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

/** One entry of the feed: what happened, with the value before and the value after. */
export interface CodeTransition {
  readonly kind: TransitionKind;
  readonly from: string | null;
  readonly to: string | null;
}

/**
 * How a code came to be what it is now; nothing where nothing was known of it. The purchases are
 * those that are known, reduced answers filled up from earlier ones, so that a shape that says less
 * is no change.
 */
export function transitionsOf(before: KnownCode | null, now: KnownCode): readonly CodeTransition[] {
  if (before === null) return [];
  const out: CodeTransition[] = [];
  if (before.verdict !== now.verdict) {
    const kind = now.verdict === 'invalid' ? 'became-invalid' : 'became-valid';
    out.push({ kind, from: before.verdict, to: now.verdict });
  }
  if (now.verdict === 'valid' && before.purchase !== null && now.purchase !== null) {
    out.push(...purchaseTransitions(before.purchase, now.purchase));
    out.push(...expiry(before.purchase, before.checkedAt, now.purchase, now.checkedAt));
  }
  return out;
}

function purchaseTransitions(before: Purchase, now: Purchase): CodeTransition[] {
  const changes: readonly (readonly [TransitionKind, string | null, string | null])[] = [
    // Letter case is no change: licences pass through the site's translation table, and a currency
    // is the same however its code is written.
    ...changed('license-changed', before.licenseType, now.licenseType, isSameWord),
    ...changed('price-changed', priceOf(before), priceOf(now), isSameWord),
    ...changed('item-changed', itemOf(before), itemOf(now)),
    ...supportChange(before, now),
  ];
  return changes.map(([kind, from, to]) => ({ kind, from, to }));
}

/** None where nothing was known before: to learn a value is not to see it change. */
function changed(
  kind: TransitionKind,
  from: string | null,
  to: string | null,
  isSame: (a: string, b: string) => boolean = (a, b) => a === b,
): [TransitionKind, string | null, string | null][] {
  return from === null || to === null || isSame(from, to) ? [] : [[kind, from, to]];
}

/**
 * A purchase without an end of support had none only if the full shape has been seen of it: reduced
 * ones never tell (field notes: reduced shapes).
 */
function supportChange(
  before: Purchase,
  now: Purchase,
): [TransitionKind, string | null, string | null][] {
  const [from, to] = [before.supportedUntil, now.supportedUntil];
  const wasTold = from !== null || (before.item?.full ?? null) !== null;
  if (from === to || !wasTold) return [];
  return [[untilOf(now) > untilOf(before) ? 'support-extended' : 'support-shortened', from, to]];
}

/** The end of support that has passed between two checks, if one has. */
function expiry(
  before: Purchase,
  checkedAt: number,
  now: Purchase,
  checkedNow: number,
): CodeTransition[] {
  const hasExpired =
    supportAt(before, checkedAt) === 'active' && supportAt(now, checkedNow) === 'expired';
  return hasExpired ? [{ kind: 'support-expired', from: 'active', to: 'expired' }] : [];
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

/** What a judgement says of a code, with the purchase where there is one. */
export type CodeNews =
  | { readonly verdict: 'valid'; readonly purchase: PurchaseReading }
  | { readonly verdict: 'invalid' | 'unproven' };

/** What is known of a code from now on, and how it came to differ from before. */
export interface Settlement {
  /** Null when nothing is known still. */
  readonly known: KnownCode | null;
  readonly transitions: readonly CodeTransition[];
}

/**
 * What becomes of the known state of a code. An unproven judgement changes nothing, and neither does
 * one older than what is known, so that of two audits the later answer wins.
 * @param at when the code was answered or denied, milliseconds since 1970
 */
export function settle(before: KnownCode | null, news: CodeNews, at: number): Settlement {
  const isOlder = before !== null && at < before.checkedAt;
  if (news.verdict === 'unproven' || isOlder) return { known: before, transitions: [] };
  const purchase =
    news.verdict === 'valid'
      ? mergePurchase(before?.purchase ?? null, news.purchase)
      : (before?.purchase ?? null);
  const known: KnownCode = { verdict: news.verdict, purchase, checkedAt: at };
  return { known, transitions: transitionsOf(before, known) };
}
