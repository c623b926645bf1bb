import { mayCarryKey, withoutWww } from '../domain/address.js';
import type { KeyRedactor } from '../domain/redact.js';
import { unavailable, type Failure } from '../domain/reply.js';
import type { Secret } from '../domain/secret.js';
import type { Endpoint } from './endpoints.js';
import { isSuccess, judgeHead } from './judge.js';
import { resumeAt } from './rate-limit.js';
import { RequestBuilder, type HttpRequest } from './request.js';
import type { Timeouts, Response } from './response.js';
import type { Target } from './transport.js';
import type { Budget, ParameterCarriage, Priority } from './types.js';

/** A call of one endpoint; every attempt of it sends the same. */
export interface Call {
  readonly endpoint: Endpoint;
  readonly priority: Priority;
  readonly signal: AbortSignal;
  readonly timeouts: Timeouts;
  /** Longest pause of the budget that the call waits for, milliseconds. */
  readonly longestPauseMs: number;
}

/** Sends one request and returns the answer once its head has arrived. */
export type Send<R extends Response> = (
  target: Target,
  request: HttpRequest,
  call: Call,
) => Promise<R>;

interface SenderOptions {
  readonly baseUrl: URL;
  readonly key: Secret;
  readonly carriage: ParameterCarriage;
  readonly allowPlainHttp: boolean;
  readonly budget: Budget;
  readonly redactor: KeyRedactor;
  readonly now: () => number;
}

/** No real host name is longer. */
const MAX_HOST_LENGTH = 253;

/** Sends requests, follows safe redirects and obeys the marketplace's rate limit. */
export class RequestSender {
  readonly #options: SenderOptions;
  readonly #builder: RequestBuilder;
  readonly #prefix: string;
  /** Addresses of the endpoints, by path; each is built once. */
  readonly #targets = new Map<string, URL>();
  /** Where the last redirect led; later calls go there directly. */
  #origin: string;
  #slash = '';

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#builder = new RequestBuilder(options.key, options.carriage);
    this.#prefix = options.baseUrl.pathname.replace(/\/+$/, '');
    this.#origin = options.baseUrl.origin;
  }

  /**
   * Sends a request and follows safe redirects with the same method and body. The caller has
   * acquired the first request from the budget.
   * @param onRedirect called for each redirect followed, with the milliseconds it waited for the budget
   * @returns the answer, or why a redirect was not followed
   */
  async send<R extends Response>(
    call: Call,
    transmit: Send<R>,
    onRedirect: (waitedMs: number) => void,
  ): Promise<R | Failure> {
    const { endpoint, signal } = call;
    const { budget, now } = this.#options;
    const request = this.#builder.build(endpoint.method, endpoint.parameters);
    let url = this.#targetOf(endpoint.path);
    let visited: Set<string> | null = null;
    for (;;) {
      const response = await transmit(targetAt(url), request, call);
      await this.#obeyLimit(response);
      const settled = judgeHead(response, now()) !== null;
      if (settled || response.httpStatus < 300 || response.httpStatus > 399) {
        if (visited !== null && !settled && isApi(response.httpStatus)) this.#remember(url);
        return response;
      }
      response.discard();
      visited ??= new Set();
      visited.add(url.href);
      const next = this.#next(url, response, visited);
      if (!(next instanceof URL)) return next;
      url = next;
      const from = performance.now();
      await budget.acquire(call.priority, signal, call.longestPauseMs);
      onRedirect(performance.now() - from);
    }
  }

  #targetOf(path: string): URL {
    const known = this.#targets.get(path);
    if (known !== undefined) return known;
    const url = new URL(`${this.#prefix}${path}${this.#slash}`, this.#origin);
    this.#targets.set(path, url);
    return url;
  }

  #next(from: URL, response: Response, visited: ReadonlySet<string>): URL | Failure {
    const { httpStatus, headers } = response;
    const refuse = (detail: string): Failure => unavailable(httpStatus, 'redirect', detail);
    if (!isRedirect(httpStatus)) return refuse(`the marketplace answered with HTTP ${httpStatus}`);
    const location = headers['location'] ?? null;
    const decision = decideRedirect(from, location, this.#options.allowPlainHttp);
    if (!decision.follow) {
      if (decision.host === null) return refuse('the marketplace redirects to no address');
      // Masked before it is cut, or half of a key would not be recognized.
      const host = this.#options.redactor.text(decision.host).slice(0, MAX_HOST_LENGTH);
      return refuse(
        decision.host === from.host
          ? `the marketplace redirects to another page of ${host}, which was not followed`
          : `the marketplace redirects to ${host}, which was not followed: the API key is not sent there; if that is its new address, configure it`,
      );
    }
    if (visited.size > MAX_REDIRECTS || visited.has(decision.to.href)) {
      return refuse('the marketplace redirects in circles');
    }
    return decision.to;
  }

  #remember(target: URL): void {
    this.#targets.clear();
    this.#origin = target.origin;
    this.#slash = target.pathname.endsWith('/') ? '/' : '';
  }

  /** Pauses the budget when the server says that no requests are left. */
  async #obeyLimit(response: Response): Promise<void> {
    const { budget, now } = this.#options;
    const until = resumeAt(response, budget.requestsPerMinute, now());
    if (until === null) return;
    try {
      await budget.pauseUntil(until);
    } catch (error) {
      response.discard();
      throw error;
    }
  }
}

function targetAt({ origin, host, pathname }: URL): Target {
  return { origin, host, path: pathname };
}

/** True for the statuses the API answers with: only then is a redirect remembered. */
function isApi(httpStatus: number): boolean {
  return isSuccess(httpStatus) || httpStatus === 404;
}

/** Whether a redirect is followed. */
type RedirectDecision =
  | { readonly follow: true; readonly to: URL }
  | {
      readonly follow: false;
      /** The host it points to; null when the header is missing or no address. */
      readonly host: string | null;
    };

/** Redirects followed in one attempt. */
const MAX_REDIRECTS = 5;

const FOLLOWED = new Set([301, 302, 303, 307, 308]);

/** True for the statuses that name another address in `Location`. */
function isRedirect(httpStatus: number): boolean {
  return FOLLOWED.has(httpStatus);
}

/**
 * Decides whether to follow a redirect. Only these are followed: www ↔ apex of the same host,
 * http → https of the same host on the default ports, and a trailing slash added or removed (field
 * notes: limits and weather). Only origin and path are taken from the server; the caller attaches
 * the parameters again.
 * @param from the address that answered; its query is ignored
 * @param location the `Location` header
 */
export function decideRedirect(
  from: URL,
  location: string | null,
  allowPlainHttp: boolean,
): RedirectDecision {
  const target = parse(location, from);
  if (target === null) return { follow: false, host: null };
  const allowed =
    target.username === '' &&
    target.password === '' &&
    withoutWww(target.hostname) === withoutWww(from.hostname) &&
    sameOrSaferScheme(from, target) &&
    samePath(from.pathname, target.pathname) &&
    mayCarryKey(target, allowPlainHttp);
  if (!allowed) return { follow: false, host: target.host };
  return { follow: true, to: new URL(target.pathname, target.origin) };
}

function parse(location: string | null, base: URL): URL | null {
  if (location === null || !URL.canParse(location, base.href)) return null;
  return new URL(location, base);
}

function sameOrSaferScheme(from: URL, to: URL): boolean {
  if (from.protocol === to.protocol) return from.port === to.port;
  return (
    from.protocol === 'http:' && to.protocol === 'https:' && from.port === '' && to.port === ''
  );
}

function samePath(a: string, b: string): boolean {
  return a === b || `${a}/` === b || a === `${b}/`;
}
