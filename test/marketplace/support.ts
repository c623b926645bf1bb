import { connect as netConnect, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { expect, onTestFinished } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { unlimitedBudget } from '../../src/marketplace/budget.js';
import { createMarketplace, type Dependencies } from '../../src/marketplace/client.js';
import type { ItemList, Marketplace, MarketplaceOptions } from '../../src/marketplace/types.js';

export const KEY = '5f1e0c7a9b3d42868ac04e6df7213b95';

/** A client without a budget that makes one attempt. Closed when the test ends. */
export function client(
  baseUrl: URL,
  options: Partial<MarketplaceOptions> = {},
  dependencies: Dependencies = {},
): Marketplace {
  const marketplace = createMarketplace(
    {
      baseUrl,
      key: new Secret(KEY),
      budget: unlimitedBudget,
      retry: { attempts: 1, baseMs: 1, maxMs: 10 },
      ...options,
    },
    dependencies,
  );
  onTestFinished(() => marketplace.close());
  return marketplace;
}

/** An item as in the contract (API 2.3). */
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

/** The records of a list as text. */
export function texts(list: ItemList): string[] {
  return Array.from(list.records, ({ bytes }) => Buffer.from(bytes).toString());
}

/** Local ports by `scheme://host:port`. */
export type Ports = Readonly<Record<string, { port: number; ca?: string }>>;

/**
 * Connects test host names to local servers and refuses all others. Every requested address is pushed to
 * `requested`.
 */
export function connectTo(
  ports: Ports,
  requested: string[] = [],
): NonNullable<Dependencies['connect']> {
  return ({ protocol, hostname, port }, callback) => {
    const address = `${protocol}//${hostname}${port === '' ? '' : `:${port}`}`;
    requested.push(address);
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

/** A response of raw bytes. @param then what happens to the connection; `stall` leaves it open */
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

/** Status line and headers of a response, for `raw`. */
export function head(...headers: string[]): string {
  return ['HTTP/1.1 200 OK', ...headers, '', ''].join('\r\n');
}
