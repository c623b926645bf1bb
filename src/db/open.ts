import type { Secret } from '../domain/secret.js';
import { describeEmbedded, openEmbedded } from './embedded/index.js';
import { migrate } from './migrate.js';
import { randomInt } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import { from as copyFrom } from 'pg-copy-streams';
import { explainDatabaseError } from './errors.js';
import { withOwnClient } from './pools.js';
import { IS_POWERFUL } from './read-only.js';
import { onlyRow } from './connection.js';

export interface DatabaseOptions {
  /** Null: the embedded server under `dataDir`. */
  readonly databaseUrl: Secret | null;
  readonly dataDir: string;
  readonly applicationName: string;
  readonly signal?: AbortSignal;
}

/** A reachable database with the current schema. */
export interface Database {
  /** Connection URL with password; never log it. */
  readonly url: string;
  /** Data folder of the embedded server; null for the user's own server. */
  readonly location: string | null;
  /** Migrations that were applied on opening. */
  readonly applied: readonly string[];
  close(): Promise<void>;
}

/**
 * Opens the configured database and brings its schema up to date.
 * @throws {UserError} if it can't be reached, is too old, or was migrated by a newer version
 */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const server = await openServer(options);
  const { url, location } = server;
  try {
    const { applied } = await migrate(url);
    return {
      url,
      location,
      applied,
      close: () => server.close(),
    };
  } catch (error) {
    await server.close();
    throw error;
  }
}

type Server = Pick<Database, 'url' | 'location' | 'close'>;

async function openServer({ databaseUrl, ...embedded }: DatabaseOptions): Promise<Server> {
  if (databaseUrl === null) return openEmbedded(embedded);
  return { url: databaseUrl.reveal(), location: null, close: () => Promise.resolve() };
}

/** Opens the configured server without migrating it; null if there is no embedded database yet. */
export async function openUnmigrated(options: DatabaseOptions): Promise<Server | null> {
  const { databaseUrl, dataDir } = options;
  const exists = databaseUrl !== null || (await describeEmbedded(dataDir)) !== null;
  return exists ? openServer(options) : null;
}

/** A database and the rights of its URL's role. */
export interface DatabaseInfo {
  readonly version: string;
  readonly bytes: number;
  readonly role: string;
  /** A superuser, can become one, or may run programs or access files on the server. */
  readonly isPowerful: boolean;
  /** A standby, or configured as read-only. */
  readonly isReadOnly: boolean;
  readonly mayCreateSchemas: boolean;
  /** Whether the role may write to all existing tables of the mirror. */
  readonly mayWrite: boolean;
  readonly hasQueue: boolean;
  /** Whether the role may use the queue's schema and write to its tables, if they exist. */
  readonly mayUseQueue: boolean;
}

/** True if the role may write to all tables of a schema. */
const mayWriteTo = (schema: string): string => `
  NOT EXISTS (
    SELECT FROM pg_class
     WHERE relnamespace = to_regnamespace('${schema}') AND relkind = 'r'
       AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
                AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')))`;

/** Describes a database and changes nothing. @throws {Error} of the driver */
export function describeDatabase(url: string, signal: AbortSignal): Promise<DatabaseInfo> {
  return withOwnClient(url, 'doctor', signal, async (client) => {
    const result = await client.query<Omit<DatabaseInfo, 'bytes'> & { bytes: string }>(
      `SELECT current_setting('server_version') AS version, current_user AS role,
              ${IS_POWERFUL} AS "isPowerful", pg_database_size(current_database()) AS bytes,
              current_setting('transaction_read_only') = 'on' AS "isReadOnly",
              has_database_privilege(current_database(), 'CREATE') AS "mayCreateSchemas",
              to_regnamespace('bullmq') IS NOT NULL AS "hasQueue",
              coalesce(has_schema_privilege(to_regnamespace('bullmq')::oid, 'USAGE'), true)
                AND ${mayWriteTo('bullmq')} AS "mayUseQueue",
              ${mayWriteTo('mirror')} AS "mayWrite"`,
    );
    const info = onlyRow(result);
    return { ...info, bytes: Number(info.bytes) };
  });
}

/** Each kind of statement that runs, audits and the queue send, on nothing that exists. */
const TRIALS: readonly (readonly [string, string])[] = [
  ['take advisory locks', 'SELECT pg_advisory_xact_lock($1)'],
  ['create temporary tables', 'CREATE TEMPORARY TABLE doctor_trial (word text) ON COMMIT DROP'],
  ['copy rows into tables', 'COPY doctor_trial FROM STDIN'],
  ['write to the tables of schema mirror', 'DELETE FROM mirror.processes WHERE false'],
  ['listen for notifications', 'LISTEN doctor_trial'],
];

/**
 * Tries each kind of write that the product needs in a transaction that is rolled back.
 * @returns what the role may not do and why; null if it may do everything
 * @throws {UserError} for a problem that no right would solve, such as a full disk
 */
export function findRefusedWrite(
  url: string,
  signal: AbortSignal,
): Promise<{ readonly what: string; readonly why: string } | null> {
  return withOwnClient(url, 'doctor', signal, async (client) => {
    await client.query('BEGIN');
    for (const [what, statement] of TRIALS) {
      try {
        if (statement.startsWith('COPY')) {
          await pipeline(['word\n'], client.query(copyFrom(statement)));
        } else await client.query(statement, statement.includes('$1') ? [randomInt(2 ** 40)] : []);
      } catch (error) {
        const known = explainDatabaseError(error, url);
        if (known !== null) throw known;
        return { what, why: error instanceof Error ? error.message : String(error) };
      }
    }
    await client.query('ROLLBACK');
    return null;
  });
}
