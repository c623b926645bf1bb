import type { Dispatcher } from 'undici';
import { inflate, inflaterFor, type Inflater } from './inflate.js';
import { isSuccess } from './judge.js';
import type { HeaderMap } from './retry-after.js';
import {
  flatten,
  MAX_ERROR_BYTES,
  tooLarge,
  type Patience,
  type WholeResponse,
} from './response.js';
import { describeError } from './transport-error.js';
import type { Watchdog } from './watchdog.js';

/** Where an exchange goes, and within what bounds. */
export interface ExchangeTerms {
  /** Scheme, host and port. */
  readonly origin: string;
  readonly host: string;
  readonly patience: Patience;
  /** Largest answer with a status of success, decompressed. */
  readonly maxBytes: number;
}

interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * One request of which the answer is collected as it arrives, without a stream: what a small answer
 * consists of is there before anybody has asked for it.
 */
export class Exchange implements Dispatcher.DispatchHandler, WholeResponse {
  httpStatus = 0;
  headers: HeaderMap = {};
  readonly #terms: ExchangeTerms;
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
    terms: ExchangeTerms,
    head: Waiter<WholeResponse>,
    watch: (onEnd: () => void) => Watchdog,
  ) {
    this.#terms = terms;
    this.#head = head;
    this.#watchdog = watch(() => this.#fail(new Error('the exchange was ended')));
    this.#watchdog.expect(terms.patience.headersMs);
  }

  get origin(): string {
    return this.#terms.origin;
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
    this.#maxBytes = isSuccess(httpStatus) ? this.#terms.maxBytes : MAX_ERROR_BYTES;
    this.#watchdog.rest();
    this.#head?.resolve(this);
    this.#head = null;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#state !== 'open') return;
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) return this.#overflow();
    if (this.#reader !== null) this.#watchdog.expect(this.#terms.patience.silenceMs);
  }

  onResponseEnd(): void {
    this.#complete();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error);
  }

  /**
   * The decompressed body: of a success all of it, of an error what is read of those.
   * @throws TransportError when it breaks off, can't be decompressed or is too large
   * @throws the reason of the aborted signal
   */
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
      throw describeError(error, this.#terms.host, this.httpStatus);
    }
    throw tooLarge(this.httpStatus, this.#maxBytes);
  }

  #arrival(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
      this.#watchdog.expect(this.#terms.patience.silenceMs);
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
      describeError(error, this.#terms.host, httpStatus),
    );
    this.#watchdog.end();
    this.#head?.reject(this.#error);
    this.#reader?.reject(this.#error);
    this.#head = null;
    this.#close();
  }

  /** Closes the connection; harmless when all has come. */
  #close(): void {
    if (this.#controller?.aborted === false) this.#controller.abort(new Error('ended'));
  }
}
