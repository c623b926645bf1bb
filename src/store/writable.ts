import type { Pool } from 'pg';
import { StoreReadOnlyError } from './errors.js';

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
