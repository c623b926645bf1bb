import type { Agent, Dispatcher } from 'undici';
import UndiciAgent from 'undici/lib/dispatcher/agent.js';
import type { Redactor } from '../domain/redact.js';
import { unavailable } from './reply.js';
import { compressionOf, decompress } from './decompress.js';
import { excerpt } from './envelope.js';
import { isSuccess } from './judge.js';
import type { Head, HeaderMap } from './rate-limit.js';
import type { HttpRequest } from './request.js';
import { describeError, TransportError, unreadableBody } from './transport-error.js';
import { resumeParserAtEnd } from './undici-end.js';

/** Undici's own option for how connections are made. */
export type Connect = NonNullable<Agent.Options['connect']>;

const CONNECT_TIMEOUT_MS = 10_000;
const MAX_HEADER_BYTES = 64 * 1024;
/** Characters to show of a response that is not HTTP. */
const MAX_SHOWN = 80;
/** Read no more than this of an error's body: the message is at its beginning. */
const MAX_ERROR_BYTES = 1024 * 1024;
/** Stop reading from the socket once this much of a body waits for the reader. */
const MAX_BUFFERED_BYTES = 256 * 1024;

/** Sends HTTP requests over undici, on connections that are kept alive. */
export class Transport {
  readonly #agent: Agent;

  /** @param redactor masks the key in text of malformed responses */
  constructor(
    private readonly redactor: Redactor,
    connect: Connect = { timeout: CONNECT_TIMEOUT_MS },
  ) {
    this.#agent = new UndiciAgent({
      // The watchdog does this instead. Unlike undici, it doesn't count the time that our reader takes.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_HEADER_BYTES,
      connect,
    });
    this.#agent.on('connect', (_origin, targets) => resumeParserAtEnd(targets.at(-1)));
  }

  /**
   * Resolves when the response headers are in.
   * @param url its query is ignored: the request brings its own
   * @throws {TransportError} when there is no response; an abort throws the signal's reason
   */
  send(
    url: URL,
    request: HttpRequest,
    timeouts: Timeouts,
    signal: AbortSignal,
  ): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const { query, method, headers, body } = request;
      const options = { origin: url.origin, path: url.pathname + query, method, headers, body };
      const response = new HttpResponse(url, timeouts, signal, this.redactor, { resolve, reject });
      this.#agent.dispatch(options, response);
    });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** The promise that `send` returned. */
interface PendingResponse {
  readonly resolve: (response: HttpResponse) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * An HTTP response. Its body can be read once, whole or as a stream. It bypasses undici's streams: a small
 * body is usually complete before it is read.
 */
export class HttpResponse implements Dispatcher.DispatchHandler, Head {
  httpStatus = 0;
  headers: HeaderMap = {};
  tookMs = 0;
  #sentAt = performance.now();
  readonly #url: URL;
  readonly #silenceMs: number;
  readonly #signal: AbortSignal;
  readonly #redactor: Redactor;
  readonly #watchdog: Watchdog;
  #controller: Dispatcher.DispatchController | null = null;
  readonly #pending: PendingResponse;
  /** Wakes the reader that waits for more of the body. */
  #wake: () => void = () => {};
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #state: 'open' | 'complete' | 'failed' = 'open';
  #error: unknown = null;

  constructor(
    url: URL,
    { headersMs, silenceMs, totalMs }: Timeouts,
    signal: AbortSignal,
    redactor: Redactor,
    pending: PendingResponse,
  ) {
    this.#url = url;
    this.#redactor = redactor;
    this.#silenceMs = silenceMs;
    this.#signal = signal;
    this.#pending = pending;
    const onEnd = (): void => this.#fail(new Error('the request was ended'));
    this.#watchdog = new Watchdog(totalMs, signal, onEnd);
    this.#watchdog.waitForServer(headersMs);
  }

  get origin(): string {
    return this.#url.origin;
  }

  /**
   * The whole body, decompressed. Of an error, reads about the first MiB.
   * @param maxBytes bound of a successful body
   */
  async body(maxBytes: number): Promise<Buffer> {
    const isError = !isSuccess(this.httpStatus);
    const whole = this.#takeWhole(isError ? MAX_ERROR_BYTES : maxBytes);
    if (whole !== null) return whole;
    const parts: Buffer[] = [];
    let size = 0;
    for await (const chunk of this.chunks(isError ? Infinity : maxBytes)) {
      parts.push(chunk);
      size += chunk.length;
      if (isError && size > MAX_ERROR_BYTES) break;
    }
    return Buffer.concat(parts);
  }

