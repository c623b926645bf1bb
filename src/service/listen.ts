import { UserError } from '../domain/user-error.js';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { HttpBindings } from '@hono/node-server';
import type { Hono } from 'hono';
import { isLoopback, type ListenAddress } from '../domain/address.js';
import { errorCode } from '../domain/error-code.js';
import type { Log } from '../domain/log.js';

export interface ListenTarget extends ListenAddress {
  /** Key and certificate in PEM, to serve over TLS. */
  readonly tls?: { readonly key: string; readonly cert: string } | undefined;
}

/** Names a server in messages. */
interface Listener {
  /** In the plural. */
  readonly name: string;
  /** The setting of its address. */
  readonly setting: string;
}

export const DASHBOARD: Listener = {
  name: 'the pages of the dashboard',
  setting: 'DASHBOARD_LISTEN',
};
export const HEALTH: Listener = { name: 'health and metrics', setting: 'HEALTH_LISTEN' };

/** Limits against slow and hostile clients; times in milliseconds. */
export const LIMITS = {
  headerBytes: 8 * 1024,
  headersMs: 5_000,
  requestMs: 10_000,
  /** Between two requests on one connection. */
  keepAliveMs: 5_000,
  /** Without a byte sent or received. */
  idleMs: 15_000,
  /** From a request to the last byte of its response; 0: no limit. */
  responseMs: 30_000,
  /** Open connections. A sweep closes the oldest beyond this number, preferred ones last. */
  connections: 64,
  /** Open connections between two sweeps. Further ones are refused. */
  burst: 1_024,
  /** From too many connections to a sweep. */
  sweepMs: 100,
};
export type Limits = Readonly<typeof LIMITS>;

/** How often Node looks for clients that are over the limits in time (ms). */
const CHECK_EVERY_MS = 1_000;

export type Pages = Hono<{ Bindings: HttpBindings }>;

export interface WebServer {
  /** Without a path. */
  readonly url: string;
  /** Stops listening and ends every connection at once. */
  close(): Promise<void>;
}

/**
 * Serves pages within the limits.
 * @param makePages receives a function that returns true if only this machine can reach the server
 * @throws {UserError} when it can't listen on the address
 */
export async function serve(
  makePages: (isOnlyHere: () => boolean) => Pick<Pages, 'fetch'>,
  target: ListenTarget,
  listener: Listener,
  limits: Limits,
  log: Log,
): Promise<WebServer> {
  // Slow to load, and most commands import this module without serving pages.
  const { getRequestListener } = await import('@hono/node-server');
  const pages = makePages(() => isLoopback((server.address() as AddressInfo).address));
  const respond = getRequestListener(pages.fetch, {
    // For clients of HTTP/1.0, which send no Host header.
    hostname: 'localhost',
    // Other code of this process must keep its own Request and Response.
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
      connectionsCheckingInterval: CHECK_EVERY_MS,
    },
    (request, response) => {
      // A client that reads one byte at a time is never idle.
      if (limits.responseMs > 0) {
        const deadline = setTimeout(() => response.destroy(), limits.responseMs);
        response.once('close', () => clearTimeout(deadline));
      }
      respond(request, response).catch(() => response.destroy());
    },
  );
  server.maxConnections = limits.burst;
  server.setTimeout(limits.idleMs);
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

/** Connections of clients that have proven who they are. */
const preferred = new WeakSet<Socket>();

/** Closes this connection last when there are too many. */
export function prefer(socket: Socket): void {
  preferred.add(socket);
}

/** Closes the oldest connections beyond the limit. Refusing new ones would let slow clients lock out probes. */
function closeOldest(server: Server, { connections, sweepMs }: Limits): void {
  const open = new Set<Socket>();
  let sweep: NodeJS.Timeout | undefined;
  const close = (): void => {
    sweep = undefined;
    const others = [...open].filter((socket) => !preferred.has(socket));
    const inOrder = [...others, ...[...open].filter((socket) => preferred.has(socket))];
    for (const socket of inOrder.slice(0, Math.max(0, open.size - connections))) socket.destroy();
  };
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
    // A little later, so that a request among many slow ones gets its answer.
    if (open.size > connections) sweep ??= setTimeout(close, sweepMs).unref();
  });
  server.once('close', () => clearTimeout(sweep));
}

/**
 * Makes the server listen. If a default port is taken, it listens on any free port.
 * @returns its URL, without a path
 * @throws {UserError}
 */
export async function listen(
  server: Server,
  { host, port, chosen, tls }: ListenTarget,
  { name, setting }: Listener,
  log: Log,
): Promise<string> {
  const listenOn = async (at: number): Promise<void> => {
    server.listen({ host, port: at, exclusive: true });
    await once(server, 'listening');
  };
  try {
    await listenOn(port).catch(async (error: unknown) => {
      if (chosen || errorCode(error) !== 'EADDRINUSE') throw error;
      await listenOn(0);
    });
  } catch (error) {
    const { problem, remedy } = listenFault(error) ?? {
      problem: `can’t be used (${errorCode(error)})`,
      remedy: 'choose another address',
    };
    throw new UserError(
      `${inUrl(host)}:${port}, the address of ${name}, ${problem}`,
      `${remedy} in ${setting}, or turn them off with ${setting}=off`,
      'LISTEN',
      1,
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

interface ListenFault {
  readonly problem: string;
  readonly remedy: string;
}

/** Explains why a server can't listen on an address. @returns null for other errors */
export function listenFault(error: unknown): ListenFault | null {
  return FAULTS[errorCode(error)] ?? null;
}

const NO_ADDRESS = {
  problem: 'is not an address of this machine',
  remedy: 'listen on 127.0.0.1, or on 0.0.0.0 for all its addresses',
};

const FAULTS: Readonly<Record<string, ListenFault>> = {
  EADDRINUSE: { problem: 'is taken by another program', remedy: 'choose another port' },
  EACCES: { problem: 'is not allowed for this user', remedy: 'choose port 1024 or higher' },
  EADDRNOTAVAIL: NO_ADDRESS,
  ENOTFOUND: NO_ADDRESS,
  EAI_AGAIN: NO_ADDRESS,
};
