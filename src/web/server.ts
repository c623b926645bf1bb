import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import type { HealthCheck } from '../app/service.js';
import { isLoopback } from '../domain/address.js';
import type { Log } from '../domain/log.js';
import { cachedCall } from './cached-call.js';
import { isLocal, listen, type HealthListen } from './listen.js';
import { METRICS_TYPE, VERSION } from './metrics.js';
import { readiness } from './readiness.js';

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
const METRICS_FRESH_MS = 1_000;

/**
 * Serves `/healthz`, `/readyz` and `/metrics`, to anybody who can reach the address: they tell
 * nothing that is secret, and asking costs next to nothing.
 * @throws {HealthListenError} when it can't listen there
 */
export async function startHealthServer(
  options: HealthServerOptions,
  limits: Limits = LIMITS,
): Promise<HealthServer> {
  let local = true;
  const pages = pagesOf(options, limits, () => local);
  const server = boundedServer(
    limits,
    getRequestListener(pages.fetch, {
      // Clients of HTTP/1.0 send no host.
      hostname: 'localhost',
      // fetch elsewhere in this process keeps its own Request and Response.
      overrideGlobalObjects: false,
    }),
  );
  const url = await listen(server, options.listen, options.log);
  local = isLocal(server);
  server.on('error', (error) => options.log.error(`health endpoints: ${error.name}`));
  return { url, close: () => close(server) };
}

const INDEX = `seller-mirror

/healthz  the process is alive
/readyz   it can work: every check, and what is wrong
/metrics  for Prometheus
`;

/** @param isOnlyHere whether the server can be reached from its own machine only */
function pagesOf(
  { checks, metrics, log }: HealthServerOptions,
  limits: Limits,
  isOnlyHere: () => boolean,
): Hono<{ Bindings: HttpBindings }> {
  const results = readiness(checks, log, limits.checkMs);
  const metricsText = cachedCall(metrics, {
    timeoutMs: limits.metricsMs,
    freshMs: () => METRICS_FRESH_MS,
  });
  const pages = new Hono<{ Bindings: HttpBindings }>({
    // As it was sent: nothing is served under another spelling of its path.
    getPath: (_, options) => options?.env?.incoming.url?.split('?', 1)[0] ?? '',
  });
  pages.use(async (context, next) => {
    const { method = '', headers } = context.env.incoming;
    context.header('cache-control', 'no-store');
    context.header('x-content-type-options', 'nosniff');
    const hasBody =
      headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
    // A body is not read; what follows it on the connection would be.
    if (hasBody) context.header('connection', 'close');
    // A page of the web whose name was made to point to this machine comes with that name.
    if (isOnlyHere() && !isOwnName(headers.host)) {
      return context.text('this is not the host you asked for\n', 421);
    }
    if (method === 'GET' || method === 'HEAD') return await next();
    return context.text('only GET and HEAD\n', 405, { allow: 'GET, HEAD' });
  });
  pages.get('/', (context) => context.text(INDEX));
  pages.get('/healthz', (context) =>
    context.json({ status: 'alive', version: VERSION, uptimeSeconds: process.uptime() }),
  );
  pages.get('/readyz', async (context) => {
    const found = await results();
    const ok = found.every((check) => check.ok);
    return context.json({ status: ok ? 'ready' : 'not ready', checks: found }, ok ? 200 : 503);
  });
  pages.get('/metrics', async (context) =>
    context.body(await metricsText(), 200, { 'content-type': METRICS_TYPE }),
  );
  pages.notFound((context) => context.text('there is nothing here; / lists what there is\n', 404));
  pages.onError((_, context) => context.text('not available just now\n', 503));
  return pages;
}

/** @param host a `Host` header; without one it is no browser that asks */
function isOwnName(host: string | undefined): boolean {
  if (host === undefined) return true;
  const [, name] = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host) ?? [];
  return name !== undefined && isLoopback(name.toLowerCase());
}

function boundedServer(limits: Limits, answer: ReturnType<typeof getRequestListener>): Server {
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.sweepMs,
    },
    (request, response) => {
      // Who takes the answer a byte at a time is never silent.
      const deadline = setTimeout(() => response.destroy(), limits.answerMs);
      response.once('close', () => clearTimeout(deadline));
      answer(request, response).catch(() => response.destroy());
    },
  );
  server.maxConnections = limits.burst;
  server.setTimeout(limits.silenceMs);
  closeOldest(server, limits);
  return server;
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

async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}
