import type { Failure } from '../domain/reply.js';
import type { Secret } from '../domain/secret.js';
import { isSuccess, judgeHead } from './judge.js';
import type { Asked } from './questions.js';
import { decideRedirect, isRedirect, MAX_REDIRECTS } from './redirect.js';
import type { Redactor } from './redaction.js';
import { carry } from './request.js';
import { retryAt } from './retry-after.js';
import type { Patience, Response, Transport } from './transport.js';
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

export interface CourierOptions {
  readonly baseUrl: URL;
  readonly key: Secret;
  readonly carriage: ParameterCarriage;
  readonly allowPlainHttp: boolean;
  readonly transport: Transport;
  readonly budget: Budget;
  readonly redactor: Redactor;
  readonly now: () => number;
}

/** How long everybody waits when the server says "no more" but not until when. */
const UNSAID_PAUSE_MS = 60_000;
/** No real host name is longer. */
const MAX_HOST_LENGTH = 253;

/** Carries requests to where the marketplace really lives, and heeds its rate limit. */
export class Courier {
  readonly #options: CourierOptions;
  readonly #prefix: string;
  /** Where a redirect has led before: later calls go there at once. */
  #origin: string;
  #slash = '';

  constructor(options: CourierOptions) {
    this.#options = options;
    this.#prefix = options.baseUrl.pathname.replace(/\/+$/, '');
    this.#origin = options.baseUrl.origin;
  }

  /**
   * Sends a request and follows the redirects that may be followed, method and body kept. The
   * first request's share of the budget has been acquired by the caller.
   * @param onRedirect told of each redirect followed, with the milliseconds it waited for the budget
   * @returns the answer, or why a redirect was not followed
   */
  async run(errand: Errand, onRedirect: (waitedMs: number) => void): Promise<Response | Failure> {
    const { asked, signal } = errand;
    const { key, carriage, transport, budget, now } = this.#options;
    const request = carry(asked.method, asked.parameters, key, carriage);
    let target = new URL(`${this.#prefix}${asked.path}${this.#slash}`, this.#origin);
    const visited = new Set<string>();
    for (;;) {
      visited.add(target.href);
      const response = await transport.send(target, request, errand.patience, signal);
      try {
        await this.#heedLimit(response);
      } catch (error) {
        response.discard();
        throw error;
      }
      const settled = judgeHead(response, now()) !== null;
      if (settled || response.httpStatus < 300 || response.httpStatus > 399) {
        if (visited.size > 1 && !settled && isApi(response.httpStatus)) this.#remember(target);
        return response;
      }
      response.discard();
      const next = this.#next(target, response, visited);
      if (!(next instanceof URL)) return next;
      target = next;
      const from = performance.now();
      await budget.acquire(errand.priority, signal, errand.longestPauseMs);
      onRedirect(performance.now() - from);
    }
  }

  #next(from: URL, response: Response, visited: ReadonlySet<string>): URL | Failure {
    const { httpStatus, headers } = response;
    const refuse = (detail: string): Failure => ({
      kind: 'unavailable',
      httpStatus,
      reason: 'redirect',
      detail: this.#options.redactor.text(detail),
      retryAt: null,
    });
    if (!isRedirect(httpStatus)) return refuse(`the marketplace answered with HTTP ${httpStatus}`);
    const location = headers['location'] ?? null;
    const decision = decideRedirect(from, location, this.#options.allowPlainHttp);
    if (!decision.follow) {
      if (decision.host === null) return refuse('the marketplace redirects to no address');
      const host = decision.host.slice(0, MAX_HOST_LENGTH);
      return refuse(
        host === from.host
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
    this.#origin = target.origin;
    this.#slash = target.pathname.endsWith('/') ? '/' : '';
  }

  /** Stops everybody when the server says that no requests are left (field notes: limits). */
  async #heedLimit(response: Response): Promise<void> {
    const { httpStatus, headers } = response;
    const now = this.#options.now();
    const { budget } = this.#options;
    if (httpStatus === 429 || headers['x-ratelimit-remaining']?.trim() === '0') {
      await budget.pauseUntil(retryAt(headers, now) ?? now + UNSAID_PAUSE_MS);
    }
  }
}

/** True for the statuses the API answers with; a page of an outage may be redirected to as well. */
function isApi(httpStatus: number): boolean {
  return isSuccess(httpStatus) || httpStatus === 404;
}
