import type { Socket } from 'node:net';
import { pipeline, Readable, type Duplex } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import type { Agent, Dispatcher } from 'undici';
import symbols from 'undici/lib/core/symbols.js';
import UndiciAgent from 'undici/lib/dispatcher/agent.js';
import { errorCode } from '../domain/error-code.js';
import { unavailable, type Failure, type UnavailableReason } from '../domain/reply.js';
import { isSuccess, type Head } from './judge.js';
import type { HeaderMap } from './rate-limit.js';
import type { HttpRequest } from './request.js';

/** How connections are made: undici's own option. */
export type Connect = NonNullable<Agent.Options['connect']>;

const CONNECT_TIMEOUT_MS = 10_000;
const INFLATED_CHUNK_BYTES = 256 * 1024;
const MAX_HEADER_BYTES = 64 * 1024;
/** Error bodies are read up to here; the message is at their beginning. */
const MAX_ERROR_BYTES = 1024 * 1024;
/** Bytes of a body that may wait for the reader before the server is slowed down. */
const MOST_WAITING_BYTES = 256 * 1024;

export class Transport {
  readonly #agent: Agent;

  constructor(connect: Connect = { timeout: CONNECT_TIMEOUT_MS }) {
    this.#agent = new UndiciAgent({
      // The watchdog keeps time instead: it does not count the time in which our reader is slow.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_HEADER_BYTES,
      connect,
    });
    this.#agent.on('connect', (_origin, targets) => endInOrder(targets.at(-1)));
  }

  /**
   * @param url its query is ignored @returns once the head of the answer has arrived
   * @throws TransportError when no answer comes, or the signal's reason
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

/** What is used of the inside of undici's clients. */
interface Client {
  readonly [symbols.kSocket]: Socket & { [symbols.kParser]?: Parser | null };
}

interface Parser {
  paused: boolean;
  readonly ptr: number;
  readonly llhttp: { readonly llhttp_resume: (ptr: number) => void };
  readonly resume: () => void;
}

/**
 * undici 7 throws where nobody can catch it when a connection ends while its parser is paused: on every
 * server that closes connections, for a list that is read more slowly than it comes
 * (https://github.com/nodejs/undici/issues/5360). So the parser is resumed before undici hears of the end.
 * undici 8 needs no such help, but Node 22.
 */
function endInOrder(client: unknown): void {
  const socket = (client as Client)[symbols.kSocket];
  socket.prependListener('end', () => {
    const parser = socket[symbols.kParser];
    // All bytes have arrived: this hands over what the parser still has, which may pause it again.
    parser?.resume();
    if (parser?.paused !== true) return;
    parser.llhttp.llhttp_resume(parser.ptr);
    parser.paused = false;
  });
}

interface Waiter {
  readonly resolve: (response: HttpResponse) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * An HTTP answer. Its body is read once, whole or as a stream. It is received without one of
 * undici's streams: a small body is complete before anybody asks for it.
 */
export class HttpResponse implements Dispatcher.DispatchHandler, Head {
  httpStatus = 0;
  headers: HeaderMap = {};
  readonly #url: URL;
  readonly #silenceMs: number;
  readonly #signal: AbortSignal;
  readonly #watchdog: Watchdog;
  #controller: Dispatcher.DispatchController | null = null;
  readonly #head: Waiter;
  /** Wakes who waits for more of the body. */
  #wake: () => void = () => {};
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #state: 'open' | 'complete' | 'failed' = 'open';
  #error: unknown = null;

  constructor(
    url: URL,
    { headersMs, silenceMs, totalMs }: Timeouts,
    signal: AbortSignal,
    head: Waiter,
  ) {
    this.#url = url;
    this.#silenceMs = silenceMs;
    this.#signal = signal;
    this.#head = head;
    const onEnd = (): void => this.#fail(new Error('the request was ended'));
    this.#watchdog = new Watchdog(totalMs, signal, onEnd);
    this.#watchdog.expect(headersMs);
  }

  get origin(): string {
    return this.#url.origin;
  }

