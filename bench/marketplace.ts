/** The simulated marketplace, a process of its own. */
import { seededCatalogue, seededPurchases, startSimulator } from '#product/simulator/index.js';
import { download, given } from './tell.js';

export interface MarketplaceInput {
  readonly key: string;
  readonly items: number;
  /** Purchases to sell; without any, the list is rendered before it is asked for. */
  readonly codes?: number;
  /** 0: no limit. */
  readonly requestsPerMinute?: number;
  /** How long each reply is held back, milliseconds. */
  readonly latencyMs?: number;
}

/** What it may be told; each is answered with `MarketplaceState`. */
export type MarketplaceOrder =
  { readonly kind: 'look' } | { readonly kind: 'touch'; readonly percent: number };

export interface MarketplaceState {
  readonly url: string;
  readonly listUrl: string;
  /** Size of the list that was rendered. */
  readonly bytes: number;
  /** Calls since the last order. */
  readonly calls: number;
  /** How many of them were answered with 429. */
  readonly limited: number;
  /** From the first validation to the end of the last, milliseconds. */
  readonly ms: number;
}

const { key, items, codes = 0, requestsPerMinute = 0, latencyMs = 0 } = given() as MarketplaceInput;
const catalogue = seededCatalogue({ seed: 1, count: items });
let calls = 0;
let limited = 0;
let first = 0;
let last = 0;
const server = await startSimulator({
  sellers: [
    {
      key,
      username: 'bench',
      catalogue,
      ...(codes === 0 ? {} : { purchases: seededPurchases({ seed: 1, count: codes }) }),
    },
  ],
  prerender: codes === 0,
  requestsPerMinute,
  onAnswered: ({ operation, at, status }) => {
    calls++;
    if (status === 429) limited++;
    if (operation !== 'validate') return;
    first ||= at;
    last = Date.now();
  },
});
const { url } = server;
const listUrl = `${url}/api/items/all?api_key=${key}`;
if (latencyMs > 0) server.faults.always('any', { kind: 'stall', ms: latencyMs });

async function answer(): Promise<void> {
  const seen = { calls, limited, ms: last - first };
  const bytes = codes === 0 ? await download(listUrl) : 0;
  calls = 0;
  limited = 0;
  first = 0;
  last = 0;
  server.log.length = 0;
  process.send?.({ url, listUrl, bytes, ...seen } satisfies MarketplaceState);
}

process.on('message', (order: MarketplaceOrder) => {
  if (order.kind === 'touch') catalogue.touchShare(order.percent, 'price');
  void answer();
});
// Ctrl-C reaches this process too; it ends in order, with its files removed, when the bench lets go.
process.on('SIGINT', () => undefined);
process.once('disconnect', () => void server.close());
await answer();
