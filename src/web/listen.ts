import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import type { Hono } from 'hono';
import { isLoopback } from '../domain/address.js';
import { errorCode } from '../domain/error-code.js';
import type { Log } from '../domain/log.js';

export interface ListenTarget {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** False: nobody chose the port, so another will do when it is taken. */
  readonly chosen: boolean;
  /** Key and certificate in PEM, to serve over TLS. */
  readonly tls?: { readonly key: string; readonly cert: string } | undefined;
}

/** What listens, in messages. */
interface Listener {
  /** In the plural. */
  readonly name: string;
  readonly setting: string;
}

export const DASHBOARD: Listener = {
  name: 'the pages of the dashboard',
  setting: 'DASHBOARD_LISTEN',
};
export const HEALTH: Listener = { name: 'health and metrics', setting: 'HEALTH_LISTEN' };

export class ListenError extends Error {
  override readonly name = 'ListenError';

  constructor(
    message: string,
    /** One sentence: what to do about it. */
    readonly remedy: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** What a client may cost; times in milliseconds. */
export const LIMITS = {
  headerBytes: 8 * 1024,
  headersMs: 5_000,
  requestMs: 10_000,
  /** Between two requests on one connection. */
  keepAliveMs: 5_000,
  /** Without any byte sent or received. */
  silenceMs: 15_000,
  /** From a request to the end of its answer's delivery; 0: no limit. */
  answerMs: 30_000,
  /** Connections that are kept: of more, the oldest are closed at the next look. */
  connections: 64,
  /** Connections between two looks; further ones are refused. */
  burst: 1_024,
  /** Between two looks for connections that are too many, or over their time. */
  sweepMs: 100,
};
export type Limits = Readonly<typeof LIMITS>;

export type Pages = Hono<{ Bindings: HttpBindings }>;

type Answering = Pick<Pages, 'fetch'>;

export interface WebServer {
  /** Without a path. */
  readonly url: string;
  /** Stops listening and ends every connection at once. */
  close(): Promise<void>;
}

/**
 * Serves pages, also to clients that are hostile or slow.
 * @param makePages is given a function that tells whether only this machine can reach them
 * @throws {ListenError} when it can't listen there
 */
export async function serve(
  makePages: (isOnlyHere: () => boolean) => Answering,
  target: ListenTarget,
  listener: Listener,
  limits: Limits,
  log: Log,
): Promise<WebServer> {
  // Every command knows the errors of this module, but few serve pages.
  const { getRequestListener } = await import('@hono/node-server');
  const pages = makePages(() => isLoopback((server.address() as AddressInfo).address));
  const answer = getRequestListener(pages.fetch, {
    // Clients of HTTP/1.0 send no host.
    hostname: 'localhost',
    // fetch elsewhere in this process keeps its own Request and Response.
    overrideGlobalObjects: false,
  });
  const create: typeof createServer = target.tls === undefined ? createServer : createTlsServer;
  const server = create(
    {
      ...target.tls,
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersMs,
      requestTimeout: limits.requestMs,
      keepAliveTimeout: limits.keepAliveMs,
      connectionsCheckingInterval: limits.sweepMs,
    },
    (request, response) => {
      // Who takes the answer a byte at a time is never silent.
      if (limits.answerMs > 0) {
        const deadline = setTimeout(() => response.destroy(), limits.answerMs);
        response.once('close', () => clearTimeout(deadline));
      }
      answer(request, response).catch(() => response.destroy());
    },
  );
  server.maxConnections = limits.burst;
  server.setTimeout(limits.silenceMs);
  closeOldest(server, limits);
  const url = await listen(server, target, listener, log);
  server.on('error', (error) => log.error(`${listener.name}: ${error.name}`));
  return {
    url,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
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

/**
 * Makes the server listen; on any free port when the one given is taken and nobody chose it.
 * @returns its address as a URL without a path
 * @throws {ListenError}
 */
export async function listen(
  server: Server,
  { host, port, chosen, tls }: ListenTarget,
  { name, setting }: Listener,
  log: Log,
): Promise<string> {
  const begin = async (at: number): Promise<void> => {
    server.listen({ host, port: at, exclusive: true });
    await once(server, 'listening');
  };
  try {
    await begin(port).catch(async (error: unknown) => {
      if (chosen || errorCode(error) !== 'EADDRINUSE') throw error;
      await begin(0);
    });
  } catch (error) {
    const { problem, remedy } = listenFault(error) ?? {
      problem: `can’t be used (${errorCode(error)})`,
      remedy: 'choose another address',
    };
    throw new ListenError(
      `${inUrl(host)}:${port}, the address of ${name}, ${problem}`,
      `${remedy} in ${setting}, or turn them off with ${setting}=off`,
      { cause: error },
    );
  }
  const { port: used } = server.address() as AddressInfo;
  const url = `${tls === undefined ? 'http' : 'https'}://${inUrl(host)}:${used}`;
  if (!chosen && port !== 0 && used !== port) {
    log.warn(`port ${port} is taken: ${name} are at ${url}`);
  }
  return url;
}

function inUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Why nothing can listen at an address, and what to do; null for any other error. */
export function listenFault(error: unknown): ListenFault | null {
  return FAULTS[errorCode(error)] ?? null;
}

interface ListenFault {
  readonly problem: string;
  readonly remedy: string;
}

const NO_ADDRESS = {
  problem: 'is not an address of this machine',
  remedy: 'listen on 127.0.0.1, or on 0.0.0.0 for all its addresses',
};

const FAULTS: Readonly<Record<string, ListenFault>> = {
  EADDRINUSE: { problem: 'is taken by another program', remedy: 'choose another port' },
  EACCES: { problem: 'is not for this user', remedy: 'choose a port from 1024 on' },
  EADDRNOTAVAIL: NO_ADDRESS,
  ENOTFOUND: NO_ADDRESS,
  EAI_AGAIN: NO_ADDRESS,
};
