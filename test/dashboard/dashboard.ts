import { scryptSync } from 'node:crypto';
import { openApp, type App } from '../../src/app.js';
import { dashboardApp } from '../../src/dashboard/app.js';
import type { Endpoint } from '../../src/dashboard/context.js';
import { newToken, tokenHash } from '../../src/dashboard/security.js';
import { LiveProgress } from '../../src/dashboard/live.js';
import { silentLog } from '../../src/domain/log.js';
import { readConfig, type Config } from '../../src/config/index.js';
import type { Queues } from '../../src/queue/queues.js';
import type { Role } from '../../src/store/access.js';
import type { Mirror } from '../support/mirror.js';

export const HOST = 'http://127.0.0.1:8791';

/** The dashboard on a test's mirror, asked without a socket. */
export interface TestDashboard {
  readonly queues: Queues;
  readonly config: Config;
  readonly request: (path: string, init?: RequestInit) => Promise<Response>;
  /** Logs in by a link, as an operator, or as an account with this role. */
  login(role?: Role): Promise<Visitor>;
  close(): Promise<void>;
}

/** Who is logged in. */
export interface Visitor {
  readonly cookie: string;
  /** The text of a page. */
  page(path: string): Promise<string>;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  /** Sends a form as the page does, with its token. */
  post(path: string, fields?: Record<string, string>): Promise<Response>;
}

interface DashboardOptions {
  readonly settings?: Readonly<Record<string, string>>;
  /** Largest list that can be sent. */
  readonly maxBytes?: number;
}

export async function openDashboard(
  mirror: Mirror,
  endpoint: Partial<Endpoint> = {},
  { settings = {}, maxBytes = 1024 ** 2 }: DashboardOptions = {},
): Promise<TestDashboard> {
  const config = readConfig(
    { DATABASE_URL: mirror.databaseUrl, ...settings },
    { cwd: '/', needs: 'store', cronFault: () => null },
  );
  const { store, databaseUrl } = mirror;
  const queues = await mirror.queues();
  const live = new LiveProgress(() => store.overview.running());
  const ended = new AbortController();
  let opened: Promise<App> | null = null;
  const withJobs: App['withJobs'] = async (...work) => {
    opened ??= openApp(config, 'test', ended.signal);
    return (await opened).withJobs(...work);
  };
  const app = dashboardApp({
    config,
    store,
    queues,
    live,
    log: silentLog,
    withJobs,
    mirror: await mirror.reader(),
    database: { url: databaseUrl, location: null },
    uploads: { maxBytes, ended: ended.signal },
    endpoint: { hosts: [], isSecure: false, isBehindProxy: false, ...endpoint },
  });
  const request = async (path: string, init: RequestInit = {}): Promise<Response> =>
    app.request(`${HOST}${path}`, init);

  const visit = async (reply: Response): Promise<Visitor> => {
    const cookie = reply.headers.get('set-cookie')?.split(';')[0] ?? '';
    const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
      request(path, { headers: { cookie, ...headers } });
    const page = async (path: string): Promise<string> => (await get(path)).text();
    const token = /name="token" value="([^"]+)"/.exec(await page('/'))?.[1] ?? '';
    return {
      cookie,
      get,
      page,
      post: (path, fields = {}) =>
        request(path, {
          method: 'POST',
          headers: { cookie, origin: HOST },
          body: new URLSearchParams({ token, ...fields }),
        }),
    };
  };

  return {
    queues,
    config,
    request,
    async login(role) {
      if (role === undefined) {
        const token = newToken();
        await store.access.addLink(tokenHash(token), 'a test');
        return visit(await request(`/login?token=${token}`));
      }
      await store.access.addUser({ name: role, role, passwordHash: PASSWORD_HASH });
      return visit(await logIn(request, role, PASSWORD));
    },
    async close() {
      live.close();
      ended.abort();
      await (await opened)?.close();
    },
  };
}

export const PASSWORD = 'correct horse battery';

/** Its hash, at a cost that a test can afford: a stored hash names its cost. */
export const PASSWORD_HASH = cheapHash(PASSWORD);

function cheapHash(password: string): string {
  const hash = scryptSync(password, 'salt', 32, { N: 16, r: 8 });
  return ['scrypt', 4, btoa('salt'), hash.toString('base64')].join('$');
}

/** Sends the login form. */
export function logIn(
  request: TestDashboard['request'],
  name: string,
  password: string,
  more: Record<string, string> = {},
): Promise<Response> {
  return request('/login', {
    method: 'POST',
    headers: { origin: HOST },
    body: new URLSearchParams({ name, password, ...more }),
  });
}
