import { UserError } from '../domain/user-error.js';
import { readFile } from 'node:fs/promises';
import { MOST_BYTES } from '../codes/lists/types.js';
import { isLoopback } from '../domain/address.js';
import { DASHBOARD, LIMITS, serve, type WebServer } from '../service/listen.js';
import { dashboardApp } from './app.js';
import type { DashboardParts } from './context.js';
import { hasAccount } from './access-store.js';
import { readRunning } from '../catalogue/overview-store.js';
import { LiveProgress } from './live.js';

const DASHBOARD_LIMITS = {
  ...LIMITS,
  headerBytes: 16 * 1024,
  /** Uploading a large list takes a while. */
  requestMs: 10 * 60_000,
  /** No limit: event streams and downloads last. The silence limit still applies. */
  responseMs: 0,
  /** Each open tab keeps one connection. */
  connections: 256,
};

/**
 * Serves the dashboard at `DASHBOARD_LISTEN`.
 * @returns null when the dashboard is off
 * @throws {UserError} when the address is unavailable, or when other machines could reach the
 *   dashboard without TLS or before an account exists
 */
export async function startDashboard(
  parts: Omit<DashboardParts, 'endpoint' | 'live' | 'uploads'>,
): Promise<WebServer | null> {
  const { config, db, log } = parts;
  const { listen, hosts, url, tls, isBehindProxy } = config.dashboard;
  if (listen === null) return null;
  const isLocal = isLoopback(listen.host);
  if (!isLocal && tls === null && !isBehindProxy) {
    throw new UserError(
      `other machines could reach the dashboard at ${listen.host} without TLS`,
      'set DASHBOARD_TLS_CERT_FILE and DASHBOARD_TLS_KEY_FILE, or DASHBOARD_BEHIND_PROXY=true behind a proxy with TLS',
      'LISTEN',
    );
  }
  if (!isLocal && !(await hasAccount(db))) {
    throw new UserError(
      `other machines could reach the dashboard at ${listen.host}, but nobody has an account`,
      'add one with `seller-mirror users add NAME --role operator`',
      'LISTEN',
    );
  }
  const live = new LiveProgress(() => readRunning(db));
  // Host names are compared without the brackets of IPv6 addresses.
  const urlHosts = url === null ? [] : [new URL(url).hostname.replace(/^\[|\]$/g, '')];
  const endpoint = {
    hosts: [...hosts, ...urlHosts],
    isSecure: tls !== null || isBehindProxy,
    isBehindProxy,
  };
  const target = { ...listen, tls: tls === null ? undefined : await readTls(tls) };
  const ended = new AbortController();
  const uploads = { maxBytes: MOST_BYTES, ended: ended.signal };
  const pages = dashboardApp({ ...parts, endpoint, live, uploads });
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
      throw new UserError(
        `can’t read ${path} (${(error as NodeJS.ErrnoException).code}), set by ${setting}`,
        `set ${setting} to a file that this user may read`,
        'LISTEN',
      );
    });
  const [cert, key] = await Promise.all([
    read(certFile, 'DASHBOARD_TLS_CERT_FILE'),
    read(keyFile, 'DASHBOARD_TLS_KEY_FILE'),
  ]);
  return { cert, key };
}
