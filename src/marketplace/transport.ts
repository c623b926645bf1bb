import { pipeline, type Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import { isSuccess } from './judge.js';
import type { HeaderMap } from './rate-limit.js';
import type { HttpRequest } from './request.js';
import {
  MAX_ERROR_BYTES,
  describeError,
  flatten,
  inflate,
  inflaterFor,
  tooLarge,
  type Inflater,
  type Timeouts,
  type StreamedResponse,
  type WholeResponse,
} from './response.js';
import { AbortListeners, Watchdog } from './timeouts.js';

/** How connections are made: undici's own option. */
export type Connect = NonNullable<Agent.Options['connect']>;

/** Where a request goes. */
export interface Target {
  /** Scheme, host and port. */
  readonly origin: string;
  readonly host: string;
  readonly path: string;
}

const CONNECT_TIMEOUT_MS = 10_000;
const INFLATED_CHUNK_BYTES = 256 * 1024;
const MAX_HEADER_BYTES = 64 * 1024;

/** Connections to the marketplace. Limits the time and size of its answers. */
export class Transport {
  readonly #agent: Agent;
  readonly #aborts = new AbortListeners();

  constructor(connect: Connect = { timeout: CONNECT_TIMEOUT_MS }) {
    this.#agent = new Agent({
      // The watchdog keeps time instead: it does not count the time in which our reader is slow.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_HEADER_BYTES,
      connect,
    });
  }

  /**
   * Sends one request and waits for the head of the answer, whose body is a stream.
   * @throws TransportError when no answer comes
   * @throws the signal's reason when it is aborted
   */
  async stream(
    target: Target,
    request: HttpRequest,
    timeouts: Timeouts,
    signal: AbortSignal,
  ): Promise<StreamedResponse> {
    signal.throwIfAborted();
    const controller = new AbortController();
    const watchdog = new Watchdog(timeouts.totalMs, signal, this.#aborts, () => controller.abort());
    watchdog.expect(timeouts.headersMs);
    try {
      const answer = await this.#agent.request({
        ...dispatchOptions(target, request),
        signal: controller.signal,
      });
      watchdog.rest();
      return receive(answer, target, timeouts, watchdog);
    } catch (error) {
      watchdog.end();
      throw watchdog.explain(null, () => describeError(error, target.host, null));
    }
  }

  /**
   * Sends one request and waits for the head of the answer, whose body is collected in memory.
   * @param maxBytes largest successful answer, decompressed
   * @throws as `stream`
   */
  collect(
    target: Target,
    request: HttpRequest,
    timeouts: Timeouts,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<WholeResponse> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const { origin, host } = target;
      const watch = (onEnd: () => void): Watchdog =>
        new Watchdog(timeouts.totalMs, signal, this.#aborts, onEnd);
      const options = { origin, host, timeouts, maxBytes };
      const response = new CollectedResponse(options, { resolve, reject }, watch);
      this.#agent.dispatch(dispatchOptions(target, request), response);
    });
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

function dispatchOptions({ origin, path }: Target, request: HttpRequest) {
  const { query, method, headers, body } = request;
  return { origin, path: query === '' ? path : `${path}${query}`, method, headers, body };
}

function receive(
  answer: Dispatcher.ResponseData,
  { host, origin }: Target,
  timeouts: Timeouts,
  watchdog: Watchdog,
): StreamedResponse {
  const httpStatus = answer.statusCode;
  const headers = flatten(answer.headers);
  const discard = (): void => {
    watchdog.end();
    answer.body.on('error', () => {}).destroy();
  };
  async function* chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined> {
    let received = 0;
    try {
      const source = decompress(answer.body, headers['content-encoding'], httpStatus);
      const reader = source[Symbol.asyncIterator]();
      for (;;) {
        watchdog.expect(timeouts.silenceMs);
        const next = await reader.next();
        watchdog.rest();
        if (next.done === true) return;
        received += next.value.length;
        if (received > maxBytes) throw tooLarge(httpStatus, maxBytes);
        yield next.value;
      }
    } catch (error) {
      throw watchdog.explain(httpStatus, () => describeError(error, host, httpStatus));
    } finally {
      discard();
    }
  }
  return { httpStatus, headers, origin, chunks, discard };
}

