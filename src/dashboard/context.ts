import type { HttpBindings } from '@hono/node-server';
import type { Context, Hono } from 'hono';
import type { App } from '../app.js';
import type { Config } from '../config/index.js';
import type { Log } from '../domain/log.js';
import type { Queues } from '../queue/queues.js';
import type { DashboardSession } from '../store/access.js';
import { ALIVE_MS, isAlive } from '../store/processes.js';
import type { Mirror } from '../store/mirror.js';
import type { Database } from '../store/open.js';
import type { Store } from '../store/store.js';
import type { LiveWork } from './live.js';

/** What each request carries: the session, once one was found, and the token for its forms. */
export interface DashboardEnv {
  Bindings: Partial<HttpBindings>;
  Variables: {
    session: DashboardSession;
    token: string;
    /** Of the running work, before the page was made: what came later is shown by its script. */
    version: string;
  };
}

export type DashboardContext = Context<DashboardEnv>;

/** How the dashboard can be reached. */
export interface Door {
  /** Names it may be called by, beside addresses of the listener and `localhost`; in lower case. */
  readonly hosts: readonly string[];
  /** It is reached over TLS, its own or a proxy's. */
  readonly isSecure: boolean;
  /** A proxy before it tells who asks. */
  readonly isBehindProxy: boolean;
}

/** What the dashboard works with. */
export interface DashboardParts {
  readonly config: Config;
  readonly store: Store;
  readonly database: Pick<Database, 'url' | 'location'>;
  /** Reads tables and reporting views; PostgreSQL refuses writes on it. */
  readonly mirror: Mirror;
  readonly queues: Queues;
  /** Asks the marketplace, with the key that this machine has of a seller. */
  readonly withJobs: App['withJobs'];
  /** Running work, for live pages. */
  readonly live: LiveWork;
  readonly log: Log;
  readonly door: Door;
  /** Lists that are sent: their largest size in bytes; they are deleted when the dashboard ends. */
  readonly uploads: { readonly mostBytes: number; readonly ended: AbortSignal };
}

export type Dashboard = Hono<DashboardEnv>;

/** Something that the person who asked can mend. Shown as a page. */
export class Problem extends Error {
  constructor(
    message: string,
    readonly remedy: string,
    readonly status: 403 | 404 | 409 | 413 | 422 = 422,
  ) {
    super(message);
  }
}

/** Who may do things, not only look. */
export function isOperator(c: DashboardContext): boolean {
  return c.get('session').role === 'operator';
}

/** Who is logged in, and sees purchase codes masked. */
export function isViewer(c: DashboardContext): boolean {
  return (c.get('session') as DashboardSession | undefined)?.role === 'viewer';
}

export function noSeller(): Problem {
  return new Problem('There is no such seller', 'The overview lists the sellers there are.', 404);
}

/** Does something for who is logged in, and enters it into the log of actions, whatever comes of it. */
export async function act<T>(
  c: DashboardContext,
  { store }: Pick<DashboardParts, 'store'>,
  what: { readonly action: string; readonly target: string | null },
  work: () => Promise<T>,
): Promise<T> {
  const { who } = c.get('session');
  try {
    const result = await work();
    await store.access.log({ who, ...what, outcome: 'done' });
    return result;
  } catch (error) {
    const outcome = error instanceof Problem ? error.message : 'failed';
    await store.access.log({ who, ...what, outcome });
    throw error;
  }
}

/** The notice for a job that was put into the queue: whether somebody is there to do it. */
export async function queuedNotice({ processes }: Store): Promise<'queued' | 'no-worker'> {
  const workers = await processes.live(ALIVE_MS, 'worker');
  return workers.some(isAlive) ? 'queued' : 'no-worker';
}