  /** @param maxBytes of a successful body, decompressed; of an error, about the first MiB is read */
  async body(maxBytes: number): Promise<Buffer> {
    const isError = !isSuccess(this.httpStatus);
    const whole = this.#whole(isError ? MAX_ERROR_BYTES : maxBytes);
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

  /** A body that has arrived and needs no decompression, as almost all small ones: no streams for these. */
  #whole(maxBytes: number): Buffer | null {
    const isPlain = isIdentity(this.headers['content-encoding'] ?? '');
    if (this.#state !== 'complete' || !isPlain || this.#waitingBytes > maxBytes) return null;
    this.#signal.throwIfAborted();
    const arrived = this.#waiting;
    this.#waiting = [];
    return arrived.length === 1 ? (arrived[0] as Buffer) : Buffer.concat(arrived);
  }

  /**
   * The decompressed body. Ends normally only when it is complete; leaving it early closes the connection.
   * @throws TransportError when it breaks off, is damaged or too large; or the signal's reason
   */
  async *chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
    const { httpStatus } = this;
    let size = 0;
    try {
      for await (const chunk of this.#inflated()) {
        this.#signal.throwIfAborted();
        size += chunk.length;
        if (size > maxBytes) {
          const detail = `the answer is larger than the ${maxBytes} bytes allowed`;
          throw unreadableBody(httpStatus, detail);
        }
        yield chunk;
      }
    } catch (error) {
      throw this.#explained(error);
    } finally {
      this.discard();
    }
  }