/** The body decompressed. */
function decompress(
  body: Readable,
  encoding: string | undefined,
  httpStatus: number,
): AsyncIterable<Buffer> {
  const inflater = encoding === undefined ? null : inflaterFor(encoding, httpStatus);
  if (inflater === null) return body;
  return pipeline(body, inflater.stream({ chunkSize: INFLATED_CHUNK_BYTES }), () => {});
}

/** Address and limits of a collected response. */
interface CollectOptions {
  /** Scheme, host and port. */
  readonly origin: string;
  readonly host: string;
  readonly timeouts: Timeouts;
  /** Largest successful answer, decompressed. */
  readonly maxBytes: number;
}

interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * An answer that is collected as it arrives, without a stream: a small body is complete before
 * anybody asks for it.
 */
class CollectedResponse implements Dispatcher.DispatchHandler, WholeResponse {
  httpStatus = 0;
  headers: HeaderMap = {};
  readonly #options: CollectOptions;
  readonly #watchdog: Watchdog;
  #controller: Dispatcher.DispatchController | null = null;
  #head: Waiter<WholeResponse> | null;
  #reader: Waiter<void> | null = null;
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  #maxBytes = 0;
  #state: 'open' | 'complete' | 'failed' = 'open';
  #error: unknown = null;

  constructor(
    options: CollectOptions,
    head: Waiter<WholeResponse>,
    watch: (onEnd: () => void) => Watchdog,
  ) {
    this.#options = options;
    this.#head = head;
    this.#watchdog = watch(() => this.#fail(new Error('the request was ended')));
    this.#watchdog.expect(options.timeouts.headersMs);
  }

  get origin(): string {
    return this.#options.origin;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#state !== 'open') this.#close();
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    httpStatus: number,
    headers: Parameters<typeof flatten>[0],
  ): void {
    if (httpStatus < 200 || this.#state !== 'open') return;
    this.httpStatus = httpStatus;
    this.headers = flatten(headers);
    this.#maxBytes = isSuccess(httpStatus) ? this.#options.maxBytes : MAX_ERROR_BYTES;
    this.#watchdog.rest();
    this.#head?.resolve(this);
    this.#head = null;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state !== 'open') return;
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) return this.#overflow();
    if (this.#reader !== null) this.#watchdog.expect(this.#options.timeouts.silenceMs);
  }

  onResponseEnd(): void {
    this.#complete();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  /** As `WholeResponse.body`. */
  async body(): Promise<Buffer> {
    try {
      const encoding = this.headers['content-encoding'];
      const inflater = encoding === undefined ? null : inflaterFor(encoding, this.httpStatus);
      if (this.#state === 'open') await this.#arrival();
      if (this.#state === 'failed') throw this.#error;
      const [first] = this.#parts;
      const isOne = first !== undefined && this.#parts.length === 1;
      const bytes = isOne ? first : Buffer.concat(this.#parts);
      return inflater === null ? bytes : await this.#inflated(bytes, inflater);
    } finally {
      this.discard();
    }
  }

  discard(): void {
    this.#watchdog.end();
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    this.#close();
  }

  async #inflated(bytes: Buffer, inflater: Inflater): Promise<Buffer> {
    try {
      const { bytes: inflated, isAll } = await inflate(bytes, inflater, this.#maxBytes);
      if (isAll || !isSuccess(this.httpStatus)) return inflated;
    } catch (error) {
      throw describeError(error, this.#options.host, this.httpStatus);
    }
    throw tooLarge(this.httpStatus, this.#maxBytes);
  }

  #arrival(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
      this.#watchdog.expect(this.#options.timeouts.silenceMs);
    });
  }

  #overflow(): void {
    if (!isSuccess(this.httpStatus)) this.#complete();
    else this.#fail(tooLarge(this.httpStatus, this.#maxBytes));
    this.#close();
  }

  #complete(): void {
    if (this.#state !== 'open') return;
    this.#state = 'complete';
    this.#watchdog.end();
    this.#reader?.resolve();
  }

  #fail(error: unknown): void {
    if (this.#state !== 'open') return;
    this.#state = 'failed';
    const httpStatus = this.#head === null ? this.httpStatus : null;
    this.#error = this.#watchdog.explain(httpStatus, () =>
      describeError(error, this.#options.host, httpStatus),
    );
    this.#watchdog.end();
    this.#head?.reject(this.#error);
    this.#reader?.reject(this.#error);
    this.#head = null;
    this.#close();
  }

  /** Closes the connection unless the answer is complete. */
  #close(): void {
    if (this.#controller?.aborted === false) this.#controller.abort(new Error('ended'));
  }
}
