import { Agent, EnvHttpProxyAgent, type Dispatcher } from 'undici';
import type { Budget, Priority } from '../domain/budget.js';
import type { Redactor } from '../domain/redact.js';
import { largePlace, readWhole, TooLarge, type BodyLimits } from './body.js';
import type { Endpoint } from './endpoints.js';
import { excerpt } from './envelope.js';
import { isRedirect, isSuccess, judgeHead } from './judge.js';
import { resumeAt, type Head, type HeaderMap } from './rate-limit.js';
import { decideRedirect } from './redirect.js';
import { unavailable, type Failure } from './reply.js';
import type { BuildRequest, HttpRequest } from './request.js';
import { describeError, tooLargeBody } from './transport-error.js';

/** Undici's own option for how connections are made. */
export type Connect = NonNullable<Agent.Options['connect']>;

export interface Call {
  readonly endpoint: Endpoint;
  readonly priority: Priority;
  readonly signal: AbortSignal;
  /** Fail the call if the budget is paused for longer than this, milliseconds. */
  readonly longestPauseMs: number;
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
  /** From the request to the last header, and between two chunks of the body, milliseconds. */
  readonly headersMs: number;
  readonly silenceMs: number;
  readonly build: BuildRequest;
  readonly budget: Budget;
  readonly redactor: Redactor;
  readonly now: () => number;
  /** Null: as the environment says (HTTPS_PROXY, HTTP_PROXY and NO_PROXY). */
  readonly connect: Connect | null;
}

/** What happens meanwhile. */
export interface Watcher {
  /** A further request was sent, after so many milliseconds: of a redirect, or of a large body. */
  readonly onFurther: (waitedMs: number) => void;
  readonly onHead: (origin: string, head: Head) => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Characters to show of a response that is not HTTP. */
const MAX_SHOWN = 80;
/** Bounds of the rest of a body that nobody needs; a longer one costs the connection. */
const UNNEEDED_BODY_BYTES = 64 * 1024;
const UNNEEDED_BODY_MS = 5_000;
/** Bytes of a body that may arrive before anybody reads it. */
const EARLY_BYTES = 1024 * 1024;
/** Of an error, the first MiB is read: the message is at its beginning. */
const ERROR_LIMITS: BodyLimits = { maxBytes: 1024 * 1024, tooLarge: null, takeLargePlace: null };
const NO_BODY = Buffer.alloc(0);
/** Redirects followed in one attempt. */
const MAX_REDIRECTS = 5;
const REDIRECT_STATUSES = new Set([301, 302, 303, 307, 308]);
/** DNS allows no longer host name. */
const MAX_HOST_LENGTH = 253;

/**
 * Sends requests over undici, on connections that are kept alive, follows safe redirects and remembers where they led.
 */
export class RequestSender {
  readonly #options: SenderOptions;
  readonly #dispatcher: Dispatcher;
  readonly #prefix: string;
  /** Where the last redirect led. Later calls go there directly. */
  #origin: string;
  #trailingSlash = '';

  constructor(options: SenderOptions) {
    const { baseUrl, connect } = options;
    this.#options = options;
    this.#prefix = baseUrl.pathname.replace(/\/+$/, '');
    this.#origin = baseUrl.origin;
    const agent = { maxHeaderSize: MAX_HEADER_BYTES };
    this.#dispatcher =
      connect === null
        ? new EnvHttpProxyAgent({ ...agent, connect: { timeout: CONNECT_TIMEOUT_MS } })
        : new Agent({ ...agent, connect });
  }

