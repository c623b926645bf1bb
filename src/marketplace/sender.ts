import { isSafeForKey, withoutWww } from '../domain/address.js';
import type { Budget, Priority } from '../domain/budget.js';
import type { Redactor } from '../domain/redact.js';
import { unavailable, type Failure } from './reply.js';
import type { Endpoint } from './endpoints.js';
import { isSuccess, judgeHead } from './judge.js';
import { resumeAt } from './rate-limit.js';
import type { BuildRequest } from './request.js';
import type { HttpResponse, Timeouts, Transport } from './transport.js';

export interface Call {
  readonly endpoint: Endpoint;
  readonly priority: Priority;
  readonly signal: AbortSignal;
  readonly timeouts: Timeouts;
  /** Fail the call if the budget is paused for longer than this, milliseconds. */
  readonly longestPauseMs: number;
  /** Value of the random parameter; null: the call goes without. */
  readonly random: string | null;
}

interface SenderOptions {
  readonly baseUrl: URL;
  readonly allowPlainHttp: boolean;
  readonly build: BuildRequest;
  readonly transport: Transport;
  readonly budget: Budget;
  readonly redactor: Redactor;
  readonly now: () => number;
}

/** Redirects followed in one attempt. */
const MAX_REDIRECTS = 5;
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308]);
/** DNS allows no longer host name. */
const MAX_HOST_LENGTH = 253;

/** Sends requests, follows safe redirects and remembers where they led. */
export class RequestSender {
  readonly #options: SenderOptions;
  readonly #prefix: string;
  /** URLs of the endpoints by path, each built once. */
  readonly #urls = new Map<string, URL>();
  /** Where the last redirect led. Later calls go there directly. */
  #origin: string;
  #trailingSlash = '';

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#prefix = options.baseUrl.pathname.replace(/\/+$/, '');
    this.#origin = options.baseUrl.origin;
  }

  /**
   * Sends a request and follows safe redirects. The caller has taken the first request from the budget.
   * @param onRedirect called with the milliseconds that a redirect waited for the budget
   * @returns the response as soon as its headers are in, or why a redirect was not followed
   */
  async send(call: Call, onRedirect: (waitedMs: number) => void): Promise<HttpResponse | Failure> {
    const { endpoint, signal } = call;
    const { build, transport, budget, now } = this.#options;
    const request = build(endpoint.method, endpoint.parameters, call.random);
    let url = this.#urlOf(endpoint.path);
    const visited: string[] = [];
    for (;;) {
      const response = await transport.send(url, request, call.timeouts, signal);
      const until = resumeAt(response, budget.requestsPerMinute, now());
      if (until !== null) await this.#pauseBudget(until, response);
      const { httpStatus } = response;
      const hasFailed = judgeHead(response, now()) !== null;
      if (hasFailed || httpStatus < 300 || httpStatus > 399) {
        // Only these statuses prove that the API is there. During an outage a server may redirect too.
        const isApi = isSuccess(httpStatus) || httpStatus === 404;
        if (visited.length > 0 && !hasFailed && isApi) this.#remember(url);
        return response;
      }
      response.discard();
      visited.push(url.href);
      const target = this.#redirectTarget(url, response, visited);
      if (!(target instanceof URL)) return target;
      url = target;
      const from = performance.now();
      await budget.acquire(call.priority, signal, call.longestPauseMs);
      onRedirect(performance.now() - from);
    }
  }

  #urlOf(path: string): URL {
    let url = this.#urls.get(path);
    if (url === undefined) {
      url = new URL(`${this.#prefix}${path}${this.#trailingSlash}`, this.#origin);
      this.#urls.set(path, url);
    }
    return url;
  }

  #redirectTarget(from: URL, response: HttpResponse, visited: readonly string[]): URL | Failure {
    const { httpStatus, headers } = response;
    const refuse = (detail: string): Failure => unavailable(httpStatus, 'redirect', detail);
    if (!REDIRECT_STATUSES.has(httpStatus)) {
      return refuse(`the marketplace answered with HTTP ${httpStatus}`);
    }
    const location = headers['location'] ?? null;
    const { host, to } = decideRedirect(from, location, this.#options.allowPlainHttp);
    if (host === null) return refuse('the marketplace sent a redirect without a usable address');
    if (to === null) {
      // Mask before cutting: half a key would not be recognized.
      const shown = this.#options.redactor.text(host).slice(0, MAX_HOST_LENGTH);
      return refuse(
        host === from.host
          ? `the marketplace redirects to another page of ${shown}; the redirect was not followed`
          : `the marketplace redirects to ${shown}; the redirect was not followed, to keep the API key from that host. If it is the marketplace's new address, configure it`,
      );
    }
    if (visited.length > MAX_REDIRECTS || visited.includes(to.href)) {
      return refuse('the marketplace redirects in a loop');
    }
    return to;
  }

  #remember(target: URL): void {
    this.#urls.clear();
    this.#origin = target.origin;
    this.#trailingSlash = target.pathname.endsWith('/') ? '/' : '';
  }

  async #pauseBudget(until: number, response: HttpResponse): Promise<void> {
    try {
      await this.#options.budget.pauseUntil(until);
    } catch (error) {
      response.discard();
      throw error;
    }
  }
}

/**
 * Decides whether a redirect is safe to follow: only www ↔ apex of the same host, http → https on the default
 * ports, and a trailing slash (servers: requests). Ignores the query that the server sends.
 * @param from the URL that answered
 * @returns the host of the redirect (null: it has no valid address), and the URL to follow (null: don't)
 */
export function decideRedirect(
  from: URL,
  location: string | null,
  allowPlainHttp: boolean,
): { readonly host: string | null; readonly to: URL | null } {
  if (location === null || !URL.canParse(location, from.href)) return { host: null, to: null };
  const target = new URL(location, from);
  const isAllowed =
    target.username === '' &&
    target.password === '' &&
    withoutWww(target.hostname) === withoutWww(from.hostname) &&
    isSameOrSafer(from, target) &&
    [from.pathname, `${from.pathname}/`, from.pathname.replace(/\/$/, '')].includes(
      target.pathname,
    ) &&
    isSafeForKey(target, allowPlainHttp);
  return { host: target.host, to: isAllowed ? new URL(target.pathname, target.origin) : null };
}

function isSameOrSafer(from: URL, to: URL): boolean {
  if (from.protocol === to.protocol) return from.port === to.port;
  return from.protocol === 'http:' && to.protocol === 'https:' && from.port + to.port === '';
}
