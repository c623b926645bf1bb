import type { Secret } from '../domain/secret.js';
import { openEmbedded } from './embedded/index.js';
import { migrate } from './migrate.js';
import { readOnlyUrl } from './read-only.js';

export interface DatabaseOptions {
  /** PostgreSQL to use; null: the embedded server under `dataDir`. */
  readonly databaseUrl: Secret | null;
  readonly dataDir: string;
  /** Name of the sessions on the server. */
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
  const { databaseUrl, dataDir, applicationName, signal } = options;
  if (databaseUrl !== null) {
    const url = databaseUrl.reveal();
    return {
      url,
      location: null,
      applied: await migrated(url),
      readOnlyUrl: (forQuery) => readOnlyUrl(url, forQuery),
      close: () => Promise.resolve(),
    };
  }
  const embedded = await openEmbedded({
    dataDir,
    applicationName,
    ...(signal === undefined ? {} : { signal }),
  });
  const { url, adminUrl, location } = embedded;
  try {
    return {
      url,
      location,
      applied: await migrated(url),
      readOnlyUrl: (forQuery) => readOnlyUrl(url, forQuery, adminUrl),
      close: () => embedded.close(),
    };
  } catch (error) {
    await embedded.close();
    throw error;
  }
}

async function migrated(url: string): Promise<readonly string[]> {
  const { applied } = await migrate(url);
  return applied;
}
