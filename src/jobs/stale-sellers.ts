import type { Freshness } from '../store/freshness.js';
import type { Store } from '../store/store.js';
import type { Alert } from './alerts.js';

/** An alert of kind `copy-stale`. */
export type StaleAlert = Extract<Alert, { readonly kind: 'copy-stale' }>;

/**
 * Of the given sellers, those whose items were last mirrored longer ago than they may. Each alert
 * names that last success and so is the same every time as long as it is about the same staleness.
 * @param staleAfterHours oldest a copy may be
 */
export async function findStaleSellers(
  store: Pick<Store, 'freshness'>,
  sellers: readonly string[],
  staleAfterHours: number,
  now: Date,
): Promise<readonly StaleAlert[]> {
  const all = await store.freshness();
  return all
    .filter((one) => sellers.includes(one.sellerId) && isStale(one, staleAfterHours, now))
    .map(({ sellerId: seller, itemsMirroredAt }) => ({
      kind: 'copy-stale',
      seller,
      since: itemsMirroredAt?.toISOString() ?? null,
    }));
}

/** A parked seller's copy grows old for a reason that people were told of when it was parked. */
function isStale({ parked, itemsMirroredAt, since }: Freshness, hours: number, now: Date): boolean {
  if (parked) return false;
  return now.getTime() - (itemsMirroredAt ?? since).getTime() > hours * 3_600_000;
}
