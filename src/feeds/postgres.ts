import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Client, escapeIdentifier } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import type { ExportColumn } from '../store/exports.js';
import type { TextRow } from '../store/text-cursor.js';
import { connectionError, sqlTarget, type Dialect, type SqlConnection } from './sql-target.js';
import type { Target, TargetError } from './target.js';

/** Longest wait for a connection (ms). */
const CONNECT_MS = 15_000;

/**
 * Opens a PostgreSQL, 13 or newer, as the target of a feed.
 * @param schema where the tables are; it is made when it is not there
 * @throws {TargetError} when it can't be reached
 */
export async function postgresTarget(url: URL, schema: string, feed: string): Promise<Target> {
  const client = new Client({
    connectionString: url.href,
    application_name: `seller-mirror feed ${feed}`.slice(0, 63),
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
  });
  // The loss of the connection fails the statement under way; unheard, it would end the process.
  client.on('error', () => undefined);
  const place = `${url.hostname}${url.port === '' ? '' : `:${url.port}`}`;
  const failed = (error: unknown): TargetError => connectionError(error, `PostgreSQL at ${place}`);
  const connection: SqlConnection = {
    async query(sql, values = []) {
      let n = 0;
      try {
        const numbered = sql.replace(/\?/g, () => `$${(n += 1)}`);
        return (await client.query<Record<string, unknown>>(numbered, [...values])).rows;
      } catch (error) {
        throw failed(error);
      }
    },
    async insert(table, columns, batches) {
      let rows = 0;
      const lines = async function* (): AsyncGenerator<string> {
        for await (const batch of batches) {
          rows += batch.length;
          yield batch.map(copyLine).join('');
        }
      };
      const names = columns.map(({ name }) => escapeIdentifier(name)).join(', ');
      const copy = client.query(copyFrom(`COPY ${table} (${names}) FROM STDIN`));
      try {
        await pipeline(Readable.from(lines()), copy);
      } catch (error) {
        throw failed(error);
      }
      return rows;
    },
    close: () => client.end().catch(() => undefined),
  };
  try {
    await client.connect();
    await client.query(
      `SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'; SET client_encoding = 'UTF8'`,
    );
    await client.query(`SET search_path = ${escapeIdentifier(schema)}`);
    if (!(await hasSchema(connection, schema))) {
      await connection.query(`CREATE SCHEMA IF NOT EXISTS ${escapeIdentifier(schema)}`);
    }
    const [row] = await connection.query('SHOW server_version');
    const version = `PostgreSQL ${String(row?.['server_version'])}`;
    return sqlTarget(connection, dialectOf(connection, schema, version), feed);
  } catch (error) {
    await connection.close();
    throw failed(error);
  }
}

async function hasSchema(connection: SqlConnection, schema: string): Promise<boolean> {
  const rows = await connection.query('SELECT 1 FROM pg_namespace WHERE nspname = ?', [schema]);
  return rows.length > 0;
}

function dialectOf(connection: SqlConnection, schema: string, version: string): Dialect {
  const quote = escapeIdentifier;
  return {
    version,
    quote,
    begin: 'BEGIN ISOLATION LEVEL READ COMMITTED',
    forUpdate: ' FOR UPDATE',
    fits: (found, wanted) => found === wanted,
    trueValue: 'true',
    falseValue: 'false',
    // Exactly the types of the views.
    typeOf: ({ type }: ExportColumn) => type,
    tableName: (name) => `${quote(schema)}.${quote(name)}`,
    temporary: (table, columns) => `CREATE TEMPORARY TABLE ${table} (${columns})`,
    insertIgnore: (into, values) => `INSERT INTO ${into} VALUES (${values}) ON CONFLICT DO NOTHING`,
    overwrite: (key, others) =>
      `ON CONFLICT (${key.map(quote).join(', ')}) DO ${
        others.length === 0
          ? 'NOTHING'
          : `UPDATE SET ${others.map((name) => `${quote(name)} = excluded.${quote(name)}`).join(', ')}`
      }`,
    async columnsOf(table) {
      const rows = await connection.query(
        `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type
           FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
           JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = ? AND c.relname = ? AND a.attnum > 0 AND NOT a.attisdropped`,
        [schema, table],
      );
      return new Map(rows.map((row) => [String(row['name']), String(row['type'])]));
    },
  };
}

const ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
};

/** A row as COPY reads it: the values are in PostgreSQL's own text form already. */
function copyLine(row: TextRow): string {
  const cells = row.map((text) =>
    text === null ? '\\N' : text.replace(/[\\\t\n\r]/g, (found) => ESCAPES[found] ?? found),
  );
  return `${cells.join('\t')}\n`;
}
