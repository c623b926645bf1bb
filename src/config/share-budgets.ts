import { hostName } from '../domain/address.js';
import type { Findings } from './problems.js';
import type { SellerConfig } from './types.js';

/**
 * Sellers of one host share its budget, so the strictest of their limits holds for all of them.
 */
export function shareBudgets(
  sellers: readonly SellerConfig[],
  findings: Findings,
): readonly SellerConfig[] {
  const limits = new Map<string, number>();
  const strictness = (limit: number): number => (limit === 0 ? Infinity : limit);
  for (const { url, requestsPerMinute } of sellers) {
    const known = limits.get(hostName(url));
    if (known === undefined || strictness(requestsPerMinute) < strictness(known)) {
      limits.set(hostName(url), requestsPerMinute);
    }
  }
  return sellers.map((seller) => {
    const limit = limits.get(hostName(seller.url)) ?? seller.requestsPerMinute;
    if (limit === seller.requestsPerMinute) return seller;
    findings.warn({
      where: 'SELLERS_FILE requestsPerMinute',
      value: String(seller.requestsPerMinute),
      what: `of ${seller.name} is lowered to ${limit}`,
      remedy: `all sellers of ${seller.url.host} share one budget; give them the same number`,
    });
    return { ...seller, requestsPerMinute: limit };
  });
}
