import { UserError } from '../domain/user-error.js';
import type { HttpBindings } from '@hono/node-server';
import type { Context, Hono } from 'hono';
import type { Wanted } from '../catalogue/requests.js';
import type { App } from '../app.js';
import type { Config } from '../config/index.js';
import type { Log } from '../domain/log.js';
import { sourceWords } from '../codes/words.js';
import { maskCode } from '../domain/secret.js';
import type { Queues } from '../service/queue/queues.js';
import { type DashboardSession, logAction } from './access-store.js';
import { askForRuns } from '../service/ask.js';
import { listLiveProcesses } from '../service/processes-store.js';
import type { Mirror } from '../db/mirror.js';
import type { Database } from '../db/open.js';
import type { Db } from '../db/db.js';
import type { LiveProgress } from './live.js';
import type { NavCounts } from './nav-store.js';

/** Values that middleware adds to a request. */
export interface DashboardEnv {
  Bindings: Partial<HttpBindings>;
  Variables: {
    session: DashboardSession;
    /** Token for the session's forms. */
    token: string;
    /** Version of the live progress when the page was rendered; the browser updates newer ones. */
    version: string;
    /** Numbers beside the sections. Pages before the login have none. */
    counts: NavCounts;
  };
}

export type DashboardContext = Context<DashboardEnv>;

/** How the dashboard can be reached. */
export interface Endpoint {
  /** Allowed host names in lower case, besides `localhost` and the listener's address. */
  readonly hosts: readonly string[];
  /** Browsers use TLS, terminated here or by a proxy. */
  readonly isSecure: boolean;
  /** A proxy reports client addresses. */
  readonly isBehindProxy: boolean;
}

/** What the dashboard needs to run. */
export interface DashboardParts {
  readonly config: Config;
  readonly db: Db;
  readonly database: Pick<Database, 'url' | 'location'>;
  /** Read-only client of the tables and reporting views. */
  readonly mirror: Mirror;
  readonly queues: Queues;
  /** Runs work that calls the marketplace with a seller's API key. */
  readonly withMarketplace: App['withMarketplace'];
  readonly live: LiveProgress;
  readonly log: Log;
  readonly endpoint: Endpoint;
  readonly uploads: {
    /** Largest list in bytes. */
    readonly maxBytes: number;
    /** Aborted when the dashboard stops: ends the reading of lists. */
    readonly ended: AbortSignal;
  };
}

export type Dashboard = Hono<DashboardEnv>;

/** An error that the user can fix, shown as a page with its remedy. */
export class Problem extends UserError {
  constructor(
    message: string,
    remedy: string,
    readonly status: 403 | 404 | 409 | 413 | 422 = 422,
  ) {
    super(message, remedy, 'FAILED');
  }
}

/** Whether the user may make changes. */
export function isOperator(c: DashboardContext): boolean {
  return c.get('session').role === 'operator';
}

/** Whether the request belongs to a session. Pages before the login have none. */
export function isLoggedIn(c: DashboardContext): boolean {
  return (c.get('session') as DashboardSession | undefined) !== undefined;
}

/** Whether a viewer is logged in: viewers see purchase codes masked. */
export function isViewer(c: DashboardContext): boolean {
  return isLoggedIn(c) && c.get('session').role === 'viewer';
}

/** A list's name. For viewers that of a file is masked as a code is: it may contain one. */
export function listName(c: DashboardContext, name: string): string {
  return sourceWords(name) ?? (isViewer(c) ? maskCode(name) : name);
}

export function sellerNotFound(): Problem {
  return new Problem('Seller not found', 'The overview lists all sellers.', 404);
}

/** Runs an action of the user and records it with its outcome in the action log. */
export async function runAction<T>(
  c: DashboardContext,
  { db }: Pick<DashboardParts, 'db'>,
  what: { readonly action: string; readonly target: string | null },
  work: () => Promise<T>,
): Promise<T> {
  const { who } = c.get('session');
  try {
    const result = await work();
    await logAction(db, { who, ...what, outcome: 'done' });
    return result;
  } catch (error) {
    const outcome = error instanceof Problem ? error.message : 'failed';
    await logAction(db, { who, ...what, outcome });
    throw error;
  }
}

/** Asks for a sync of a seller, or for a part of it, which a worker performs. */
export async function enqueueSync(
  c: Context<DashboardEnv>,
  parts: Pick<DashboardParts, 'config' | 'db' | 'queues'>,
  seller: string,
  wanted: Wanted = { kind: 'sync' },
): Promise<void> {
  await askForRuns(parts, parts.queues, seller, wanted, c.get('session').who);
}

/** The notice to show after a job was queued. Warns when no worker is running. */
export async function queueNotice(db: Db): Promise<'queued' | 'no-worker'> {
  const workers = await listLiveProcesses(db, 'worker');
  return workers.length > 0 ? 'queued' : 'no-worker';
}
