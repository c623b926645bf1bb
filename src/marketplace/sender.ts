import { isSafeForKey, withoutWww } from '../domain/address.js';
import type { Budget, Priority } from '../domain/budget.js';
import type { KeyRedactor } from '../domain/redact.js';
import { unavailable, type Failure } from '../domain/reply.js';
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
  /** Longest pause of the budget that the call waits for, milliseconds. */
  readonly longestPauseMs: number;
}

interface SenderOptions {
  readonly baseUrl: URL;
  readonly allowPlainHttp: boolean;
  readonly build: BuildRequest;
  readonly transport: Transport;
  readonly budget: Budget;
  readonly redactor: KeyRedactor;
  readonly now: () => number;
}

/** Redirects followed in one attempt. */
const MAX_REDIRECTS = 5;
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** No real host name is longer. */
const MAX_HOST_LENGTH = 253;

export class RequestSender {
  readonly #options: SenderOptions;
  readonly #prefix: string;
  /** Addresses of the endpoints, by path; each is built once. */
  readonly #targets = new Map<string, URL>();
  /** Where the last redirect led; later calls go there directly. */
  #origin: string;
  #slash = '';

  constructor(options: SenderOptions) {
    this.#options = options;
    this.#prefix = options.baseUrl.pathname.replace(/\/+$/, '');
    this.#origin = options.baseUrl.origin;
  }

  /**
   * Sends a request and follows safe redirects. The caller has acquired the first one from the budget.
   * @param onRedirect gets the milliseconds that each redirect waited for the budget
   * @returns the answer once its head has arrived, or why a redirect was not followed
   */
  async send(call: Call, onRedirect: (waitedMs: number) => void): Promise<HttpResponse | Failure> {
    const { endpoint, signal } = call;
    const { build, transport, budget, now } = this.#options;
    const request = build(endpoint.method, endpoint.parameters);
    let url = this.#targetOf(endpoint.path);
    const visited: string[] = [];
    for (;;) {
      const response = await transport.send(url, request, call.timeouts, signal);
      const until = resumeAt(response, budget.requestsPerMinute, now());
      if (until !== null) await this.#pause(until, response);
      const { httpStatus } = response;
      const hasFailed = judgeHead(response, now()) !== null;
      if (hasFailed || httpStatus < 300 || httpStatus > 399) {
        // Only these statuses show that the API itself is there: an outage may redirect too.
        const isApi = isSuccess(httpStatus) || httpStatus === 404;
        if (visited.length > 0 && !hasFailed && isApi) this.#remember(url);
        return response;
      }
      response.discard();
      visited.push(url.href);
      const next = this.#next(url, response, visited);
      if (!(next instanceof URL)) return next;
      url = next;
      const from = performance.now();
      await budget.acquire(call.priority, signal, call.longestPauseMs);
      onRedirect(performance.now() - from);
    }
  }

  #targetOf(path: string): URL {
    let url = this.#targets.get(path);
    if (url === undefined) {
      url = new URL(`${this.#prefix}${path}${this.#slash}`, this.#origin);
      this.#targets.set(path, url);
    }
    return url;
  }

  #next(from: URL, response: HttpResponse, visited: readonly string[]): URL | Failure {
    const { httpStatus, headers } = response;
    const refuse = (detail: string): Failure => unavailable(httpStatus, 'redirect', detail);
    if (!REDIRECTS.has(httpStatus))
      return refuse(`the marketplace answered with HTTP ${httpStatus}`);
    const { host, to } = decideRedirect(
      from,
      headers['location'] ?? null,
      this.#options.allowPlainHttp,
    );
    if (host === null) return refuse('the marketplace redirects to no address');
    if (to === null) {
      // Masked before it is cut, or half of a key would not be recognized.
      const shown = this.#options.redactor.text(host).slice(0, MAX_HOST_LENGTH);
      return refuse(
        host === from.host
          ? `the marketplace redirects to another page of ${shown}, which was not followed`
          : `the marketplace redirects to ${shown}, which was not followed: the API key is not sent there; if that is its new address, configure it`,
      );
    }
    if (visited.length > MAX_REDIRECTS || visited.includes(to.href)) {
      return refuse('the marketplace redirects in circles');
    }
    return to;
  }

  #remember(target: URL): void {
    this.#targets.clear();
    this.#origin = target.origin;
    this.#slash = target.pathname.endsWith('/') ? '/' : '';
  }

  /** Lets nothing more be sent until a time, as the server has asked for. */
  async #pause(until: number, response: HttpResponse): Promise<void> {
    try {
      await this.#options.budget.pauseUntil(until);
    } catch (error) {
      response.discard();
      throw error;
    }
  }
}

/**
 * Follows only www ↔ apex of the same host, http → https on the default ports, and a trailing slash (field
 * notes: limits and weather). Only origin and path are taken from the server.
 * @param from the address that answered; its query is ignored
 * @returns the host it points to (null: no address), and the address to follow it to (null: don't)
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
