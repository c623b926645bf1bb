import type { Pool } from 'pg';
import { StoreReadOnlyError } from './errors.js';
import { withOwnClient } from './own-client.js';

/**
 * Asks the database whether it takes writes: what was the primary before a failover may be there and
 * answer everything but what the product lives on.
 * @throws {StoreReadOnlyError} when it takes none; whatever the driver throws when there is no answer
 */
export async function assertWritable(pool: Pool): Promise<void> {
  const { rows } = await pool.query<{ transaction_read_only: string }>(
    'SHOW transaction_read_only',
  );
  if (rows[0]?.transaction_read_only !== 'on') return;
  throw new StoreReadOnlyError(
    'the database takes no writes',
    'Name the primary in DATABASE_URL, and look for default_transaction_read_only in its settings.',
  );
}

/** A database as it looks to the role of its address. */
export interface DatabaseLook {
  readonly version: string;
  readonly bytes: number;
  readonly role: string;
  /** A standby, or set to be read only. */
  readonly isReadOnly: boolean;
  readonly mayCreateSchemas: boolean;
  /** False: it may not write to a table of the mirror that is there. */
  readonly mayWrite: boolean;
  /** Whether the schema of the queue is there. */
  readonly hasQueue: boolean;
}

/** Looks at a database and changes nothing. @throws whatever the driver throws */
export function describeDatabase(url: string, signal: AbortSignal): Promise<DatabaseLook> {
  return withOwnClient(url, 'doctor', signal, async (client) => {
    const { rows } = await client.query<Omit<DatabaseLook, 'bytes'> & { bytes: string }>(
      `SELECT current_setting('server_version') AS version, current_user AS role,
              pg_database_size(current_database()) AS bytes,
              current_setting('transaction_read_only') = 'on' AS "isReadOnly",
              has_database_privilege(current_database(), 'CREATE') AS "mayCreateSchemas",
              to_regnamespace('bullmq') IS NOT NULL AS "hasQueue",
              NOT EXISTS (
                SELECT FROM pg_class
                 WHERE relnamespace = to_regnamespace('mirror') AND relkind = 'r'
                   AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
                            AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
              ) AS "mayWrite"`,
    );
    const [look] = rows;
    if (look === undefined) throw new Error('the server did not say what it is');
    return { ...look, bytes: Number(look.bytes) };
  });
}