  /**
   * Sends a request and follows safe redirects. The caller has taken the first request from the budget. A large body
   * is asked for again once the process's large place is free.
   * @param random value of the random parameter; null: the request goes without
   * @returns the answer, or the failure that its headers show
   * @throws {TransportError} when there is no whole response; an abort throws the signal's reason
   */
  async send(call: Call, random: string | null, watcher: Watcher): Promise<Answer | Failure> {
    const { endpoint, signal, deadline } = call;
    const { build, budget } = this.#options;
    const request = build(endpoint, random);
    let url = new URL(`${this.#prefix}${endpoint.path}${this.#trailingSlash}`, this.#origin);
    const visited: string[] = [];
    const place = { isMine: false };
    try {
      for (;;) {
        const response = await this.#exchange(url, request, call, place, watcher);
        if ('kind' in response) return response;
        const { httpStatus, body } = response;
        const waitedFrom = performance.now();
        if (isRedirect(httpStatus)) {
          visited.push(url.href);
          const target = this.#redirectTarget(url, response, visited);
          if (!(target instanceof URL)) return target;
          url = target;
        } else if (body === null) {
          await largePlace.take(signal);
          place.isMine = true;
        } else {
          // Only these statuses prove that the API is there. During an outage a server may redirect too.
          if (visited.length > 0 && (isSuccess(httpStatus) || httpStatus === 404)) {
            this.#origin = url.origin;
            this.#trailingSlash = url.pathname.endsWith('/') ? '/' : '';
          }
          const hasLargePlace = place.isMine;
          place.isMine = false;
          return { ...response, origin: url.origin, body, hasLargePlace };
        }
        await budget.acquire(call.priority, signal, call.longestPauseMs);
        const waitedMs = performance.now() - waitedFrom;
        deadline.at += waitedMs;
        watcher.onFurther(waitedMs);
      }
    } finally {
      if (place.isMine) largePlace.free();
    }
  }

  async close(): Promise<void> {
    await this.#dispatcher.destroy();
  }

  /**
   * One request and its response.
   * @returns the failure that the headers show; `body` is empty after a redirect, and null if it is large and another
   *   one has the large place
   */
  async #exchange(
    url: URL,
    { query, method, headers, body }: HttpRequest,
    call: Call,
    place: { isMine: boolean },
    { onHead }: Watcher,
  ): Promise<Failure | (Head & { readonly body: Buffer | null })> {
    const { budget, now, redactor, headersMs, silenceMs } = this.#options;
    const { signal } = call;
    signal.throwIfAborted();
    const totalMs = Math.max(0, call.deadline.at - performance.now());
    const sentAt = performance.now();
    let httpStatus: number | null = null;
    let pausing: Promise<void> | null = null;
    let result: Failure | (Head & { readonly body: Buffer | null });
    try {
      const response = await this.#dispatcher.request({
        origin: url.origin,
        path: url.pathname + query,
        method,
        headers,
        body,
        signal,
        headersTimeout: Math.min(headersMs, totalMs),
        bodyTimeout: silenceMs,
        highWaterMark: EARLY_BYTES,
      });
      const tookMs = performance.now() - sentAt;
      httpStatus = response.statusCode;
      const head: Head = { httpStatus, headers: joinRepeated(response.headers), tookMs };
      onHead(url.origin, head);
      const until = resumeAt(head, budget.requestsPerMinute, now());
      if (until !== null) pausing = budget.pauseUntil(until);
      // Awaited below: the body must be read at once.
      pausing?.catch(() => undefined);
      const failure = judgeHead(head, now());
      if (failure !== null || isRedirect(httpStatus)) {
        // A short body is read to its end, so that the connection can be used again.
        const soon = { limit: UNNEEDED_BODY_BYTES, signal: AbortSignal.timeout(UNNEEDED_BODY_MS) };
        void response.body.dump(soon).catch(() => undefined);
        result = failure ?? { ...head, body: NO_BODY };
      } else {
        const limits = isSuccess(httpStatus) ? limitsOf(call, place) : ERROR_LIMITS;
        const encoding = head.headers['content-encoding'] ?? '';
        const whole = await readWhole(response.body, encoding, limits, totalMs - tookMs);
        result = { ...head, body: whole };
      }
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof TooLarge && httpStatus !== null) {
        throw tooLargeBody(httpStatus, error.message);
      }
      const mask = (text: string): string => excerpt(text, redactor, MAX_SHOWN);
      throw describeError(error, url.host, httpStatus, mask);
    }
    await pausing;
    return result;
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
}

function limitsOf(call: Call, place: { isMine: boolean }): BodyLimits {
  const { maxBytes, tooLarge, mayBeLarge, onBytes } = call;
  const takeLargePlace = (): boolean => (place.isMine ||= largePlace.tryToTake());
  return { maxBytes, tooLarge, takeLargePlace: mayBeLarge ? takeLargePlace : null, onBytes };
}

/** Joins the values of repeated headers by commas. */
function joinRepeated(headers: Dispatcher.ResponseData['headers']): HeaderMap {
  const joined: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) joined[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return joined;
}
