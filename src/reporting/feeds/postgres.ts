import { UserError } from '../../domain/user-error.js';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Client, escapeIdentifier } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import {
  KEEP_ALIVE_MS,
  LOCK_SECONDS,
  SERVER_TIMES,
  ServerConnection,
  connectionError,
} from './server-connection.js';
import { DbClient } from '../../db/connection.js';
import { OLDEST_SERVER } from '../../db/errors.js';
import { typeFit, updateFrom, type Dialect, type SqlConnection, type SqlValue } from './dialect.js';
import { sqlTarget } from './sql-target.js';
import { hashSql } from '../views.js';
import { BUCKET } from './plan.js';
import { HASH, type Target } from './target.js';

/**
 * Opens a PostgreSQL, 14 or newer, as the target of a feed.
 * @param schema the schema of the tables; the first delivery creates it
 * @param signal aborts the connection
 * @throws {UserError} if it is unreachable
 */
export async function postgresTarget(
  url: URL,
  schema: string,
  feed: string,
  signal: AbortSignal,
  times = SERVER_TIMES,
): Promise<Target> {
  signal.throwIfAborted();
  const what = `PostgreSQL at ${url.hostname}${url.port === '' ? '' : `:${url.port}`}`;
  const client = clientOf(url, feed, what);
  // A lost connection fails the current statement. Without a listener it would end the process.
  client.on('error', () => undefined);
  const server = new ServerConnection(
    what,
    () => client.connection.stream as Socket,
    times,
    signal,
  );
  const run = (sql: string, values: readonly SqlValue[]) => {
    let n = 0;
    const numbered = sql.replace(/\?/g, () => `$${(n += 1)}`);
    return server.awaitAnswer(client.query<Record<string, unknown>>(numbered, [...values]));
  };
  const connection: SqlConnection = {
    query: async (sql, values = []) => (await run(sql, values)).rows,
    update: async (sql, values = []) => (await run(sql, values)).rowCount ?? 0,
    async bulk(table, columns, lines) {
      const names = [...columns.map(({ name }) => escapeIdentifier(name)), HASH, BUCKET];
      const copy = client.query(copyFrom(`COPY ${table} (${names.join(', ')}) FROM STDIN`));
      const rows = Readable.from(server.passOn(lines), { objectMode: true, highWaterMark: 4 });
      await server.awaitAnswer(pipeline(rows, copy));
      return copy.rowCount;
    },
    close: () => server.close(() => client.end()),
  };
  try {
    await server.awaitLogin(client.connect());
    await connection.query(
      `SET lock_timeout = '${LOCK_SECONDS}s'; SET statement_timeout = 0; SET jit = off;
       SET idle_in_transaction_session_timeout = 0; SET search_path = ${escapeIdentifier(schema)}`,
    );
    const [row] = await connection.query('SHOW server_version');
    const version = String(row?.['server_version']);
    if (parseInt(version) < OLDEST_SERVER) {
      throw new UserError(
        `${what}: it runs PostgreSQL ${version}`,
        `use PostgreSQL ${OLDEST_SERVER} or newer`,
        'TARGET',
      );
    }
    return sqlTarget(connection, dialectOf(connection, schema, version), feed);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** @throws {UserError} if a certificate file named in the address can't be read */
function clientOf(url: URL, feed: string, what: string): Client {
  try {
    return new DbClient({
      connectionString: url.href,
      application_name: `seller-mirror feed ${feed}`.slice(0, 63),
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    });
  } catch (error) {
    throw connectionError(error, what);
  }
}

function dialectOf(connection: SqlConnection, schema: string, version: string): Dialect {
  const quote = escapeIdentifier;
  const tableName = (name: string): string => `${quote(schema)}.${quote(name)}`;
  return {
    quote,
    tableName,
    begin: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE',
    tableOptions: '',
    fit: (found, wanted) =>
      typeFit(found.replace('integer', 'int'), wanted.replace('integer', 'int')),
    widen: (table, column, type) => `ALTER TABLE ${table} ALTER COLUMN ${column} TYPE ${type}`,
    // The target has the same types and text format as the views.
    typeOf: ({ type }) => type,
    valueSql: (_, value) => value,
    momentSql: (iso) => `timestamptz '${iso}'`,
    comparable: (column) => column,
    textOf: (column) => `(${column})::text`,
    hasCheck: false,
    editedSql: (_, columns) => `t.${HASH} <> ${hashSql(columns, 't')}`,
    updateSql: updateFrom,
    server: `PostgreSQL ${version}`,
    temporary: '',
    async createSchema() {
      const [existing] = await connection.query('SELECT 1 FROM pg_namespace WHERE nspname = ?', [
        schema,
      ]);
      if (existing === undefined) {
        await connection.query(`CREATE SCHEMA IF NOT EXISTS ${quote(schema)}`);
      }
    },
    async table(name) {
      const [row] = await connection.query(
        `SELECT c.relkind IN ('r', 'p', 'f') AS "isTable",
                (SELECT json_agg(json_build_array(a.attname, format_type(a.atttypid, a.atttypmod)))
                   FROM pg_attribute a
                  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
                (SELECT json_agg((SELECT json_agg(a.attname) FROM pg_attribute a
                                   WHERE a.attrelid = c.oid
                                     AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])))
                   FROM pg_index i
                  WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                    AND i.indexprs IS NULL) AS uniques
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = ? AND c.relname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`,
        [schema, name],
      );
      if (row === undefined) return null;
      const columns = (row['columns'] ?? []) as [string, string][];
      return {
        isTable: row['isTable'] === true,
        columns: new Map(columns),
        unique: (row['uniques'] ?? []) as string[][],
      };
    },
    async withLock(work) {
      const name = `seller-mirror/feeds/${schema}`;
      await connection.query('SELECT pg_advisory_lock(hashtextextended(?, 0))', [name]);
      try {
        return await work();
      } finally {
        await connection
          .query('SELECT pg_advisory_unlock(hashtextextended(?, 0))', [name])
          .catch(() => undefined);
      }
    },
  };
}
