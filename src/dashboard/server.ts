import { readFile } from 'node:fs/promises';
import { isLoopback } from '../domain/address.js';
import { DASHBOARD, LIMITS, ListenError, serve, type WebServer } from '../web/listen.js';
import { dashboardApp } from './app.js';
import type { DashboardParts } from './context.js';
import { LiveWork } from './live.js';

const DASHBOARD_LIMITS = {
  ...LIMITS,
  headerBytes: 16 * 1024,
  /** A list may take long to come in. */
  requestMs: 10 * 60_000,
  /** Live pages and downloads last; the limit on silence holds for them. */
  responseMs: 0,
  /** Each open tab keeps one. */
  connections: 256,
};

/** Largest list that can be sent, bytes. */
const LARGEST_LIST = 512 * 1024 * 1024;

/**
 * Serves the dashboard at `DASHBOARD_LISTEN`.
 * @throws {ListenError} when it can't listen there; and when other machines could reach it without a
 *   login or without TLS
 */
export async function startDashboard(
  parts: Omit<DashboardParts, 'door' | 'live' | 'uploads'>,
): Promise<WebServer | null> {
  const { config, store, log } = parts;
  const { listen, hosts, url, tls, isBehindProxy } = config.dashboard;
  if (listen === null) return null;
  const isOnlyHere = isLoopback(listen.host);
  if (!isOnlyHere && tls === null && !isBehindProxy) {
    throw new ListenError(
      `the dashboard would be open to other machines at ${listen.host} without TLS`,
      'set DASHBOARD_TLS_CERT_FILE and DASHBOARD_TLS_KEY_FILE, or DASHBOARD_BEHIND_PROXY=true behind a proxy with TLS',
    );
  }
  if (!isOnlyHere && (await store.access.users()).length === 0) {
    throw new ListenError(
      `the dashboard would be open to other machines at ${listen.host}, and nobody has an account`,
      'add one with `seller-mirror users add NAME --role operator`',
    );
  }
  const live = new LiveWork(() => store.overview.running());
  // Without the brackets of an IPv6 address, as names are compared.
  const named = url === null ? [] : [new URL(url).hostname.replace(/^\[|\]$/g, '')];
  const door = {
    hosts: [...hosts, ...named],
    isSecure: tls !== null || isBehindProxy,
    isBehindProxy,
  };
  const target = { ...listen, tls: tls === null ? undefined : await readTls(tls) };
  const ended = new AbortController();
  const uploads = { mostBytes: LARGEST_LIST, ended: ended.signal };
  const pages = dashboardApp({ ...parts, door, live, uploads });
  const server = await serve(() => pages, target, DASHBOARD, DASHBOARD_LIMITS, log);
  return {
    url: url ?? server.url,
    async close() {
      live.close();
      await server.close();
      ended.abort();
    },
  };
}

async function readTls({ certFile, keyFile }: { certFile: string; keyFile: string }) {
  const read = (path: string, setting: string): Promise<string> =>
    readFile(path, 'utf8').catch((error: unknown) => {
      throw new ListenError(
        `${path}, named by ${setting}, can’t be read (${(error as NodeJS.ErrnoException).code})`,
        `name a file that this user may read in ${setting}`,
      );
    });
  const [cert, key] = await Promise.all([
    read(certFile, 'DASHBOARD_TLS_CERT_FILE'),
    read(keyFile, 'DASHBOARD_TLS_KEY_FILE'),
  ]);
  return { cert, key };
}
