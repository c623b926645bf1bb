import { UserError } from '../../domain/user-error.js';
import {
  assertSchemaCompatibility,
  createPostgresBackend,
  DEFAULT_SCHEMA,
  LATEST_SCHEMA_VERSION,
  runMigrations,
  SchemaMigrationRequiredError,
  SchemaVersionMismatchError,
} from 'bullmq';
import { explainDatabaseError, shownUrl } from '../../db/errors.js';
import { createQueuePool, type EndablePool } from '../../db/pools.js';
import { assertWritable } from '../../db/db.js';
import { commandError } from './errors.js';
import type { QueueSettings, Server } from './server.js';

/** The queue in schema `bullmq` of the mirror's database. */
export function postgresServer(
  url: string,
  { applicationName, times: { connectMs, commandMs } }: QueueSettings,
): Server {
  const { pool, end } = createQueuePool(url, {
    applicationName,
    schema: DEFAULT_SCHEMA,
    connectMs,
    queryMs: commandMs,
  });
  return {
    backend: 'postgres',
    forQueues: pool,
    forWorkers: pool,
    // Names the session in which a worker waits for jobs after its queue, so that `getWorkers` finds it.
    factory: createPostgresBackend as Server['factory'],
    prepare: () => migrateSchema(pool),
    ping: () => assertWritable({ pool }),
    explain: (error) => explain(url, error),
    close: () => end(commandMs),
  };
}
/**
 * Migrates BullMQ's schema if it is not up to date. Processes that start at the same time wait for each other.
 * Checks first, because a role that may use the schema may not be allowed to create one.
 */
async function migrateSchema(pool: EndablePool['pool']): Promise<void> {
  const client = await pool.connect();
  try {
    const version = await assertSchemaCompatibility(client, DEFAULT_SCHEMA).catch(
      (error: unknown) => {
        if (error instanceof SchemaMigrationRequiredError) return -1;
        throw error;
      },
    );
    if (version < LATEST_SCHEMA_VERSION) await runMigrations(client, DEFAULT_SCHEMA);
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
}

function explain(url: string, error: unknown): UserError {
  const where = `the queue in ${shownUrl(url)}`;
  if (error instanceof SchemaVersionMismatchError) {
    return new UserError(
      `${where} was created by a newer version of this program`,
      'Run the newer version on all machines.',
      'QUEUE',
    );
  }
  const explained = explainDatabaseError(error, url);
  if (explained !== null)
    return new UserError(`queue: ${explained.message}`, explained.remedy, 'QUEUE');
  return commandError(where, error);
}
