import type { IncomingMessage } from 'node:http';
import {
  canonicalLocation,
  frameworkError,
  htmlAnswer,
  location,
  redirectAnswer,
} from './answer.js';
import type { Answer, RequestUrl } from './answer.js';
import { faultAnswer } from './faults.js';
import type { Fault } from './faults.js';
import { answerOperation } from './operations.js';
import type { LogEntry, Simulator } from './server.js';
import type { Operation } from './types.js';

/** An answer, and the faults that change how it is sent. */
interface Response {
  readonly answer: Answer;
  readonly faults: readonly Fault[];
}

const ROUTES: Readonly<Record<string, { operation: Operation; method: 'GET' | 'POST' }>> = {
  '/api/account/details': { operation: 'account', method: 'GET' },
  '/api/items/all': { operation: 'list', method: 'GET' },
  '/api/items/item': { operation: 'item', method: 'GET' },
  '/api/purchases/validation': { operation: 'validate', method: 'POST' },
};
const BROWSERS = /Mozilla|Chrome|Firefox|Opera|Edge/;

/**
 * Answers a request as a deployed server does: first host names and redirects, then the limit,
 * faults and routes, and last the operation itself.
 */
export async function respond(
  simulator: Simulator,
  request: IncomingMessage,
  entry: LogEntry,
  serial: number,
): Promise<Response> {
  const requestUrl = requestUrlOf(request);
  const url = new URL(requestUrl.target.replace(/^\/*/, '/'), 'http://any');
  const route = routeOf(url.pathname, simulator.options.basePath ?? '');
  const parameters = await readParameters(
    request,
    url.searchParams,
    simulator.options.keyHeader ?? null,
  );
  completeLogEntry(simulator, entry, route?.operation ?? null, parameters);
  const early = checkAddress(simulator, requestUrl);
  if (early !== null) return { answer: early, faults: [] };
  if (route === null) return { answer: otherPage(url.pathname, wantsJson(request)), faults: [] };
  const limit = simulator.limits.take(addressOf(request));
  if (limit.limited !== null) {
    const json = limit.limited === 'json';
    return {
      answer: frameworkError(429, 'Too Many Attempts.', json, limit.headers),
      faults: [],
    };
  }
  const faults = simulator.faults.take(route.operation);
  const answer =
    faultReply(simulator, faults, requestUrl, parameters) ??
    checkRequest(simulator, request, requestUrl, route.method) ??
    (await runOperation(simulator, route.operation, parameters, faults, serial));
  return { answer: { ...answer, headers: { ...limit.headers, ...answer.headers } }, faults };
}

function checkAddress({ options }: Simulator, requestUrl: RequestUrl): Answer | null {
  const name = requestUrl.host.replace(/:\d+$/, '');
  if (options.knownHosts !== undefined && !options.knownHosts.includes(name)) {
    return htmlAnswer(421, 'Misdirected Request');
  }
  if (options.redirects === undefined) return null;
  const target = canonicalLocation(requestUrl, options.redirects);
  return target === null ? null : redirectAnswer(options.redirects.status ?? 301, target);
}

function faultReply(
  simulator: Simulator,
  faults: readonly Fault[],
  requestUrl: RequestUrl,
  parameters: Parameters,
): Answer | null {
  const key = parameters.get('api_key');
  const input = { ...(key === undefined ? {} : { api_key: key }), ...parameters.withoutKey() };
  const now = simulator.options.now?.() ?? Date.now();
  // The newest fault decides: `next` comes after `always`.
  for (const fault of faults.toReversed()) {
    const answer = faultAnswer(fault, { ...requestUrl, input, now });
    if (answer !== null) return answer;
  }
  return null;
}

function checkRequest(
  simulator: Simulator,
  request: IncomingMessage,
  requestUrl: RequestUrl,
  method: 'GET' | 'POST',
): Answer | null {
  const agent = request.headers['user-agent'] ?? '';
  if (simulator.quirks.browserRedirect && BROWSERS.test(agent)) {
    return redirectAnswer(302, location(requestUrl, { to: 'home' }));
  }
  const used = request.method ?? '';
  if (used === method || (used === 'HEAD' && method === 'GET')) return null;
  const allowed = method === 'GET' ? 'GET, HEAD' : 'POST';
  const message = `The ${used} method is not supported for this route. Supported methods: ${allowed}.`;
  return frameworkError(405, message, wantsJson(request), { Allow: allowed });
}

async function runOperation(
  simulator: Simulator,
  operation: Operation,
  parameters: Parameters,
  faults: readonly Fault[],
  serial: number,
): Promise<Answer> {
  const key = parameters.get('api_key');
  const refused = faults.some(({ kind }) => kind === 'key-refused');
  const language = faults.find((fault) => fault.kind === 'translated')?.language;
  return answerOperation({
    operation,
    parameters,
    seller: refused ? null : simulator.owner(key),
    quirks: simulator.quirks,
    language: language ?? simulator.language,
    errorStatus: simulator.errorStatus,
    serial,
    prerendered: simulator.prerendered,
  });
}

function completeLogEntry(
  simulator: Simulator,
  entry: LogEntry,
  operation: Operation | null,
  parameters: Parameters,
): void {
  const owner = simulator.owner(parameters.get('api_key'));
  const keyHeader = simulator.options.keyHeader?.toLowerCase();
  entry.operation = operation;
  entry.parameterPlacement = parameters.placement;
  entry.keySeenIn = parameters.seenIn('api_key');
  entry.keyIndex = owner === null ? -1 : simulator.sellers.indexOf(owner);
  entry.sellerName = owner?.username ?? null;
  entry.parameters = parameters.withoutKey();
  if (keyHeader !== undefined && keyHeader in entry.headers) entry.headers[keyHeader] = '[key]';
}

function otherPage(path: string, json: boolean): Answer {
  if (path === '/') return htmlAnswer(200, 'Marketplace');
  return frameworkError(404, json ? 'The route could not be found.' : 'Not Found', json);
}

function routeOf(path: string, basePath: string) {
  if (!path.startsWith(basePath)) return null;
  return ROUTES[path.slice(basePath.length).replace(/\/+$/, '')] ?? null;
}

function requestUrlOf(request: IncomingMessage): RequestUrl {
  const secure = 'encrypted' in request.socket;
  return { secure, host: request.headers.host ?? '', target: request.url ?? '/' };
}

function wantsJson(request: IncomingMessage): boolean {
  return /json/.test(request.headers.accept ?? '');
}

function addressOf(request: IncomingMessage): string {
  return (request.socket.remoteAddress ?? '').replace(/^::ffff:/, '');
}

type Placement = 'query' | 'form' | 'json' | 'header';

/** A request's parameters, wherever they travelled (field notes: query, form body or JSON alike). */
export interface Parameters {
  /** Trimmed, as the server does; undefined when missing or empty. */
  get(name: string): string | undefined;
  /** Where a parameter was found. */
  seenIn(name: string): Placement | null;
  /** All but the key, for the log. */
  withoutKey(): Record<string, string>;
  /** Where parameters were at all. */
  readonly placement: Placement | 'mixed' | 'none';
}

const MAX_BODY = 4 * 1024 * 1024;

/** Reads query and body, and the key from a header when the server is told to look there. */
async function readParameters(
  request: IncomingMessage,
  query: URLSearchParams,
  keyHeader: string | null,
): Promise<Parameters> {
  const found = new Map<string, { value: string; placement: Placement }>();
  for (const [name, value] of query) found.set(name, { value, placement: 'query' });
  const body = await readBody(request);
  for (const [name, value, placement] of await bodyFields(body, request)) {
    found.set(name, { value, placement });
  }
  const header = keyHeader === null ? undefined : request.headers[keyHeader.toLowerCase()];
  if (typeof header === 'string') {
    const value = header.replace(/^Bearer /i, '');
    found.set('api_key', { value, placement: 'header' });
  }
  return view(found);
}

function view(found: ReadonlyMap<string, { value: string; placement: Placement }>): Parameters {
  const places = [...new Set([...found.values()].map(({ placement }) => placement))];
  return {
    get: (name) => found.get(name)?.value.trim() || undefined,
    seenIn: (name) => found.get(name)?.placement ?? null,
    withoutKey: () =>
      Object.fromEntries(
        [...found].filter(([name]) => name !== 'api_key').map(([name, { value }]) => [name, value]),
      ),
    placement: places.length > 1 ? 'mixed' : (places[0] ?? 'none'),
  };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= MAX_BODY) parts.push(part);
  }
  return Buffer.concat(parts);
}

async function bodyFields(
  body: Buffer,
  request: IncomingMessage,
): Promise<[string, string, Placement][]> {
  const type = request.headers['content-type'] ?? '';
  if (type.includes('json')) return jsonFields(body);
  if (type.includes('urlencoded')) return formFields(new URLSearchParams(body.toString()));
  if (!type.includes('multipart')) return [];
  // A form that cannot be read carries no parameters, as with a server.
  const form = new Response(body, { headers: { 'content-type': type } }).formData();
  return formFields(await form.catch(() => []));
}

function formFields(form: Iterable<[string, unknown]>): [string, string, Placement][] {
  return [...form].map(([name, value]) => [name, typeof value === 'string' ? value : '', 'form']);
}

function jsonFields(body: Buffer): [string, string, Placement][] {
  const value = parse(body.toString());
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).map(([name, field]) => [
    name,
    typeof field === 'string' ? field : JSON.stringify(field),
    'json',
  ]);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // As the server does: a body that is not JSON carries no parameters.
    return null;
  }
}
