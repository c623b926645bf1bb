import type { Secret } from '../domain/secret.js';
import { describeEmbedded, openEmbedded } from './embedded/index.js';
import { migrate } from './migrate.js';
import { readOnlyUrl } from './read-only.js';

export interface DatabaseOptions {
  /** PostgreSQL to use; null: the embedded server under `dataDir`. */
  readonly databaseUrl: Secret | null;
  readonly dataDir: string;
  readonly applicationName: string;
  readonly signal?: AbortSignal;
}

/** A database that answers, with the schema of this program. */
export interface Database {
  /** Connection string, password included: not for logs. */
  readonly url: string;
  /** Where an embedded server keeps the data; null for a server of the user's. */
  readonly location: string | null;
  /** Migrations that were applied just now. */
  readonly applied: readonly string[];
  /** The URL for statements that people write; see `readOnlyUrl`. */
  readOnlyUrl(signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

/**
 * Opens the configured database and brings its schema up to date.
 * @throws {StoreError} when it can't be reached, is too old, or was migrated by a newer program
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const server = await openServer(options);
  const { url, location, adminUrl } = server;
  try {
    const { applied } = await migrate(url);
    return {
      url,
      location,
      applied,
      readOnlyUrl: (forQuery) => readOnlyUrl(url, forQuery, adminUrl),
      close: () => server.close(),
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

type Server = Pick<Database, 'url' | 'location' | 'close'> & { readonly adminUrl?: string };

async function openServer({ databaseUrl, ...embedded }: DatabaseOptions): Promise<Server> {
  if (databaseUrl === null) return openEmbedded(embedded);
  return { url: databaseUrl.reveal(), location: null, close: () => Promise.resolve() };
}

/** Opens the configured server as it is; null when there is no embedded database yet. */
export async function openUnmigrated(options: DatabaseOptions): Promise<Server | null> {
  const { databaseUrl, dataDir } = options;
  const isThere = databaseUrl !== null || (await describeEmbedded(dataDir)) !== null;
  return isThere ? openServer(options) : null;
}
