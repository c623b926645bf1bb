import type { Socket } from 'node:net';
import { pipeline, Readable, type Duplex } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import type { Agent, Dispatcher } from 'undici';
import symbols from 'undici/lib/core/symbols.js';
import UndiciAgent from 'undici/lib/dispatcher/agent.js';
import { errorCode } from '../domain/error-code.js';
import { unavailable, type Failure, type UnavailableReason } from '../domain/reply.js';
import { isSuccess } from './judge.js';
import type { Head, HeaderMap } from './rate-limit.js';
import type { HttpRequest } from './request.js';

/** Undici's own option for how connections are made. */
export type Connect = NonNullable<Agent.Options['connect']>;

const CONNECT_TIMEOUT_MS = 10_000;
const DECOMPRESSED_CHUNK_BYTES = 256 * 1024;
const MAX_HEADER_BYTES = 64 * 1024;
/** Read no more than this of an error's body: the message is at its beginning. */
const MAX_ERROR_BYTES = 1024 * 1024;
/** Stop reading from the socket once this much of a body waits for the reader. */
const MAX_BUFFERED_BYTES = 256 * 1024;

/** Sends HTTP requests over undici, on connections that are kept alive. */
export class Transport {
  readonly #agent: Agent;

  constructor(connect: Connect = { timeout: CONNECT_TIMEOUT_MS }) {
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
      const response = new HttpResponse(url, timeouts, signal, { resolve, reject });
      this.#agent.dispatch(options, response);
    });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** The internals of an undici client that `resumeParserAtEnd` needs. */
interface ClientInternals {
  readonly [symbols.kSocket]: Socket & { [symbols.kParser]?: Parser | null };
}

interface Parser {
  paused: boolean;
  readonly ptr: number;
  readonly llhttp: { readonly llhttp_resume: (ptr: number) => void };
  readonly resume: () => void;
}

/**
 * Works around undici 7: it throws an uncatchable error if a connection ends while its parser is paused
 * (https://github.com/nodejs/undici/issues/5360). That happens whenever a list is read more slowly than it
 * arrives from a server that closes connections. So resume the parser before undici handles the end.
 * undici 8 has no such bug, but needs Node 22.
 */
function resumeParserAtEnd(client: unknown): void {
  const socket = (client as ClientInternals)[symbols.kSocket];
  socket.prependListener('end', () => {
    const parser = socket[symbols.kParser];
    // All bytes have arrived. This delivers those that the parser still holds, which may pause it again.
    parser?.resume();
    if (parser?.paused !== true) return;
    parser.llhttp.llhttp_resume(parser.ptr);
    parser.paused = false;
  });
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
  readonly #url: URL;
  readonly #silenceMs: number;
  readonly #signal: AbortSignal;
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
    pending: PendingResponse,
  ) {
    this.#url = url;
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
    const isPlain = isIdentity(this.headers['content-encoding'] ?? '');
    if (this.#state !== 'complete' || !isPlain || this.#bufferedBytes > maxBytes) return null;
    this.#signal.throwIfAborted();
    const chunks = this.#buffered;
    this.#buffered = [];
    return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
  }

  /**
   * Streams the decompressed body. Ends normally only if it is complete. Leaving it early closes the connection.
   * @throws {TransportError} when it is cut off, damaged or too large; an abort throws the signal's reason
   */
  async *chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
    const { httpStatus } = this;
    let size = 0;
    try {
      for await (const chunk of this.#decompressed()) {
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

  #decompressed(): AsyncIterable<Buffer> {
    const encoding = this.headers['content-encoding'] ?? '';
    if (isIdentity(encoding)) return this.#received();
    const decompressor = decompressorFor(encoding, this.httpStatus);
    return pipeline(Readable.from(this.#received()), decompressor, () => {});
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
    if (timeout === null) return describeError(error, this.#url.host, httpStatus);
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

/** True if the body is not compressed. */
function isIdentity(encoding: string): boolean {
  return encoding === '' || /^\s*(?:identity\s*)?$/i.test(encoding);
}

/** @throws {TransportError} for an encoding that was not requested */
function decompressorFor(encoding: string, httpStatus: number): Duplex {
  const options = { chunkSize: DECOMPRESSED_CHUNK_BYTES };
  switch (encoding.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip(options);
    case 'br':
      return createBrotliDecompress(options);
    default:
      throw unreadableBody(httpStatus, 'the answer uses a compression that was not requested');
  }
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

/** A request failed. Internal: the client returns `failure` as the reply. */
export class TransportError extends Error {
  override name = 'TransportError';
  constructor(readonly failure: Failure) {
    super('the request failed');
  }
}

function unreadableBody(httpStatus: number, detail: string): TransportError {
  return new TransportError({ kind: 'unreadable', httpStatus, detail, excerpt: '' });
}

/** Errors of various OpenSSL versions for a response that is not TLS. */
const PLAIN_HTTP_CODES = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/**
 * The failure behind an error of undici or Node. Uses only its code: its message may contain the key.
 * @param httpStatus null before the response headers
 */
function describeError(error: unknown, host: string, httpStatus: number | null): TransportError {
  if (error instanceof TransportError) return error;
  const code = errorCode(error) || 'unknown error';
  const failed = (reason: UnavailableReason, detail: string): TransportError =>
    new TransportError(unavailable(httpStatus, reason, detail));
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return failed('timeout', `connecting to ${host} timed out (${code})`);
  }
  if (PLAIN_HTTP_CODES.has(code)) {
    return failed('plain-http', `${host} is set to https, but this port speaks plain http`);
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    const remedy = 'raise the limit of open files (ulimit -n)';
    return failed('network', `can’t open a connection to ${host} (${code}): ${remedy}`);
  }
  if (httpStatus === null) return failed('network', `${host} can’t be reached (${code})`);
  return failed('cut-off', `the answer from ${host} ended early or is damaged (${code})`);
}
