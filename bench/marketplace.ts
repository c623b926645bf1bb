import { seededCatalogue, seededPurchases, startSimulator } from '#product/simulator/index.js';

export const KEY = 'bench-0123456789abcdef0123456789abcdef';

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
  const catalogue = seededCatalogue({ seed: 1, count: items });
  const seller = { key: KEY, username: 'bench', catalogue };
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
  const listUrl = `${url}/api/items/all?api_key=${KEY}`;
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
      listUrl,
      listBytes: codes === 0 ? await renderList() : 0,
      async touch(percent) {
        catalogue.touchShare(percent, 'price');
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
