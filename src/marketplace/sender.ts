import type { Budget, Priority } from '../domain/budget.js';
import type { Redactor } from '../domain/redact.js';
import { unavailable, type Failure } from './reply.js';
import type { Endpoint } from './endpoints.js';
import { largePlace, type BodyLimits } from './body.js';
import { isRedirect, isSuccess, judgeHead } from './judge.js';
import { resumeAt, type Head } from './rate-limit.js';
import { decideRedirect } from './redirect.js';
import type { BuildRequest } from './request.js';
import type { Timeouts, Transport } from './transport.js';

export interface Call {
  readonly endpoint: Endpoint;
  readonly priority: Priority;
  readonly signal: AbortSignal;
  readonly timeouts: Omit<Timeouts, 'totalMs'>;
  /** Fail the call if the budget is paused for longer than this, milliseconds. */
  readonly longestPauseMs: number;
  /** Value of the random parameter; null: the call goes without. */
  readonly random: string | null;
  /** When the reply must be whole, by `performance.now()`. Waits for budget and large place move it. */
  readonly deadline: { at: number };
  /** Largest successful answer, decompressed, and the sentence that says that one is larger. */
  readonly maxBytes: number;
  readonly tooLarge: string;
  /** Whether a body beyond 32 MiB may come. It takes the process's one large place. */
  readonly mayBeLarge: boolean;
  readonly onBytes?: ((bytes: number) => void) | undefined;
}

/** A response whose headers show no failure. Its body is whole. */
export interface Answer extends Head {
  readonly origin: string;
  readonly body: Buffer;
  /** True if the caller has the process's large place, and must free it. */
  readonly hasLargePlace: boolean;
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

/** Of an error, the first MiB is read: the message is at its beginning. */
const ERROR_LIMITS: BodyLimits = { maxBytes: 1024 * 1024, tooLarge: null, takeLargePlace: null };
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
   * Sends a request and follows safe redirects. The caller has taken the first request from the budget. A large body
   * is asked for again once the process's large place is free.
   * @param onFurther called with the milliseconds that a further request waited
   * @param onHead called with the headers of each response
   * @returns the answer, or the failure that its headers show
   */
  async send(
    call: Call,
    onFurther: (waitedMs: number) => void,
    onHead: (origin: string, head: Head) => void,
  ): Promise<Answer | Failure> {
    const { endpoint, signal } = call;
    const { build, transport, budget, now } = this.#options;
    const request = build(endpoint.method, endpoint.parameters, call.random);
    let url = this.#urlOf(endpoint.path);
    const visited: string[] = [];
    let hasLargePlace = false;
    const takeLargePlace = (): boolean => (hasLargePlace ||= largePlace.tryToTake());
    const seen: { failure: Failure | null; pausing: Promise<void> } = {
      failure: null,
      pausing: Promise.resolve(),
    };
    const limitsOf = (head: Head): BodyLimits | null => {
      onHead(url.origin, head);
      const until = resumeAt(head, budget.requestsPerMinute, now());
      if (until !== null) seen.pausing = budget.pauseUntil(until);
      // Awaited below, after the body.
      seen.pausing.catch(() => undefined);
      seen.failure = judgeHead(head, now());
      if (seen.failure !== null || isRedirect(head.httpStatus)) return null;
      if (!isSuccess(head.httpStatus)) return ERROR_LIMITS;
      const { maxBytes, tooLarge, mayBeLarge, onBytes } = call;
      return { maxBytes, tooLarge, takeLargePlace: mayBeLarge ? takeLargePlace : null, onBytes };
    };
    try {
      for (;;) {
        const totalMs = Math.max(0, call.deadline.at - performance.now());
        const timeouts = { ...call.timeouts, totalMs };
        const response = await transport.send(url, request, timeouts, limitsOf, signal);
        await seen.pausing;
        const { httpStatus, body } = response;
        if (seen.failure !== null) return seen.failure;
        const waitedFrom = performance.now();
        if (isRedirect(httpStatus)) {
          visited.push(url.href);
          const target = this.#redirectTarget(url, response, visited);
          if (!(target instanceof URL)) return target;
          url = target;
        } else if (body === null) {
          await largePlace.take(signal);
          hasLargePlace = true;
        } else {
          // Only these statuses prove that the API is there. During an outage a server may redirect too.
          if (visited.length > 0 && (isSuccess(httpStatus) || httpStatus === 404)) {
            this.#remember(url);
          }
          const answer = { ...response, body, hasLargePlace };
          hasLargePlace = false;
          return answer;
        }
        await budget.acquire(call.priority, signal, call.longestPauseMs);
        const waitedMs = performance.now() - waitedFrom;
        call.deadline.at += waitedMs;
        onFurther(waitedMs);
      }
    } finally {
      if (hasLargePlace) largePlace.free();
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

  #redirectTarget(from: URL, response: Head, visited: readonly string[]): URL | Failure {
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
}
