import type { KnownCode } from './known-code.js';
import { mergePurchase, type PurchaseReading } from './purchase.js';
import { transitionsOf, type CodeTransition } from './transition.js';

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
