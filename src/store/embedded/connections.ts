import { Client } from 'pg';
import { z } from 'zod';
import { EmbeddedStartError, errorCode } from '../errors.js';
import { readSmall, files } from './place.js';

/**
 * Locks that commands and keeper talk through; advisory, in database `postgres`, where nobody
 * else has business. A lease is held, shared, by everything that needs the server.
 */
export const LEASE_LOCK = '21325, 1';
/** Held by the one keeper. */
export const KEEPER_LOCK = '21325, 2';

/** A setting of the server's in which it carries the mark of the task it was started for. */
export const START_MARK = 'seller_mirror.start_mark';

/** How a keeper's own session is called, with its process number behind. */
export const KEEPER_NAME = 'seller-mirror keeper';

export const ADMIN_ROLE = 'seller_mirror_admin';
export const APP_ROLE = 'seller_mirror';

/** Passwords of the two roles; both are of letters that need no escape in SQL or a URL. */
const CREDENTIALS = z.object({ admin: z.string(), app: z.string() });
export type Credentials = z.infer<typeof CREDENTIALS>;

export async function readCredentials(location: string): Promise<Credentials> {
  const text = await readSmall(files.credentials(location));
  try {
    return CREDENTIALS.parse(JSON.parse(text ?? ''));
  } catch {
    // Neither the text nor the parser's message, which quotes it, may go on.
    throw new EmbeddedStartError(
      `the passwords of the embedded database, ${files.credentials(location)}, are missing or damaged`,
      'Bring the file back from a backup, or set DATA_DIR to a new folder and mirror again.',
    );
  }
}

/** Address of database `database` on the embedded server, password included. */
export function addressOf(
  credentials: Credentials,
  port: number,
  role: keyof Credentials,
  database: string = APP_ROLE,
): string {
  const name = role === 'admin' ? ADMIN_ROLE : APP_ROLE;
  return `postgresql://${name}:${credentials[role]}@127.0.0.1:${port}/${database}`;
}

/** Connects to database `postgres`. `end` reports a lost connection, so `error` is ignored. */
export async function connect(
  credentials: Credentials,
  port: number,
  role: keyof Credentials,
  applicationName: string,
): Promise<Client> {
  const client = new Client({
    connectionString: addressOf(credentials, port, role, 'postgres'),
    application_name: applicationName,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  return client;
}

const PASSING = new Set(['57P01', '57P02', '57P03', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE']);

/** Whether an error may go away by itself: the server starts, stops, or recovers from a crash. */
export function isPassing(error: unknown): boolean {
  const words = error instanceof Error ? error.message : '';
  return PASSING.has(errorCode(error)) || /Connection terminated|timeout expired/i.test(words);
}