  /** Closes the connection unless the whole body has arrived. */
  discard(): void {
    this.#watchdog.end();
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
    this.headers = flattened(headers);
    this.#watchdog.rest();
    this.#head.resolve(this);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state !== 'open') return;
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    if (this.#waitingBytes > MOST_WAITING_BYTES) controller.pause();
    this.#wake();
  }

  onResponseEnd(): void {
    if (this.#state !== 'open') return;
    this.#state = 'complete';
    this.#watchdog.end();
    this.#wake();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  #inflated(): AsyncIterable<Buffer> {
    const encoding = this.headers['content-encoding'] ?? '';
    if (isIdentity(encoding)) return this.#received();
    const inflater = inflaterFor(encoding, this.httpStatus);
    return pipeline(Readable.from(this.#received()), inflater, () => {});
  }

  async *#received(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      const arrived = this.#waiting;
      this.#waiting = [];
      this.#waitingBytes = 0;
      yield* arrived;
      if (this.#controller?.paused === true) this.#controller.resume();
      if (this.#waiting.length > 0) continue;
      if (this.#state === 'complete') return;
      if (this.#state === 'failed') throw this.#error;
      this.#watchdog.expect(this.#silenceMs);
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#watchdog.rest();
    }
  }

  #fail(error: unknown): void {
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    this.#error = this.#explained(error);
    this.#waiting = [];
    this.#watchdog.end();
    this.#head.reject(this.#error);
    this.#wake();
    this.#close();
  }

  #explained(error: unknown): unknown {
    const httpStatus = this.httpStatus === 0 ? null : this.httpStatus;
    return this.#watchdog.explain(httpStatus, () =>
      describeError(error, this.#url.host, httpStatus),
    );
  }

  #close(): void {
    if (this.#controller?.aborted === false) this.#controller.abort(new Error('ended'));
  }
}

/** Headers as one text each; repeated ones are joined by commas. */
function flattened(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): HeaderMap {
  const flat: Record<string, string> = {};
  for (const name of Object.keys(headers)) {
    const value = headers[name];
    if (value !== undefined) flat[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return flat;
}

/** Whether a body is not compressed. */
function isIdentity(encoding: string): boolean {
  return encoding === '' || /^\s*(?:identity\s*)?$/i.test(encoding);
}

/** @throws TransportError for an encoding not asked for */
function inflaterFor(encoding: string, httpStatus: number): Duplex {
  const options = { chunkSize: INFLATED_CHUNK_BYTES };
  switch (encoding.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip(options);
    case 'br':
      return createBrotliDecompress(options);
    default:
      throw unreadableBody(httpStatus, 'the answer is compressed in a way that was not asked for');
  }
}

export interface Timeouts {
  /** Until the last header, connecting included. */
  readonly headersMs: number;
  /** Silence within the body. */
  readonly silenceMs: number;
  readonly totalMs: number;
}

/**
 * Ends one request on a time-out or when the caller aborts: `onEnd` is called once for either, and
 * `explain` says which it was. Time in which our reader is slow counts only towards the total.
 */
class Watchdog {
  readonly #signal: AbortSignal;
  readonly #onEnd: () => void;
  /** On the monotonic clock, milliseconds. */
  readonly #endsAt: number;
  #isServersTurn = false;
  /** The only timer: a request without trouble sets it once. */
  #timer: NodeJS.Timeout | null = null;
  #timedOut: string | null = null;

  /** @param totalMs bound of the whole request, milliseconds */
  constructor(totalMs: number, signal: AbortSignal, onEnd: () => void) {
    this.#endsAt = performance.now() + totalMs;
    this.#signal = signal;
    this.#onEnd = onEnd;
    signal.addEventListener('abort', onEnd);
  }

  /** The server must send something within `ms`. */
  expect(ms: number): void {
    this.#isServersTurn = true;
    const leftMs = this.#endsAt - performance.now();
    this.#set(Math.min(ms, leftMs), ms < leftMs ? 'fell silent' : 'took too long');
  }

  /** The server has sent something; the reader is next. */
  rest(): void {
    this.#isServersTurn = false;
    // The timer stays and is set again when it fires, which is rare. It must not keep the process
    // alive when the reader stops reading.
    this.#timer?.unref();
  }

  end(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#signal.removeEventListener('abort', this.#onEnd);
  }

  /** The error to throw: the caller's abort reason, the time-out, or else that of `otherwise`. */
  explain(httpStatus: number | null, otherwise: () => TransportError): unknown {
    if (this.#signal.aborted) return this.#signal.reason;
    if (this.#timedOut === null) return otherwise();
    return new TransportError(unavailable(httpStatus, 'timeout', this.#timedOut));
  }

  #set(ms: number, how: string): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(how), Math.max(0, ms));
  }

  #expire(how: string): void {
    const leftMs = this.#endsAt - performance.now();
    if (!this.#isServersTurn && leftMs > 0) {
      this.#set(leftMs, 'took too long');
      this.#timer?.unref();
      return;
    }
    this.#timedOut = `the marketplace ${this.#isServersTurn ? how : 'took too long'}`;
    this.#onEnd();
  }
}

/** A request failed; `failure` says how. Internal: the client turns it into a reply. */
export class TransportError extends Error {
  override name = 'TransportError';
  constructor(readonly failure: Failure) {
    super('the request failed');
  }
}

/** An answer came whose body can't be read. */
function unreadableBody(httpStatus: number, detail: string): TransportError {
  return new TransportError({ kind: 'unreadable', httpStatus, detail, excerpt: '' });
}

/** OpenSSL's errors for an answer that is not TLS; its versions differ. */
const PLAIN_HTTP_CODES = new Set([
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
]);

/**
 * The failure behind an error of undici or Node, by its code only: messages may contain the key.
 * @param httpStatus null until the head has arrived
 */
function describeError(error: unknown, host: string, httpStatus: number | null): TransportError {
  if (error instanceof TransportError) return error;
  const code = errorCode(error) || 'unknown error';
  const failed = (reason: UnavailableReason, detail: string): TransportError =>
    new TransportError(unavailable(httpStatus, reason, detail));
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') {
    return failed('timeout', `${host} can't be reached in time (${code})`);
  }
  if (PLAIN_HTTP_CODES.has(code)) {
    return failed('plain-http', `${host} is asked by https, but this port speaks plain http`);
  }
  if (code === 'EMFILE' || code === 'ENFILE') {
    const remedy = 'raise the limit of open files (ulimit -n)';
    return failed('network', `no connection to ${host} can be opened (${code}): ${remedy}`);
  }
  if (httpStatus === null) return failed('network', `${host} can't be reached (${code})`);
  return failed('cut-off', `the answer of ${host} ended early or is damaged (${code})`);
}
