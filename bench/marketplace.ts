import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  seededCatalogue,
  seededPurchases,
  startSimulator,
  type SellerSpec,
} from '#product/simulator/index.js';
import type { Settings } from './children.js';

export function keyOf(seller: string): string {
  return `k3y-of-${seller}-0123456789abcdef`;
}

/** Makes sellers `seller-1`, `seller-2` and so on, each with items of its own. */
export function sellerSpecs(count: number, items: number): SellerSpec[] {
  return Array.from({ length: count }, (_, index) => sellerSpec(index, items));
}

/** The seller at this place of `sellerSpecs`. */
export function sellerSpec(index: number, items: number): SellerSpec {
  const username = `seller-${index + 1}`;
  const firstId = index * 10_000 + 1;
  const catalogue = seededCatalogue({ seed: index + 1, count: items, firstId });
  return { key: keyOf(username), username, catalogue };
}

/** Writes the sellers file into `folder`. @returns the settings for these sellers */
export function sellersEnvironment(
  folder: string,
  url: string,
  sellers: readonly SellerSpec[],
): Settings {
  const file = join(folder, 'sellers.json');
  const listed = sellers.map(({ username: name }, index) => ({
    name,
    url,
    keyEnv: `KEY_${index}`,
  }));
  writeFileSync(file, JSON.stringify({ sellers: listed }));
  return {
    HOME: folder,
    SELLERS_FILE: file,
    HEALTH_LISTEN: 'off',
    LOG_FORMAT: 'json',
    ...Object.fromEntries(sellers.map(({ key }, index) => [`KEY_${index}`, key])),
  };
}

export interface MarketplaceOptions {
  readonly items: number;
  /** Number of purchases. Without any, the list is rendered before it is requested. */
  readonly codes?: number;
  /** 0, the default: no limit. */
  readonly requestsPerMinute?: number;
  /** Delay of each reply (ms). */
  readonly latencyMs?: number;
}

/** The simulated marketplace, as the benches see it. */
export interface Marketplace {
  readonly url: string;
  /** The seller's API key. */
  readonly key: string;
  readonly listUrl: string;
  /** Size of the rendered list. */
  readonly listBytes: number;
  /** Changes the price of this share of the items, and renders the list. */
  readonly touch: (percent: number) => Promise<void>;
  /** Returns the calls since the last `takeCalls`. */
  readonly takeCalls: () => Calls;
}

interface Calls {
  readonly calls: number;
  /** Calls that were answered with 429. */
  readonly limited: number;
  /** From the first validation to the end of the last one (ms). */
  readonly ms: number;
}

/** Runs `work` with a simulated marketplace of its own. */
export async function withMarketplace<T>(
  { items, codes = 0, requestsPerMinute = 0, latencyMs = 0 }: MarketplaceOptions,
  work: (marketplace: Marketplace) => Promise<T>,
): Promise<T> {
  const seller = sellerSpec(0, items);
  const sold = codes === 0 ? {} : { purchases: seededPurchases({ seed: 1, count: codes }) };
  const none = { calls: 0, limited: 0, first: 0, last: 0 };
  let seen = { ...none };
  const simulator = await startSimulator({
    sellers: [{ ...seller, ...sold }],
    prerender: codes === 0,
    requestsPerMinute,
    onAnswered: ({ operation, at, status }) => {
      seen.calls++;
      if (status === 429) seen.limited++;
      if (operation !== 'validate') return;
      seen.first ||= at;
      seen.last = Date.now();
    },
  });
  const { url } = simulator;
  const listUrl = `${url}/api/items/all?api_key=${seller.key}`;
  const renderList = async (): Promise<number> => {
    let bytes = 0;
    const { body } = await fetch(listUrl);
    for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) bytes += chunk.length;
    return bytes;
  };
  if (latencyMs > 0) simulator.faults.always('any', { kind: 'stall', ms: latencyMs });
  try {
    return await work({
      url,
      key: seller.key,
      listUrl,
      listBytes: codes === 0 ? await renderList() : 0,
      async touch(percent) {
        seller.catalogue.touchShare(percent, 'price');
        await renderList();
      },
      takeCalls() {
        const { calls, limited, first, last } = seen;
        seen = { ...none };
        simulator.log.length = 0;
        return { calls, limited, ms: last - first };
      },
    });
  } finally {
    await simulator.close();
  }
}
