import {
  assertSchemaCompatibility,
  createPostgresBackend,
  DEFAULT_SCHEMA,
  LATEST_SCHEMA_VERSION,
  type PostgresConnectionOptions,
  runMigrations,
  SchemaMigrationRequiredError,
  SchemaVersionMismatchError,
} from 'bullmq';
import { openQueuePool, type QueuePool } from '../store/queue-pool.js';
import { QueueError } from './errors.js';
import { openSession, refusal, type Server, type SessionOptions } from './connection.js';

/** The queue in PostgreSQL, in a schema of BullMQ's own. */
export function postgresServer(
  url: string,
  applicationName: string,
  options: SessionOptions,
): Server {
  const { connectMs, commandMs } = options.tuning;
  const pool = openQueuePool(url, {
    applicationName,
    schema: DEFAULT_SCHEMA,
    connectMs,
    queryMs: commandMs,
  });
  return {
    backend: 'postgres',
    // The pool opens connections when queries need them.
    reach: () => Promise.resolve(),
    openSession: async () => {
      await migrateSchema(pool);
      // BullMQ knows any pool with these methods by its own, narrower type.
      return openSession(
        pool.pool as unknown as PostgresConnectionOptions,
        // Without its third argument, which would give the sessions of workers another name.
        (name, backendOptions) => createPostgresBackend(name, backendOptions),
        options,
      );
    },
    ping: () => pool.ping(),
    explain: (error) => explain(pool, error),
    close: () => pool.close(commandMs),
  };
}

/**
 * Brings BullMQ's schema up to date; processes that start at the same time wait for each other. It
 * looks first, because a role that may use the schema may not be allowed to create one.
 */
async function migrateSchema({ pool }: QueuePool): Promise<void> {
  const client = await pool.connect();
  try {
    const version = await assertSchemaCompatibility(client, DEFAULT_SCHEMA).catch(notThereYet);
    if (version < LATEST_SCHEMA_VERSION) await runMigrations(client, DEFAULT_SCHEMA);
    client.release();
  } catch (error) {
    client.release(true);
    throw error;
  }
}

function notThereYet(error: unknown): number {
  if (error instanceof SchemaMigrationRequiredError) return -1;
  throw error;
}

function explain(pool: QueuePool, error: unknown): QueueError {
  const where = `the queue in ${pool.where}`;
  if (error instanceof SchemaVersionMismatchError) {
    return new QueueError(
      `${where} was made by a newer version of this program`,
      'Use the newer version everywhere.',
    );
  }
  const explained = pool.explain(error);
  if (explained !== null) return new QueueError(`queue: ${explained.message}`, explained.remedy);
  return refusal(where, error);
}
