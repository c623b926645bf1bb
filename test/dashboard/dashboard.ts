import { randomBytes, scryptSync } from 'node:crypto';
import { afterEach, beforeEach, expect } from 'vitest';
import { openApp, type App } from '../../src/app.js';
import { readConfig, type Config } from '../../src/config/index.js';
import { disk } from '../../src/config/load.js';
import { dashboardApp } from '../../src/dashboard/app.js';
import type { Endpoint } from '../../src/dashboard/context.js';
import { LiveProgress } from '../../src/dashboard/live.js';
import { startDashboard } from '../../src/dashboard/server.js';
import { silentLog, type Log } from '../../src/domain/log.js';
import type { Queues } from '../../src/service/queue/queues.js';
import type { RunDeps } from '../../src/catalogue/types.js';
import { performMirrorTask } from '../../src/catalogue/mirror-task.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { readRunning } from '../../src/catalogue/overview-store.js';
import { KEY, never, useMirror, type Mirror } from '../support/mirror.js';

export const HOST = 'http://127.0.0.1:8791';

/** The dashboard on a test's database, called without a socket. */
export interface TestDashboard {
  readonly queues: Queues;
  readonly config: Config;
  readonly request: (path: string, init?: RequestInit) => Promise<Response>;
  /** Logs in with a link as an operator, or with an account of this role. */
  login(role?: Role): Promise<Visitor>;
  close(): Promise<void>;
}

/** Presses the button of the page that the login link of an account opens. */
export function enter({ request }: Pick<TestDashboard, 'request'>, path: string) {
  const token = new URL(path, HOST).searchParams.get('token') ?? '';
  const body = new URLSearchParams({ token });
  return request('/login/link', { method: 'POST', headers: { origin: HOST }, body });
}

/** A logged-in user. */
export interface Visitor {
  readonly cookie: string;
  /** The text of a page. */
  readonly page: (path: string) => Promise<string>;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  /** Sends a form as a page does, with its token. */
  post(path: string, fields?: Record<string, string>): Promise<Response>;
}

interface DashboardOptions {
  readonly settings?: Readonly<Record<string, string>>;
  /** Largest list in bytes. */
  readonly maxBytes?: number;
}

const opened = new Set<TestDashboard>();

/** A database and a dashboard on it for each test of a file. Closes every dashboard a test opens. */
export function useDashboard() {
  const mirror = useMirror();
  let dashboard: TestDashboard;
  beforeEach(async () => {
    dashboard = await openDashboard(mirror());
  });
  closeDashboards();
  return { mirror, dashboard: () => dashboard };
}

/** Closes the dashboards that a test opened. */
export function closeDashboards(): void {
  afterEach(async () => {
    await Promise.all([...opened].map((dashboard) => dashboard.close()));
    opened.clear();
  });
}

