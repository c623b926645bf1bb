import type { Failure } from '../domain/reply.js';
import type { Secret } from '../domain/secret.js';
import { isSuccess, judgeHead } from './judge.js';
import type { Asked } from './questions.js';
import { decideRedirect, isRedirect, MAX_REDIRECTS } from './redirect.js';
import type { KeyRedactor } from './redaction.js';
import { Carrier, type CarriedRequest } from './request.js';
import type { Patience, Response } from './response.js';
import { resumeAt } from './rate-limit.js';
import type { Target } from './transport.js';
import type { Budget, ParameterCarriage, Priority } from './types.js';

/** One attempt to be made. */
export interface Errand {
  readonly asked: Asked;
  readonly priority: Priority;
  readonly signal: AbortSignal;
  readonly patience: Patience;
  /** Longest pause of the budget to wait out. */
  readonly longestPauseMs: number;
}

/** How a request is sent, up to the head of its answer. */
export type Send<R extends Response> = (
  target: Target,
  request: CarriedRequest,
  errand: Errand,
) => Promise<R>;

export interface CourierOptions {
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

/** Carries requests to where the marketplace really lives, and heeds its rate limit. */
export class Courier {
  readonly #options: CourierOptions;
  readonly #carrier: Carrier;
  readonly #prefix: string;
  /** The addresses that were asked, by path; each is put together once. */
  readonly #targets = new Map<string, URL>();
  /** Where a redirect has led before: later calls go there at once. */
  #origin: string;
  #slash = '';

  constructor(options: CourierOptions) {
    this.#options = options;
    this.#carrier = new Carrier(options.key, options.carriage);
    this.#prefix = options.baseUrl.pathname.replace(/\/+$/, '');
    this.#origin = options.baseUrl.origin;
  }

  /**
   * Sends a request and follows the redirects that may be followed, method and body kept. The
   * first request's share of the budget has been acquired by the caller.
   * @param onRedirect told of each redirect followed, with the milliseconds it waited for the budget
   * @returns the answer, or why a redirect was not followed
   */
  async run<R extends Response>(
    errand: Errand,
    send: Send<R>,
    onRedirect: (waitedMs: number) => void,
  ): Promise<R | Failure> {
    const { asked, signal } = errand;
    const { budget, now } = this.#options;
    const request = this.#carrier.carry(asked.method, asked.parameters);
    let url = this.#targetOf(asked.path);
    let visited: Set<string> | null = null;
    for (;;) {
      const response = await send(targetAt(url), request, errand);
      await this.#heedLimit(response);
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
      await budget.acquire(errand.priority, signal, errand.longestPauseMs);
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
    const refuse = (detail: string): Failure => ({
      kind: 'unavailable',
      httpStatus,
      reason: 'redirect',
      detail,
      retryAt: null,
    });
    if (!isRedirect(httpStatus)) return refuse(`the marketplace answered with HTTP ${httpStatus}`);
    const location = headers['location'] ?? null;
    const decision = decideRedirect(from, location, this.#options.allowPlainHttp);
    if (!decision.follow) {
      if (decision.host === null) return refuse('the marketplace redirects to no address');
      // Masked before it is cut: half a key is one still.
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

  /** Stops everybody when the server says that no requests are left. */
  async #heedLimit(response: Response): Promise<void> {
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

/** True for the statuses the API answers with; a page of an outage may be redirected to as well. */
function isApi(httpStatus: number): boolean {
  return isSuccess(httpStatus) || httpStatus === 404;
}
