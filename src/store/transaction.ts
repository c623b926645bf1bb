import type { Pool, PoolClient } from 'pg';

/**
 * Does some work in one transaction, on a connection that is lost, and the transaction with it, when
 * the work fails. Every statement sees what was committed before it, whatever the server's default.
 * @param settings statements that set something for this transaction
 */
export async function inTransaction<T>(
  pool: Pool,
  work: (client: PoolClient) => Promise<T>,
  settings = '',
): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query(`BEGIN ISOLATION LEVEL READ COMMITTED;${settings}`);
    const result = await work(client);
    await client.query('COMMIT');
    client.release();
    return result;
  } catch (error) {
    client.release(true);
    throw error;
  }
}
