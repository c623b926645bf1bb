import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http';
import { onTestFinished } from 'vitest';
import { seededCatalogue, startSimulator } from '../../src/simulator/index.js';
import type { SellerSpec, Simulator, SimulatorOptions } from '../../src/simulator/index.js';

export const KEY = 'a1'.repeat(32);

export interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly text: string;
  /** The body ended as HTTP says it should. */
  readonly complete: boolean;
  readonly json: () => Record<string, unknown>;
}

export interface Ask {
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

/** A seller with ten seeded items, unless told otherwise. */
export function seller(spec: Partial<SellerSpec> = {}): SellerSpec {
  return { key: KEY, username: 'ada', catalogue: seededCatalogue({ seed: 1, count: 10 }), ...spec };
}

/** A simulator that is closed at the end of the test. */
export async function started(options: Partial<SimulatorOptions> = {}): Promise<Simulator> {
  const simulator = await startSimulator({ sellers: [seller()], ...options });
  onTestFinished(() => simulator.close());
  return simulator;
}

/** Opens a request and returns its response before any of its body was read. */
export async function open(url: string, ask: Ask = {}): Promise<IncomingMessage> {
  const target = new URL(url);
  for (const [name, value] of Object.entries(ask.query ?? {})) target.searchParams.set(name, value);
  const headers: Record<string, string> = { accept: 'application/json', ...ask.headers };
  let { body } = ask;
  if (ask.form !== undefined) {
    headers['content-type'] = 'application/x-www-form-urlencoded';
    body = String(new URLSearchParams(ask.form));
  }
  if (ask.json !== undefined) {
    headers['content-type'] = 'application/json';
    body = JSON.stringify(ask.json);
  }
  if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body));
  const options: RequestOptions = { method: ask.method ?? 'GET', headers, agent: false };
  const request = httpRequest(target, options);
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return response;
}

/** Asks and reads the whole body, or as much of it as comes. */
export async function get(url: string, ask: Ask = {}): Promise<Got> {
  const response = await open(url, ask);
  const parts: Buffer[] = [];
  try {
    for await (const part of response as AsyncIterable<Buffer>) parts.push(part);
  } catch {
    // A cut connection: `complete` says so.
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

/** One of the four operations with the key, parameters where a client would put them. */
export async function call(
  simulator: Simulator,
  operation: keyof typeof PATHS,
  parameters: Record<string, string> = {},
  ask: Ask = {},
): Promise<Got> {
  const all = { api_key: KEY, ...parameters };
  const carried = operation === 'validate' ? { method: 'POST', form: all } : { query: all };
  return get(simulator.url + PATHS[operation], { ...carried, ...ask });
}

type Fields = Record<string, unknown>;

/** The records of a list reply, as an array or a map. */
export async function listed(simulator: Simulator): Promise<Fields[]> {
  const { items } = (await call(simulator, 'list')).json();
  return Object.values(items as Record<string, Fields>);
}

/** The ids of a list reply, in its order. */
export async function listedIds(simulator: Simulator): Promise<number[]> {
  return (await listed(simulator)).map(({ id }) => Number(id));
}
