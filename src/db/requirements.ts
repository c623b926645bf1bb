import { UserError } from '../domain/user-error.js';
import { type Client, escapeIdentifier } from 'pg';
import { DbClient, onlyRow } from './connection.js';
import { assertServerVersion } from './errors.js';

/** A connection pooler hands each transaction to another session. */
export function poolerError(): UserError {
  return new UserError(
    'DATABASE_URL leads to a connection pooler that gives each transaction another session, such as PgBouncer with pool_mode = transaction or statement: locks would be left behind on its connections',
    'Set pool_mode = session for this database or user, or point DATABASE_URL to PostgreSQL itself.',
    'STORE_POOLER',
  );
}

interface Server {
  readonly version: number;
  readonly encoding: string;
  readonly database: string;
  readonly pid: number;
}

/**
 * Checks what every use of a database needs: its version, its encoding, and sessions of its own.
 * @param client connected to `url`
 * @throws {UserError} with the remedy
 */
export async function assertUsable(client: Client, url: string): Promise<void> {
  const server = onlyRow(
    await client.query<Server>(
      `SELECT current_setting('server_version_num')::int AS version,
              current_setting('server_encoding') AS encoding, current_database() AS database,
              pg_backend_pid() AS pid`,
    ),
  );
  assertServerVersion(server.version);
  if (server.encoding !== 'UTF8') throw encodingError(server);
  // A pooler tells a number of its own. Without one there is nothing else to check.
  if (server.pid !== processIdOf(client)) await assertOwnSession(client, url);
}

function encodingError({ encoding, database }: Server): UserError {
  const name = escapeIdentifier(`${database}_utf8`);
  return new UserError(
    `database ${database} has the encoding ${encoding}, but items and names can be in any script: it must be UTF8`,
    `Create another one and name it in DATABASE_URL: CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0 LOCALE 'C';`,
    'STORE_ENCODING',
  );
}

/** The number of the session's process, as the server told it at login. The driver's types lack it. */
function processIdOf(client: Client): number | null {
  return (client as Client & { readonly processID: number | null }).processID;
}

/** Rounds of the test of sessions. On a quiet pooler one is enough, also if it takes its sessions in turn. */
const ROUNDS = 3;

/**
 * Opens a second session and a transaction in it. If the first session then has another process than before, or both
 * have the same, the pooler passes sessions around.
 * @throws {UserError} `STORE_POOLER`
 */
async function assertOwnSession(first: Client, url: string): Promise<void> {
  const second = new DbClient({ connectionString: url, connectionTimeoutMillis: 30_000 });
  await second.connect();
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const [before, again] = [await processOf(first), await processOf(first)];
      await second.query('BEGIN').catch(assertNoPooler);
      const [other, after] = [await processOf(second), await processOf(first)];
      await second.query('ROLLBACK');
      if (before !== again || again !== after || other === before) throw poolerError();
    }
  } finally {
    await second.end().catch(() => undefined);
  }
}

/** With pool_mode = statement, PgBouncer refuses transactions by a violation of the protocol. */
function assertNoPooler(error: unknown): never {
  throw (error as { code?: unknown }).code === '08P01' ? poolerError() : error;
}

async function processOf(client: Client): Promise<number> {
  return onlyRow(await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).pid;
}
