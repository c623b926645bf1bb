import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import { Agent, type Dispatcher } from 'undici';
import type { Unreadable } from '../domain/reply.js';
import type { Head } from './judge.js';
import type { CarriedRequest } from './request.js';
import type { HeaderMap } from './retry-after.js';
import { describeError, TransportError } from './transport-error.js';
import { Watchdog } from './watchdog.js';

/** How connections are made: undici's own option. */
export type Connect = NonNullable<Agent.Options['connect']>;

/** Bounds of one HTTP exchange, milliseconds. */
export interface Patience {
  /** From the beginning to the last header received, the connection included. */
  readonly headersMs: number;
  /** Silence within the body. */
  readonly silenceMs: number;
  /** The whole exchange. */
  readonly totalMs: number;
}

/** An HTTP answer of which the head has arrived. */
export interface Response extends Head {
  /** Scheme, host and port that answered. */
  readonly origin: string;
  /**
   * The decompressed body. Ends normally only when all of it came; otherwise throws
   * `TransportError`, or the reason of the aborted signal. Leaving it early closes the connection.
   */
  chunks(maxBytes: number): AsyncGenerator<Buffer, void, undefined>;
  /** Closes the connection without reading on; harmless when all has been read. */
  discard(): void;
}

const CONNECT_TIMEOUT_MS = 10_000;
const INFLATED_CHUNK_BYTES = 256 * 1024;
const MAX_HEADER_BYTES = 64 * 1024;

/** Sends requests and bounds time and size of the answers. */
export class Transport {
  readonly #agent: Agent;

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
   * Sends one request and waits for the head of the answer.
   * @throws TransportError when none comes
   * @throws the signal's reason when it is aborted
   */
  async send(
    target: URL,
    request: CarriedRequest,
    patience: Patience,
    signal: AbortSignal,
  ): Promise<Response> {
    signal.throwIfAborted();
    const watchdog = new Watchdog(patience.totalMs, signal);
    watchdog.expect(patience.headersMs);
    try {
      const answer = await this.#agent.request({
        origin: target.origin,
        path: `${target.pathname}${request.query}`,
        method: request.method,
        headers: request.headers,
        body: request.body,
        signal: watchdog.signal,
      });
      watchdog.rest();
      return receive(answer, target, patience, watchdog);
    } catch (error) {
      watchdog.end();
      throw watchdog.explain(null, () => describeError(error, target.host, null));
    }
  }

  /** Closes all connections at once. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

function receive(
  answer: Dispatcher.ResponseData,
  { host, origin }: URL,
  patience: Patience,
  watchdog: Watchdog,
): Response {
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
      const reader = source[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
      for (;;) {
        watchdog.expect(patience.silenceMs);
        const next = await reader.next();
        watchdog.rest();
        if (next.done === true) return;
        received += next.value.length;
        if (received > maxBytes) {
          throw unreadable(httpStatus, `the answer is larger than the ${maxBytes} bytes allowed`);
        }
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

/** Undoes what `Accept-Encoding` invited; a gzip body may have several members. */
function decompress(body: Readable, encoding: string | undefined, httpStatus: number): Readable {
  const options = { chunkSize: INFLATED_CHUNK_BYTES };
  const name = encoding?.trim().toLowerCase() ?? '';
  if (name === 'identity' || name === '') return body;
  if (name === 'gzip' || name === 'x-gzip') return pipeline(body, createGunzip(options), () => {});
  if (name === 'br') return pipeline(body, createBrotliDecompress(options), () => {});
  throw unreadable(httpStatus, 'the answer is compressed in a way that was not asked for');
}

function unreadable(httpStatus: number, detail: string): TransportError {
  const failure: Unreadable = { kind: 'unreadable', httpStatus, detail, excerpt: '' };
  return new TransportError(failure);
}

function flatten(headers: Dispatcher.ResponseData['headers']): HeaderMap {
  const entries = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(', ') : value]],
  );
  return Object.fromEntries(entries);
}