export async function openDashboard(
  mirror: Mirror,
  endpoint: Partial<Endpoint> = {},
  { settings = {}, maxBytes = 1024 ** 2 }: DashboardOptions = {},
): Promise<TestDashboard> {
  const { db, databaseUrl } = mirror;
  const env = { DATABASE_URL: databaseUrl, ...settings };
  const config = readConfig(env, { cwd: '/', files: disk, needs: 'store' });
  const queues = await mirror.queues();
  const live = new LiveProgress(() => readRunning(db));
  const ended = new AbortController();
  let jobs: Promise<App> | null = null;
  const withMarketplace: App['withMarketplace'] = async (...work) => {
    jobs ??= openApp(config, 'test', ended.signal);
    return (await jobs).withMarketplace(...work);
  };
  const app = dashboardApp({
    config,
    db,
    queues,
    live,
    log: silentLog,
    withMarketplace,
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
    const token = formTokenIn(await page('/'));
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

  const dashboard: TestDashboard = {
    queues,
    config,
    request,
    async login(role) {
      if (role === undefined) return visit(await request(await loginLink(mirror)));
      await addAccount(mirror, role, role);
      return visit(await logIn(request, role, PASSWORD));
    },
    async close() {
      live.close();
      ended.abort();
      await (await jobs)?.close();
    },
  };
  opened.add(dashboard);
  return dashboard;
}

/** Serves the dashboard alone, at any free port of this machine unless the settings say otherwise. */
export async function startServer(
  mirror: Mirror,
  settings: Readonly<Record<string, string>>,
  log: Log,
) {
  const { db, databaseUrl } = mirror;
  const env = { DATABASE_URL: databaseUrl, DASHBOARD_LISTEN: '127.0.0.1:0', ...settings };
  const server = await startDashboard({
    config: readConfig(env, { cwd: '/', files: disk, needs: 'store' }),
    db,
    database: { url: databaseUrl, location: null },
    log,
    queues: await mirror.queues(),
    mirror: await mirror.reader(),
    withMarketplace: () => Promise.reject(new Error('this dashboard has no seller')),
  });
  if (server === null) throw new Error('no dashboard');
  return server;
}

/** The path of a new login link, as `dashboard link` makes it. */
export async function loginLink(mirror: Mirror, madeBy = 'a test'): Promise<string> {
  const token = randomBytes(32).toString('base64url');
  await mirror.rows(
    `INSERT INTO mirror.login_links (token_hash, made_by, expires_at)
     VALUES (sha256(convert_to($1, 'UTF8')), $2, now() + interval '10 minutes')`,
    [token, madeBy],
  );
  return `/login?token=${token}`;
}

export type Role = 'viewer' | 'operator';

/** Stores an account, by default with `PASSWORD`. */
export async function addAccount(
  mirror: Mirror,
  name: string,
  role: Role = 'viewer',
  passwordHash = PASSWORD_HASH,
): Promise<void> {
  await mirror.rows('INSERT INTO mirror.users (name, role, password_hash) VALUES ($1, $2, $3)', [
    name,
    role,
    passwordHash,
  ]);
}

/** The token of a page's forms; empty without one. */
export function formTokenIn(page: string): string {
  return /name="token" value="([^"]+)"/.exec(page)?.[1] ?? '';
}

/** The text of a page without its tags. */
export function textOf(page: string): string {
  return page.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ');
}

/** Text of HTML, such as the address in a link. */
export function unescaped(html: string): string {
  const characters: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', '#39': "'" };
  return html
    .replaceAll(/&(lt|gt|quot|#39);/g, (_, name: string) => characters[name] ?? '')
    .replaceAll('&amp;', '&');
}

/** Mirrors a seller with five items once. */
export async function mirrorSeller(mirror: Mirror) {
  const catalogue = seededCatalogue({ seed: 3, count: 5 });
  const sim = await mirror.simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
  const deps = mirror.deps(sim.url);
  const sync = (more: Partial<RunDeps> = {}, byHand = true) =>
    performMirrorTask({ ...deps, ...more }, { kind: 'sync', dueAt: new Date(), byHand }, never);
  await sync();
  return { sim, deps, sync };
}

/** Mirrors five items, then holds the removal of four. @returns the run */
export async function holdRemovals(mirror: Mirror, lookupsPerRun = 100): Promise<string> {
  const { sim, sync } = await mirrorSeller(mirror);
  for (let id = 1_001; id <= 1_004; id++) sim.seller(KEY).catalogue.remove(id);
  await sync({ removalGuard: { items: 1, percent: 1 }, lookupsPerRun });
  const [run] = await mirror.rows<{ id: string }>(
    'SELECT max(run_id)::text AS id FROM mirror.held_items',
  );
  return run?.id ?? '';
}

export async function expectNothingQueued({ queues }: TestDashboard): Promise<void> {
  expect(await queues.counts()).toMatchObject({ mirror: { waiting: 0 } });
}

export const PASSWORD = 'correct horse battery';

/** The hash of `PASSWORD` at a low cost; a stored hash contains its cost. */
export const PASSWORD_HASH = [
  'scrypt',
  4,
  btoa('salt'),
  scryptSync(PASSWORD, 'salt', 32, { N: 16, r: 8 }).toString('base64'),
].join('$');

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
