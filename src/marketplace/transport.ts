import { pipeline, type Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import { Aborts } from './aborts.js';
import { Exchange } from './exchange.js';
import { inflaterFor } from './inflate.js';
import type { CarriedRequest } from './request.js';
import {
  flatten,
  tooLarge,
  type Patience,
  type StreamedResponse,
  type WholeResponse,
} from './response.js';
import { describeError } from './transport-error.js';
import { Watchdog } from './watchdog.js';

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

/** Sends requests and bounds time and size of the answers. */
export class Transport {
  readonly #agent: Agent;
  readonly #aborts = new Aborts();

  constructor(connect: Connect = { timeout: CONNECT_TIMEOUT_MS }) {
    this.#agent = new Agent({
      // Our own watchdog keeps time: it knows when it is us who are slow.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_HEADER_BYTES,
      connect,
    });
  }

  /**
   * Sends one request and waits for the head of the answer, of which the body is a stream.
   * @throws TransportError when none comes
   * @throws the signal's reason when it is aborted
   */
  async stream(
    target: Target,
    request: CarriedRequest,
    patience: Patience,
    signal: AbortSignal,
  ): Promise<StreamedResponse> {
    signal.throwIfAborted();
    const controller = new AbortController();
    const watchdog = new Watchdog(patience.totalMs, signal, this.#aborts, () => controller.abort());
    watchdog.expect(patience.headersMs);
    try {
      const answer = await this.#agent.request({
        ...dispatchOptions(target, request),
        signal: controller.signal,
      });
      watchdog.rest();
      return receive(answer, target, patience, watchdog);
    } catch (error) {
      watchdog.end();
      throw watchdog.explain(null, () => describeError(error, target.host, null));
    }
  }

  /**
   * Sends one request and waits for the head of the answer, of which the body is collected.
   * @param maxBytes largest answer of a success, decompressed
   * @throws as `stream`
   */
  gather(
    target: Target,
    request: CarriedRequest,
    patience: Patience,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<WholeResponse> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const { origin, host } = target;
      const watch = (onEnd: () => void): Watchdog =>
        new Watchdog(patience.totalMs, signal, this.#aborts, onEnd);
      const terms = { origin, host, patience, maxBytes };
      const exchange = new Exchange(terms, { resolve, reject }, watch);
      this.#agent.dispatch(dispatchOptions(target, request), exchange);
    });
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

function dispatchOptions({ origin, path }: Target, request: CarriedRequest) {
  const { query, method, headers, body } = request;
  return { origin, path: query === '' ? path : `${path}${query}`, method, headers, body };
}

function receive(
  answer: Dispatcher.ResponseData,
  { host, origin }: Target,
  patience: Patience,
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
        watchdog.expect(patience.silenceMs);
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

/** Undoes what `Accept-Encoding` invited. */
function decompress(
  body: Readable,
  encoding: string | undefined,
  httpStatus: number,
): AsyncIterable<Buffer> {
  const inflater = encoding === undefined ? null : inflaterFor(encoding, httpStatus);
  if (inflater === null) return body;
  return pipeline(body, inflater.stream({ chunkSize: INFLATED_CHUNK_BYTES }), () => {});
}
