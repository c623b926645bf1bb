import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { Failure, Reply } from '../../../src/marketplace/reply.js';
import { Market, type Call, type Connection, type MarketOptions } from './market.js';

/** Calls that are under way this long (ms) may get each other’s replies. */
const OVERLAP_MS = 4;

/** The model marketplace behind a real server. */
export class HttpMarket {
  #market: Market;
  readonly #connections = new WeakMap<Socket, Connection>();
  /** Forms that were asked, with the time by `performance.now()`. */
  readonly asked: { readonly form: string; readonly at: number }[] = [];
  /** Called with each call that arrives; default: nothing happens. */
  onCall: () => void = () => undefined;
  #swaps = false;
  #saysSo = false;

  private constructor(
    readonly url: string,
    readonly username: string,
    options: MarketOptions,
  ) {
    this.#market = new Market(options);
  }

  static async start(username: string, options: MarketOptions): Promise<HttpMarket> {
    const server = createServer((request, response) => void market.#serve(request, response));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    const { port } = server.address() as AddressInfo;
    const market = new HttpMarket(`http://127.0.0.1:${port}`, username, options);
    return market;
  }

  /** From now on it is this market. */
  become(options: MarketOptions, swaps: boolean): void {
    this.#market = new Market(options);
    this.#swaps = swaps;
    this.#saysSo = options.cache === 'says-so';
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', this.url);
    const parameters = new URLSearchParams(await text(request));
    for (const [name, value] of url.searchParams) parameters.set(name, value);
    if (url.pathname === '/api/items/all')
      return send(response, 200, { status: 'success', items: ITEMS });
    const call = callOf(url.pathname, parameters);
    if (call === null) return send(response, 404, { message: 'not found' });
    if (call.kind === 'validate') this.asked.push({ form: call.form, at: performance.now() });
    this.onCall();
    const known = this.#connections.get(request.socket);
    const connection = known ?? this.#market.open(Date.now());
    this.#connections.set(request.socket, connection);
    const now = Date.now();
    const underWay = this.#market.send(
      call,
      now,
      now + OVERLAP_MS,
      connection,
      url.searchParams.get('_') ?? '',
    );
    if (this.#swaps) await sleep(OVERLAP_MS);
    if (underWay.isCached && this.#saysSo) response.setHeader('age', '600');
    const reply = underWay.isCached ? underWay.reply : this.#market.end(underWay).reply;
    this.#answer(response, call, reply as Reply<{ value: Record<string, unknown> }>);
  }

  #answer(
    response: ServerResponse,
    call: Call,
    reply: Reply<{ value: Record<string, unknown> }>,
  ): void {
    if (reply.kind === 'answered') {
      const { value } = reply.data;
      if (call.kind === 'account') {
        const username = value['username'] === 'ada' ? this.username : 'eve';
        return send(response, 200, {
          status: 'success',
          data: { username, email: `${username}@seller.example` },
        });
      }
      if (call.kind === 'item') {
        return send(response, 200, { status: 'success', item: itemOf(call.id) });
      }
      return send(response, 200, { status: 'success', data: { purchase: purchaseOf(value) } });
    }
    this.#fail(response, reply);
  }

  #fail(response: ServerResponse, failure: Failure): void {
    switch (failure.kind) {
      case 'denied':
      case 'refused':
        return send(response, failure.httpStatus, { status: 'error', msg: failure.message });
      case 'unreadable': {
        if (failure.isAboutAnother !== true) {
          return send(response, 200, { status: 'success', data: { purchase: {} } });
        }
        const value = {
          purchaseCode: 'another-code',
          licenseType: 'Regular',
          item: { id: 7, name: 'Item 7' },
        };
        return send(response, 200, { status: 'success', data: { purchase: purchaseOf(value) } });
      }
      default:
        response
          .writeHead(200, { 'content-type': 'text/html' })
          .end('<html>Please come back later</html>');
    }
  }
}

function callOf(path: string, parameters: URLSearchParams): Call | null {
  switch (path) {
    case '/api/account/details':
      return { kind: 'account' };
    case '/api/items/item':
      return { kind: 'item', id: Number(parameters.get('item_id')) };
    case '/api/purchases/validation':
      return {
        kind: 'validate',
        form: parameters.get('purchase_code') ?? '',
        onNewConnection: false,
      };
    default:
      return null;
  }
}

function itemOf(id: number): Record<string, unknown> {
  return {
    id,
    name: `Item ${id}`,
    description: 'A theme',
    category: 'Themes',
    sub_category: 'HTML',
    options: [],
    demo_link: 'https://demo.example',
    tags: [],
    media: {},
    price: { regular: 19.9, extended: 99 },
    currency: 'USD',
    published_at: '2024-01-02T03:04:05Z',
  };
}

const ITEMS = [5, 6, 7].map(itemOf);

function purchaseOf(value: Record<string, unknown>): Record<string, unknown> {
  const { id, name } = value['item'] as { readonly id: number; readonly name: string };
  return {
    purchase_code: value['purchaseCode'],
    license_type: 'Regular',
    price: 19.9,
    currency: 'USD',
    item: { id, name, url: 'https://market.example/item', media: {} },
    downloaded: false,
    date: '2025-12-01T00:00:00Z',
  };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
