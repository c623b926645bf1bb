import { Agent, EnvHttpProxyAgent, type Dispatcher } from 'undici';
import type { Redactor } from '../domain/redact.js';
import { readWhole, TooLarge, type BodyLimits } from './body.js';
import { excerpt } from './envelope.js';
import type { Head, HeaderMap } from './rate-limit.js';
import type { HttpRequest } from './request.js';
import { describeError, tooLargeBody } from './transport-error.js';

/** Undici's own option for how connections are made. */
export type Connect = NonNullable<Agent.Options['connect']>;

const CONNECT_TIMEOUT_MS = 10_000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Characters to show of a response that is not HTTP. */
const MAX_SHOWN = 80;
/** Bounds of the rest of a body that nobody needs; a longer one costs the connection. */
const UNNEEDED_BODY_BYTES = 64 * 1024;
const UNNEEDED_BODY_MS = 5_000;
/** Bytes of a body that may arrive before anybody reads it. */
const EARLY_BYTES = 1024 * 1024;

export interface Timeouts {
  /** From the request to the last header. */
  readonly headersMs: number;
  /** Between two chunks of the body. */
  readonly silenceMs: number;
  readonly totalMs: number;
}

/** An HTTP response with its whole body. */
export interface HttpResponse extends Head {
  /** Of the server that answered. */
  readonly origin: string;
  /** Decompressed; empty if nobody needs it; null if it is large and another one has the large place. */
  readonly body: Buffer | null;
}

/** Sends HTTP requests over undici, on connections that are kept alive. */
export class Transport {
  readonly #dispatcher: Dispatcher;

  /** @param redactor masks the key in text of malformed responses */
  constructor(
    private readonly redactor: Redactor,
    connect?: Connect,
  ) {
    const options = { maxHeaderSize: MAX_HEADER_BYTES };
    this.#dispatcher =
      connect === undefined
        ? // HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the environment.
          new EnvHttpProxyAgent({ ...options, connect: { timeout: CONNECT_TIMEOUT_MS } })
        : new Agent({ ...options, connect });
  }

  /**
   * @param url its query is ignored: the request brings its own
   * @param limitsOf decides by status and headers what is read of the body; null: nothing
   * @throws {TransportError} when there is no whole response; an abort throws the signal's reason
   */
  async send(
    url: URL,
    { query, method, headers, body }: HttpRequest,
    { headersMs, silenceMs, totalMs }: Timeouts,
    limitsOf: (head: Head) => BodyLimits | null,
    signal: AbortSignal,
  ): Promise<HttpResponse> {
    signal.throwIfAborted();
    const sentAt = performance.now();
    let httpStatus: number | null = null;
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
      const head = { httpStatus, headers: joinRepeated(response.headers), tookMs };
      const answer = { ...head, origin: url.origin };
      const limits = limitsOf(head);
      if (limits === null) {
        // A short body is read to its end, so that the connection can be used again.
        const soon = { limit: UNNEEDED_BODY_BYTES, signal: AbortSignal.timeout(UNNEEDED_BODY_MS) };
        void response.body.dump(soon).catch(() => undefined);
        return { ...answer, body: Buffer.alloc(0) };
      }
      const encoding = head.headers['content-encoding'] ?? '';
      return {
        ...answer,
        body: await readWhole(response.body, encoding, limits, totalMs - tookMs),
      };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof TooLarge && httpStatus !== null) {
        throw tooLargeBody(httpStatus, error.message);
      }
      const mask = (text: string): string => excerpt(text, this.redactor, MAX_SHOWN);
      throw describeError(error, url.host, httpStatus, mask);
    }
  }

  async close(): Promise<void> {
    await this.#dispatcher.destroy();
  }
}

/** Joins the values of repeated headers by commas. */
function joinRepeated(headers: Dispatcher.ResponseData['headers']): HeaderMap {
  const joined: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) joined[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return joined;
}
