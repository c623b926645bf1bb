import type { IncomingMessage } from 'node:http';
import { frameworkError, htmlAnswer, redirectAnswer } from './answer.js';
import type { Answer } from './answer.js';
import { faultAnswer } from './fault-answers.js';
import type { Fault } from './faults.js';
import type { LogEntry } from './log.js';
import { answerQuestion } from './market.js';
import { readParameters } from './parameters.js';
import type { Parameters } from './parameters.js';
import { canonicalLocation, location } from './redirects.js';
import type { Asked } from './redirects.js';
import type { Simulator } from './server.js';
import type { Operation } from './types.js';

/** An answer, and the faults that spoil it on its way. */
export interface Response {
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
 * Decides what a request is answered: first what stands in front of the application (host names,
 * redirects), then its limit, faults, routes, and last the operation itself.
 */
export async function respond(
  simulator: Simulator,
  request: IncomingMessage,
  entry: LogEntry,
  serial: number,
): Promise<Response> {
  const asked = askedOf(request);
  const url = new URL(asked.target.replace(/^\/*/, '/'), 'http://any');
  const route = routeOf(url.pathname, simulator.options.basePath ?? '');
  const parameters = await readParameters(
    request,
    url.searchParams,
    simulator.options.keyHeader ?? null,
  );
  note(simulator, entry, route?.operation ?? null, parameters);
  const early = frontDoor(simulator, asked);
  if (early !== null) return { answer: early, faults: [] };
  if (route === null) return { answer: page(url.pathname, wantsJson(request)), faults: [] };
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
    replaced(simulator, faults, asked, parameters) ??
    routed(simulator, request, asked, route.method) ??
    (await operate(simulator, route.operation, parameters, faults, serial));
  return { answer: { ...answer, headers: { ...limit.headers, ...answer.headers } }, faults };
}

function frontDoor({ options }: Simulator, asked: Asked): Answer | null {
  const name = asked.host.replace(/:\d+$/, '');
  if (options.knownHosts !== undefined && !options.knownHosts.includes(name)) {
    return htmlAnswer(421, 'Misdirected Request');
  }
  if (options.redirects === undefined) return null;
  const target = canonicalLocation(asked, options.redirects);
  return target === null ? null : redirectAnswer(options.redirects.status ?? 301, target);
}

function replaced(
  simulator: Simulator,
  faults: readonly Fault[],
  asked: Asked,
  parameters: Parameters,
): Answer | null {
  const key = parameters.get('api_key');
  const input = { ...(key === undefined ? {} : { api_key: key }), ...parameters.withoutKey() };
  const now = simulator.options.now?.() ?? Date.now();
  // The newest fault decides: `next` comes after `always`.
  for (const fault of faults.toReversed()) {
    const answer = faultAnswer(fault, { ...asked, input, now });
    if (answer !== null) return answer;
  }
  return null;
}

function routed(
  simulator: Simulator,
  request: IncomingMessage,
  asked: Asked,
  method: 'GET' | 'POST',
): Answer | null {
  const agent = request.headers['user-agent'] ?? '';
  if (simulator.quirks.browserRedirect && BROWSERS.test(agent)) {
    return redirectAnswer(302, location(asked, { to: 'home' }));
  }
  const used = request.method ?? '';
  if (used === method || (used === 'HEAD' && method === 'GET')) return null;
  const allowed = method === 'GET' ? 'GET, HEAD' : 'POST';
  const message = `The ${used} method is not supported for this route. Supported methods: ${allowed}.`;
  return frameworkError(405, message, wantsJson(request), { Allow: allowed });
}

async function operate(
  simulator: Simulator,
  operation: Operation,
  parameters: Parameters,
  faults: readonly Fault[],
  serial: number,
): Promise<Answer> {
  const key = parameters.get('api_key');
  const refused = faults.some(({ kind }) => kind === 'key-refused');
  const language = faults.find((fault) => fault.kind === 'translated')?.language;
  return answerQuestion({
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

function note(
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

function page(path: string, json: boolean): Answer {
  if (path === '/') return htmlAnswer(200, 'Marketplace');
  return frameworkError(404, json ? 'The route could not be found.' : 'Not Found', json);
}

function routeOf(path: string, basePath: string) {
  if (!path.startsWith(basePath)) return null;
  return ROUTES[path.slice(basePath.length).replace(/\/+$/, '')] ?? null;
}

function askedOf(request: IncomingMessage): Asked {
  const secure = 'encrypted' in request.socket;
  return { secure, host: request.headers.host ?? '', target: request.url ?? '/' };
}

function wantsJson(request: IncomingMessage): boolean {
  return /json/.test(request.headers.accept ?? '');
}

function addressOf(request: IncomingMessage): string {
  return (request.socket.remoteAddress ?? '').replace(/^::ffff:/, '');
}
