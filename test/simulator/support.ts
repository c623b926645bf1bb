import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { onTestFinished } from 'vitest';
import { seededCatalogue, startSimulator } from '../../src/simulator/index.js';
import type { SellerSpec, Simulator, SimulatorOptions } from '../../src/simulator/index.js';

export const KEY = 'a1'.repeat(32);

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
  /** True if the body ended properly. */
  readonly complete: boolean;
  readonly json: () => Record<string, unknown>;
}

export interface Request {
  readonly method?: string;
  readonly query?: Record<string, string>;
  readonly form?: Record<string, string>;
  readonly json?: unknown;
  readonly body?: string;
  readonly headers?: Record<string, string>;
}

export const PATHS = {
  account: '/api/account/details',
  list: '/api/items/all',
  item: '/api/items/item',
  validate: '/api/purchases/validation',
} as const;

/** A seller, by default with ten seeded items. */
export function seller(spec: Partial<SellerSpec> = {}): SellerSpec {
  return { key: KEY, username: 'ada', catalogue: seededCatalogue({ seed: 1, count: 10 }), ...spec };
}

/** Starts a simulator, which is closed when the test ends. */
export async function started(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const simulator = await startSimulator({ sellers: [seller()], ...options });
  onTestFinished(() => simulator.close());
  return simulator;
}

/** Sends a request and reads the whole body, or as much of it as arrives. */
export async function get(
  url: string,
  { query = {}, form, json, method = 'GET', ...request }: Request = {},
): Promise<Reply> {
  const target = new URL(url);
  for (const [name, value] of Object.entries(query)) target.searchParams.set(name, value);
  const headers: Record<string, string> = { accept: 'application/json', ...request.headers };
  let { body } = request;
  if (form !== undefined) {
    headers['content-type'] = 'application/x-www-form-urlencoded';
    body = String(new URLSearchParams(form));
  }
  if (json !== undefined) {
    headers['content-type'] = 'application/json';
    body = JSON.stringify(json);
  }
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  const sent = httpRequest(target, { method, headers, agent: false });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const parts: Buffer[] = [];
  try {
    for await (const part of response as AsyncIterable<Buffer>) parts.push(part);
  } catch {
    // The connection was cut, as `complete` shows.
  }
  const bytes = Buffer.concat(parts);
  const text = bytes.toString();
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    bytes,
    text,
    complete: response.complete,
    json: () => JSON.parse(text) as Record<string, unknown>,
  };
}

/** Calls one of the four operations with the key, with parameters where a client puts them. */
export async function call(
  simulator: Simulator,
  operation: keyof typeof PATHS,
  parameters: Record<string, string> = {},
  request: Request = {},
): Promise<Reply> {
  const all = { api_key: KEY, ...parameters };
  const usual = operation === 'validate' ? { method: 'POST', form: all } : { query: all };
  return get(simulator.url + PATHS[operation], { ...usual, ...request });
}

type Fields = Record<string, unknown>;

/** The records of the list, whether sent as an array or a map. */
export async function listed(simulator: Simulator): Promise<Fields[]> {
  const { items } = (await call(simulator, 'list')).json();
  return Object.values(items as Record<string, Fields>);
}

/** The ids of the list, in its order. */
export async function listedIds(simulator: Simulator): Promise<number[]> {
  return (await listed(simulator)).map(({ id }) => Number(id));
}
