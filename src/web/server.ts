import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Log } from '../domain/log.js';
import { isLocal, listen, type HealthListen } from './listen.js';
import { readiness, type HealthCheck } from './readiness.js';
import { answerFor, type Answer, type Pages } from './pages.js';
import { sparingly } from './sparingly.js';

export { HealthListenError, type HealthListen } from './listen.js';
export type { HealthCheck } from './readiness.js';

export interface HealthServerOptions {
  readonly listen: HealthListen;
  /** What must work for `/readyz` to say so. */
  readonly checks: readonly HealthCheck[];
  /** The text of `/metrics`. */
  readonly metrics: () => Promise<string>;
  readonly log: Log;
}

/** Health endpoints that listen. */
export interface HealthServer {
  /** Without a path. */
  readonly url: string;
  /** Stops listening and ends every connection at once. */
  close(): Promise<void>;
}

/** What a client may cost; times in milliseconds. */
export interface Limits {
  readonly headerBytes: number;
  readonly headersMs: number;
  readonly requestMs: number;
  /** Between two requests on one connection. */
  readonly keepAliveMs: number;
  /** Without any byte sent or received. */
  readonly silenceMs: number;
  /** From a request to the end of its answer's delivery. */
  readonly answerMs: number;
  /** Connections that are kept: of more, the oldest are closed at the next look. */
  readonly connections: number;
  /** Connections between two looks; further ones are refused. */
  readonly burst: number;
  /** Between two looks for connections that are too many, or over their time. */
  readonly sweepMs: number;
  readonly checkMs: number;
  readonly metricsMs: number;
}

const LIMITS: Limits = {
  headerBytes: 8 * 1024,
  headersMs: 5_000,
  requestMs: 10_000,
  keepAliveMs: 5_000,
  silenceMs: 15_000,
  answerMs: 30_000,
  connections: 64,
  burst: 1_024,
  sweepMs: 100,
  checkMs: 3_000,
  metricsMs: 10_000,
};

/** However often somebody asks, metrics are gathered once a second at most. */
const METRICS_GOOD_FOR_MS = 1_000;

/**
 * Serves `/healthz`, `/readyz` and `/metrics`, to anybody who can reach the address: they tell
 * nothing that is secret, and asking costs next to nothing.
 * @throws {HealthListenError} when it can't listen there
 */
export async function startHealthServer(
  options: HealthServerOptions,
  limits: Limits = LIMITS,
): Promise<HealthServer> {
  const { log, checks, metrics } = options;
  const patience = { patienceMs: limits.metricsMs, goodForMs: () => METRICS_GOOD_FOR_MS };
  const pages: Pages = {
    ready: readiness(checks, log, limits.checkMs),
    metrics: sparingly(metrics, patience),
  };
  let local = true;
  const server = boundedServer(limits, (request) => answerFor(request, local, pages));
  const url = await listen(server, options.listen, log);
  local = isLocal(server);
  server.on('error', (error) => log.error(`health endpoints: ${error.name}`));
  return { url, close: () => close(server) };
}

function boundedServer(
  limits: Limits,
  answer: (request: IncomingMessage) => Promise<Answer>,
): Server {
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.sweepMs,
    },
    (request, response) => void respond(request, response),
  );
  server.maxConnections = limits.burst;
  server.setTimeout(limits.silenceMs);
  closeOldest(server, limits);
  return server;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Who takes the answer a byte at a time is never silent.
    const deadline = setTimeout(() => response.destroy(), limits.answerMs);
    response.once('close', () => clearTimeout(deadline));
    send(request, response, await answer(request));
  }
}

/**
 * Closes the oldest connections when there are too many. Turning the newest away instead would let
 * slow clients keep a probe from its answer, which takes a moment.
 */
function closeOldest(server: Server, { connections, sweepMs }: Limits): void {
  const open = new Set<Socket>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  const sweep = setInterval(() => {
    const tooMany = Math.max(0, open.size - connections);
    for (const socket of [...open].slice(0, tooMany)) socket.destroy();
  }, sweepMs);
  sweep.unref();
  server.once('close', () => clearInterval(sweep));
}

function send(request: IncomingMessage, response: ServerResponse, answer: Answer): void {
  const { status, type, body, headers } = answer;
  response.writeHead(status, {
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // A body is not read; what follows it on the connection would be.
    ...(hasBody(request) ? { connection: 'close' } : {}),
    ...headers,
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