  /** Fast path for most small bodies: already complete, and not compressed. Null for all others. */
  #takeWhole(maxBytes: number): Buffer | null {
    if (this.#state !== 'complete' || this.#bufferedBytes > maxBytes) return null;
    this.#signal.throwIfAborted();
    const chunks = this.#buffered;
    const whole = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    if (compressionOf(whole, this.#encoding) !== null) return null;
    this.#buffered = [];
    return whole;
  }

  /**
   * Streams the decompressed body. Ends normally only if it is complete. Leaving it early closes the connection.
   * @throws {TransportError} when it is cut off, damaged or too large; an abort throws the signal's reason
   */
  async *chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
    const { httpStatus } = this;
    let size = 0;
    try {
      for await (const chunk of decompress(this.#received(), this.#encoding, httpStatus)) {
        this.#signal.throwIfAborted();
        size += chunk.length;
        if (size > maxBytes) {
          const detail = `the answer is larger than the ${maxBytes} bytes allowed`;
          throw unreadableBody(httpStatus, detail);
        }
        yield chunk;
      }
    } catch (error) {
      throw this.#explain(error);
    } finally {
      this.discard();
    }
  }

  /** Closes the connection unless the whole body has arrived. */
  discard(): void {
    this.#watchdog.stop();
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    this.#close();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#sentAt = performance.now();
    if (this.#state !== 'open') this.#close();
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    httpStatus: number,
    headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  ): void {
    if (httpStatus < 200 || this.#state !== 'open') return;
    this.httpStatus = httpStatus;
    this.headers = joinRepeated(headers);
    this.tookMs = performance.now() - this.#sentAt;
    this.#watchdog.waitForReader();
    this.#pending.resolve(this);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state !== 'open') return;
    this.#buffered.push(chunk);
    this.#bufferedBytes += chunk.length;
    if (this.#bufferedBytes > MAX_BUFFERED_BYTES) controller.pause();
    this.#wake();
  }

  onResponseEnd(): void {
    if (this.#state !== 'open') return;
    this.#state = 'complete';
    this.#watchdog.stop();
    this.#wake();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  get #encoding(): string {
    return this.headers['content-encoding'] ?? '';
  }

  async *#received(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const chunks = this.#buffered;
      this.#buffered = [];
      this.#bufferedBytes = 0;
      yield* chunks;
      if (this.#controller?.paused === true) this.#controller.resume();
      if (this.#buffered.length > 0) continue;
      if (this.#state === 'complete') return;
      if (this.#state === 'failed') throw this.#error;
      this.#watchdog.waitForServer(this.#silenceMs);
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#watchdog.waitForReader();
    }
  }

  #fail(error: unknown): void {
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    this.#error = this.#explain(error);
    this.#buffered = [];
    this.#watchdog.stop();
    this.#pending.reject(this.#error);
    this.#wake();
    this.#close();
  }

  /** The error to throw: the caller's abort reason, a timeout, or else the failure behind `error`. */
  #explain(error: unknown): unknown {
    if (this.#signal.aborted) return this.#signal.reason;
    const httpStatus = this.httpStatus === 0 ? null : this.httpStatus;
    const { timeout } = this.#watchdog;
    if (timeout === null) {
      const mask = (text: string): string => excerpt(text, this.#redactor, MAX_SHOWN);
      return describeError(error, this.#url.host, httpStatus, mask);
    }
    return new TransportError(unavailable(httpStatus, 'timeout', timeout));
  }

  #close(): void {
    if (this.#controller?.aborted === false) this.#controller.abort(new Error('ended'));
  }
}

/** Joins the values of repeated headers by commas. */
function joinRepeated(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): HeaderMap {
  const joined: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value !== undefined) joined[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return joined;
}

export interface Timeouts {
  /** Until the last header, including the time to connect. */
  readonly headersMs: number;
  /** Between two chunks of the body. */
  readonly silenceMs: number;
  readonly totalMs: number;
}

/**
 * Calls `onEnd` once, when the request times out or the caller aborts. The time that our reader takes counts only
 * towards the total.
 */
class Watchdog {
  /** Says what timed out; null if nothing did. */
  timeout: string | null = null;
  readonly #signal: AbortSignal;
  readonly #onEnd: () => void;
  /** On the monotonic clock, milliseconds. */
  readonly #endsAt: number;
  #isServersTurn = false;
  /** The only timer. Most requests set it once. */
  #timer: NodeJS.Timeout | null = null;

  /** @param totalMs bound of the whole request */
  constructor(totalMs: number, signal: AbortSignal, onEnd: () => void) {
    this.#endsAt = performance.now() + totalMs;
    this.#signal = signal;
    this.#onEnd = onEnd;
    signal.addEventListener('abort', onEnd);
  }

  /** The server must send something within `ms`. */
  waitForServer(ms: number): void {
    this.#isServersTurn = true;
    const leftMs = this.#endsAt - performance.now();
    this.#set(Math.min(ms, leftMs), ms < leftMs ? 'stopped responding' : 'took too long');
  }

  /** The server has sent something. Until the next `waitForServer`, only the total counts. */
  waitForReader(): void {
    this.#isServersTurn = false;
    // Leave the timer running: it is set again if it fires, which is rare. It must not keep the process
    // alive if the reader stops reading.
    this.#timer?.unref();
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#onEnd);
  }

  #set(ms: number, problem: string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(problem), Math.max(0, ms));
  }

  #expire(problem: string): void {
    const leftMs = this.#endsAt - performance.now();
    if (!this.#isServersTurn && leftMs > 0) {
      this.#set(leftMs, 'took too long');
      this.#timer?.unref();
      return;
    }
    this.timeout = `the marketplace ${this.#isServersTurn ? problem : 'took too long'}`;
    this.#onEnd();
  }
}
