import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Readable, pipeline } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { constants, createBrotliCompress, createDeflate, createGzip } from 'node:zlib';
import type { Answer } from './answer.js';
import type { Fault } from './faults.js';
import type { LogEntry } from './types.js';

type Encoding = 'gzip' | 'br' | 'deflate';
type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

const PREFIXES = {
  bom: '\uFEFF',
  whitespace: '\r\n \t\n\n',
  'php-warnings':
    '<br />\n<b>Warning</b>:  Undefined array key "{media}" in <b>/var/www/app/Item.php</b> on line <b>12</b><br />\nDeprecated: x[] = {"status":"error"}; in y.php\n',
} as const;

/** Node fires timers longer than this (ms) immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Sends an answer with its faults. Returns early if the connection is closed. */
export async function deliver(
  response: ServerResponse,
  answer: Answer,
  faults: readonly Fault[],
  encoding: Encoding | null,
  entry: LogEntry,
): Promise<void> {
  const closed = new AbortController();
  response.once('close', () => closed.abort());
  try {
    await send(response, answer, faults, encoding, entry, closed.signal);
  } catch (error) {
    if (!closed.signal.aborted) throw error;
  }
}

async function send(
  response: ServerResponse,
  { status, headers, body }: Answer,
  faults: readonly Fault[],
  usualEncoding: Encoding | null,
  entry: LogEntry,
  closed: AbortSignal,
): Promise<void> {
  const find = <K extends Fault['kind']>(kind: K) =>
    faults.find((fault): fault is Extract<Fault, { kind: K }> => fault.kind === kind);
  const [truncate, slow, reset] = [find('truncate'), find('slow'), find('reset')];
  const stallMs = Math.min(find('stall')?.ms ?? 0, MAX_TIMER_MS);
  const encoding = find('encoding')?.encoding ?? usualEncoding;
  const text = find('prefix')?.text ?? '';
  const prefix = Buffer.from(typeof text === 'object' ? text.raw : text && PREFIXES[text]);

  if (stallMs > 0) await sleep(stallMs, undefined, { signal: closed });
  if (reset !== undefined && reset.afterBytes === undefined) return resetConnection(response);
  const isCut = truncate !== undefined || reset !== undefined;
  let length = body.length;
  if (length === null && isCut) {
    length = 0;
    for await (const chunk of body.chunks()) length += chunk.length;
  }
  const full = length === null ? null : length + prefix.length;
  let end = reset?.afterBytes ?? Infinity;
  if (truncate !== undefined) {
    end = 'bytes' in truncate ? truncate.bytes : Math.floor((full ?? 0) * truncate.fraction);
  }
  let framing: Record<string, string | number> = {};
  if (encoding !== null) framing = { 'Content-Encoding': encoding, Vary: 'Accept-Encoding' };
  else if (full !== null && (!isCut || truncate?.how === 'short')) framing['Content-Length'] = full;
  response.writeHead(status, { ...headers, ...framing });
  entry.status = status;
  if (response.req.method === 'HEAD') return void response.end();

  const cut = pieces(joined([prefix], body.chunks()), end);
  const encoded = encoding === null ? cut : compressed(cut, encoding);
  const sent = slow === undefined ? encoded : pieces(encoded, Infinity, slow.chunkBytes);
  for await (const chunk of sent) {
    entry.bytesSent += chunk.length;
    if (!response.write(chunk)) await once(response, 'drain', { signal: closed });
    if (slow !== undefined) await sleep(slow.pauseMs, undefined, { signal: closed });
  }
  if (!isCut || (reset === undefined && truncate?.how === 'clean')) return void response.end();
  // Wait until the bytes are sent. Otherwise the connection would end too early.
  response.flushHeaders();
  await new Promise((resolve) => response.write('', resolve));
  if (reset === undefined) response.destroy();
  else resetConnection(response);
}

function resetConnection(response: ServerResponse): void {
  if (response.socket === null) response.destroy();
  else response.socket.resetAndDestroy();
}

async function* joined(...parts: Chunks[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield* part;
}

/** The first `end` bytes in chunks of at most `size`. */
async function* pieces(chunks: Chunks, end: number, size = Infinity): AsyncGenerator<Uint8Array> {
  let left = end;
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length && left > 0; at += size) {
      const piece = chunk.subarray(at, at + Math.min(size, left));
      left -= piece.length;
      yield piece;
    }
    if (left <= 0) return;
  }
}

function compressed(chunks: Chunks, encoding: Encoding): AsyncIterable<Uint8Array> {
  const compressors = {
    br: () => createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
    gzip: createGzip,
    deflate: createDeflate,
  };
  // The reader of the compressor gets its errors.
  return pipeline(Readable.from(chunks), compressors[encoding](), () => undefined);
}

export function chooseEncoding(accepted: string): Encoding | null {
  const names = accepted.split(',').map((part) => part.replace(/;.*/, '').trim());
  return (['br', 'gzip'] as const).find((name) => names.includes(name)) ?? null;
}
