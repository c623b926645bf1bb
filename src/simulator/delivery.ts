import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Readable, pipeline } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { constants, createBrotliCompress, createDeflate, createGzip } from 'node:zlib';
import type { Answer, Body } from './answer.js';
import type { CutPoint, Fault } from './faults.js';
import type { LogEntry } from './server.js';

const PREFIXES = {
  bom: '\uFEFF',
  whitespace: '\r\n \t\n\n',
  'php-warnings':
    '<br />\n<b>Warning</b>:  Undefined array key "{media}" in <b>/var/www/app/Item.php</b> on line <b>12</b><br />\nDeprecated: x[] = {"status":"error"}; in y.php\n',
} as const;

/** Milliseconds. Node's timers fire at once when given more. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** How the faults of one reply change the way it is sent. */
interface Plan {
  readonly prefix: Buffer;
  readonly truncate: Extract<Fault, { kind: 'truncate' }> | null;
  readonly slow: Extract<Fault, { kind: 'slow' }> | null;
  readonly stallMs: number;
  readonly reset: Extract<Fault, { kind: 'reset' }> | null;
  readonly encoding: Encoding | null;
}

/**
 * Sends an answer with its faults, at the reader's speed. Returns early when the connection is gone.
 */
export async function deliver(
  response: ServerResponse,
  answer: Answer,
  faults: readonly Fault[],
  encoding: Encoding | null,
  entry: LogEntry,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    await send(response, answer, plan(faults, encoding), entry, gone.signal);
  } catch (error) {
    if (!gone.signal.aborted) throw error;
  }
}

async function send(
  response: ServerResponse,
  answer: Answer,
  plan: Plan,
  entry: LogEntry,
  gone: AbortSignal,
): Promise<void> {
  if (plan.stallMs > 0) await sleep(plan.stallMs, undefined, { signal: gone });
  if (plan.reset !== null && plan.reset.afterBytes === undefined) return reset(response);
  const full =
    plan.truncate === null && plan.reset === null ? null : await totalBytes(answer.body, plan);
  const end = endOf(plan, full ?? 0);
  response.writeHead(answer.status, { ...answer.headers, ...framing(answer.body, plan, full) });
  entry.status = answer.status;
  if (response.req.method === 'HEAD') return void response.end();
  for await (const chunk of pieces(answer.body, plan, end)) {
    entry.bytesSent += chunk.length;
    if (!response.write(chunk)) await once(response, 'drain', { signal: gone });
    if (plan.slow !== null) await sleep(plan.slow.pauseMs, undefined, { signal: gone });
  }
  await finish(response, plan);
}

function plan(faults: readonly Fault[], encoding: Encoding | null): Plan {
  const find = <K extends Fault['kind']>(kind: K): Extract<Fault, { kind: K }> | null =>
    (faults.find((fault) => fault.kind === kind) as Extract<Fault, { kind: K }> | undefined) ??
    null;
  const prefix = find('prefix')?.text;
  const text = typeof prefix === 'string' ? PREFIXES[prefix] : (prefix?.raw ?? '');
  return {
    prefix: Buffer.from(text),
    truncate: find('truncate'),
    slow: find('slow'),
    stallMs: Math.min(find('stall')?.ms ?? 0, LONGEST_TIMER),
    reset: find('reset'),
    encoding: find('encoding')?.encoding ?? encoding,
  };
}

async function totalBytes(body: Body, { prefix }: Plan): Promise<number> {
  let total = prefix.length;
  if (body.length !== null) return total + body.length;
  for await (const chunk of body.chunks()) total += chunk.length;
  return total;
}

/** After which byte of the body nothing more is sent. */
function endOf({ truncate, reset }: Plan, full: number): number {
  const point: CutPoint | null =
    truncate ?? (reset === null ? null : { bytes: reset.afterBytes ?? 0 });
  if (point === null) return Number.POSITIVE_INFINITY;
  return 'bytes' in point ? point.bytes : Math.floor(full * point.fraction);
}

function framing(body: Body, plan: Plan, full: number | null): Record<string, string | number> {
  if (plan.encoding !== null) return { 'Content-Encoding': plan.encoding, Vary: 'Accept-Encoding' };
  if (plan.truncate?.how === 'short') return { 'Content-Length': full ?? 0 };
  if (body.length === null || plan.truncate !== null || plan.reset !== null) return {};
  return { 'Content-Length': body.length + plan.prefix.length };
}

function pieces(
  body: Body,
  plan: Plan,
  end: number,
): AsyncIterable<Uint8Array> | Iterable<Uint8Array> {
  let chunks = body.chunks();
  if (plan.prefix.length > 0) chunks = joined([plan.prefix], chunks);
  if (end !== Number.POSITIVE_INFINITY) chunks = upTo(chunks, end);
  if (plan.encoding !== null) chunks = compressed(chunks, plan.encoding);
  return plan.slow === null ? chunks : rechunked(chunks, plan.slow.chunkBytes);
}

async function finish(response: ServerResponse, { truncate, reset: hard }: Plan): Promise<void> {
  if (hard === null && (truncate === null || truncate.how === 'clean')) return void response.end();
  // Wait until the bytes are sent, or the cut would come too early.
  response.flushHeaders();
  await new Promise((resolve) => response.write('', resolve));
  if (hard !== null) return reset(response);
  response.destroy();
}

function reset(response: ServerResponse): void {
  const { socket } = response;
  // A TLS socket can't send a reset itself; closing it without a close_notify has the same effect.
  if (socket === null || 'encrypted' in socket) response.destroy();
  else socket.resetAndDestroy();
}

type Encoding = 'gzip' | 'br' | 'deflate';
type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

/** All chunks of the first part, then those of the next. */
async function* joined(...parts: Chunks[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield* part;
}

/** The first `end` bytes. */
async function* upTo(chunks: Chunks, end: number): AsyncGenerator<Uint8Array> {
  let left = end;
  if (left <= 0) return;
  for await (const chunk of chunks) {
    yield chunk.subarray(0, left);
    left -= chunk.length;
    if (left <= 0) return;
  }
}

/** The same bytes in chunks of at most `size`. */
async function* rechunked(chunks: Chunks, size: number): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += size) yield chunk.subarray(at, at + size);
  }
}

/** The bytes compressed. */
function compressed(chunks: Chunks, encoding: Encoding): AsyncIterable<Uint8Array> {
  const packer =
    encoding === 'br'
      ? createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })
      : encoding === 'gzip'
        ? createGzip()
        : createDeflate();
  // Errors come out where the packer is read.
  pipeline(Readable.from(chunks), packer, () => undefined);
  return packer;
}

/** The encoding that both the client's Accept-Encoding and the server's option allow; null for none. */
export function chooseEncoding(
  option: 'auto' | 'gzip' | 'br' | 'none',
  accepted: string,
): Encoding | null {
  const names = accepted.split(',').map((part) => part.replace(/;.*/, '').trim());
  const offered: readonly Encoding[] =
    option === 'auto' ? ['br', 'gzip'] : option === 'none' ? [] : [option];
  return offered.find((name) => names.includes(name)) ?? null;
}
