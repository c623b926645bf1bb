import { Client } from 'pg';

/**
 * Works on a connection of its own, which is closed whatever happens.
 * @param name of the command, which the server shows
 * @param signal cuts the connection off, and with it the query under way
 */
export async function withOwnClient<T>(
  url: string,
  name: string,
  signal: AbortSignal,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ connectionString: url, application_name: `seller-mirror ${name}` });
  // The loss of the connection fails the query under way; unheard, it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  const abort = (): void => void client.end();
  signal.addEventListener('abort', abort, { once: true });
  try {
    // A query whose caller is gone ends within a second. Not every system can notice.
    await client.query('SET client_connection_check_interval = 1000').catch(() => undefined);
    return await work(client);
  } finally {
    signal.removeEventListener('abort', abort);
    await client.end().catch(() => undefined);
  }
}
