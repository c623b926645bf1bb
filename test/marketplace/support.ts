import { connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { expect, onTestFinished } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { unlimitedBudget } from '../../src/marketplace/budget.js';
import { createMarketplace, type Seams } from '../../src/marketplace/client.js';
import type { ItemList, Marketplace, MarketplaceOptions } from '../../src/marketplace/types.js';

export const KEY = '5f1e0c7a9b3d42868ac04e6df7213b95';

/** A client for tests: no budget, one attempt, closed when the test ends. */
export function client(
  baseUrl: URL,
  options: Partial<MarketplaceOptions> = {},
  seams: Seams = {},
): Marketplace {
  const marketplace = createMarketplace(
    {
      baseUrl,
      key: new Secret(KEY),
      budget: unlimitedBudget,
      retry: { attempts: 1, baseMs: 1, maxMs: 10 },
      ...options,
    },
    seams,
  );
  onTestFinished(() => marketplace.close());
  return marketplace;
}

/** An item as the contract shows it. */
export function wireItem(id: number): Record<string, unknown> {
  return {
    id,
    name: `Item ${id}`,
    description: '<p>Fine "work"</p>',
    category: 'Scripts',
    sub_category: 'Node',
    options: ['a'],
    demo_link: 'https://example.com/demo',
    tags: ['x'],
    media: { preview_image: 'https://example.com/p.png' },
    price: { regular: 19.9, extended: 99 },
    currency: 'USD',
    published_at: '2024-01-02T03:04:05Z',
  };
}

export const ACCOUNT = {
  name: { firstname: 'Ann', lastname: 'Lee', full_name: 'Ann Lee' },
  username: 'ann',
  email: 'ann@example.com',
  balance: 10.5,
  currency: 'USD',
  profile: { heading: 'Hi', description: '', contact: {}, social_links: {}, media: {} },
  registered_at: '2020-01-02T03:04:05Z',
};

export const PURCHASE = {
  purchase_code: 'C0DE-1',
  license_type: 'Regular',
  price: 19.9,
  currency: 'USD',
  item: { id: 7, name: 'Item 7', url: 'https://example.com/7', media: {} },
  date: '2024-01-02T03:04:05Z',
};

export function accountBody(): string {
  return JSON.stringify({ status: 'success', data: ACCOUNT });
}

export function listBody(count: number): string {
  const items = Array.from({ length: count }, (_, index) => wireItem(index + 1));
  return JSON.stringify({ status: 'success', items });
}

/** Matches text in `toMatchObject`. */
export function like(pattern: string | RegExp): unknown {
  return expect.stringMatching(pattern);
}

/** Reads a list to its end. */
export async function drain(list: ItemList): Promise<string[]> {
  const records: string[] = [];
  for await (const batch of list.batches) {
    for (const { bytes } of batch) records.push(Buffer.from(bytes).toString());
  }
  return records;
}

/** Where to send connections: `scheme://host:port` to a local port. */
export type Ports = Readonly<Record<string, { port: number; ca?: string }>>;

/**
 * Connects host names of tests to local servers; every address asked for is noted in `asked`, and
 * those without a server are refused.
 */
export function connectTo(ports: Ports, asked: string[] = []): NonNullable<Seams['connect']> {
  return ({ protocol, hostname, port }, callback) => {
    const address = `${protocol}//${hostname}${port === '' ? '' : `:${port}`}`;
    asked.push(address);
    const server = ports[address];
    if (server === undefined) return callback(new Error(`no server for ${address}`), null);
    const target = { port: server.port, host: '127.0.0.1' };
    const socket =
      protocol === 'https:'
        ? tlsConnect({
            ...target,
            servername: hostname,
            ...(server.ca === undefined ? {} : { ca: server.ca }),
          })
        : netConnect(target);
    const onError = (error: Error): void => callback(error, null);
    socket.once('error', onError);
    socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', () => {
      socket.off('error', onError);
      callback(null, socket);
    });
  };
}

/** An answer of bare bytes, after which the connection stays open unless it is ended. */
export function raw(bytes: string | Buffer, then: 'end' | 'reset' | 'stall' = 'end') {
  return {
    raw: (socket: Socket): void => {
      socket.write(bytes, () => {
        if (then === 'end') socket.end();
        if (then === 'reset') socket.resetAndDestroy();
      });
    },
  };
}

/** The head of an answer, for `raw`. */
export function head(...headers: string[]): string {
  return ['HTTP/1.1 200 OK', ...headers, '', ''].join('\r\n');
}
