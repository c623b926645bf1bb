import { UserError } from '../../domain/user-error.js';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import type { Connection, ResultSetHeader, RowDataPacket } from 'mysql2/promise';
import { kindOf } from '../values.js';
import type { ViewColumn } from '../views.js';
import type { TextRow } from '../../db/text-cursor.js';
import { rowsOf } from './lines.js';
import { BUCKET } from './plan.js';
import {
  KEEP_ALIVE_MS,
  LOCK_SECONDS,
  SERVER_TIMES,
  ServerConnection,
} from './server-connection.js';
import {
  typeFit,
  type Dialect,
  type SqlConnection,
  type SqlValue,
  type Update,
} from './dialect.js';
import { sqlTarget } from './sql-target.js';
import { CHECK, HASH, type Lines, type Target } from './target.js';

/** Bytes that are sent at once, if the server takes so many. */
const MAX_PIECE = 512 * 1024;

/**
 * Opens MySQL 8 or MariaDB 10.6, or newer, as the target of a feed. The tables are in the database that the
 * address names.
 * @param signal aborts the connection
 * @throws {UserError} if it is unreachable
 */
export async function mysqlTarget(
  url: URL,
  feed: string,
  signal: AbortSignal,
  times = SERVER_TIMES,
): Promise<Target> {
  const { createConnection } = await import('mysql2/promise');
  const place = `${url.hostname}${url.port === '' ? '' : `:${url.port}`}`;
  const database = decodeURIComponent(url.pathname.slice(1));
  const socketPath = url.searchParams.get('socketPath');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  signal.throwIfAborted();
  const socket = connect(
    socketPath === null ? { host, port: Number(url.port || 3306) } : { path: socketPath },
  );
  socket.setNoDelay(true).setKeepAlive(true, KEEP_ALIVE_MS);
  const server = new ServerConnection(`MySQL at ${place}`, () => socket, times, signal);
  const login = createConnection({
    stream: socket,
    host,
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database,
    charset: 'utf8mb4',
    timezone: 'Z',
    connectTimeout: 0,
    ...(url.searchParams.get('ssl') === 'true' ? { ssl: {} } : {}),
  });
  const client = await server.awaitLogin(login).catch(async (error: unknown) => {
    await server.close(() => Promise.resolve());
    throw error;
  });
  // A lost connection fails the current statement. Without a listener it would end the process.
  client.on('error', () => undefined);
  const limits = { hasLocalInfile: false, packet: MAX_PIECE };
  const run = (sql: string, values: readonly SqlValue[]) =>
    server.awaitAnswer(client.query({ sql, rowsAsArray: false }, [...values]));
  const connection: SqlConnection = {
    async query(sql, values = []) {
      const [rows] = await run(sql, values);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]) : [];
    },
    async update(sql, values = []) {
      const [result] = await run(sql, values);
      return (result as ResultSetHeader).affectedRows;
    },
    async bulk(table, columns, lines) {
      const load = limits.hasLocalInfile ? loadData : insertRows;
      return load({ client, server, table, columns, lines, packet: limits.packet });
    },
    close: () => server.close(() => client.end()),
  };
  try {
    // Strict mode: a value that does not fit is an error instead of being cut. Only InnoDB has transactions.
    await connection.query(
      `SET SESSION autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE',
           time_zone = '+00:00', default_storage_engine = InnoDB, default_tmp_storage_engine = InnoDB,
           lock_wait_timeout = ${LOCK_SECONDS}, innodb_lock_wait_timeout = ${LOCK_SECONDS},
           net_read_timeout = 600, net_write_timeout = 600, wait_timeout = 28800,
           character_set_filesystem = binary, sql_safe_updates = 0, sql_select_limit = 18446744073709551615`,
    );
    await connection.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE');
    // A server may ignore the character set of the login.
    await connection.query('SET NAMES utf8mb4');
    const [row] = await connection.query(
      `SELECT @@GLOBAL.local_infile AS enabled, @@max_allowed_packet AS packet,
              @@GLOBAL.character_set_server AS charset, version() AS version`,
    );
    // Of a server in UTF-16, the driver misreads the name of the file that it asks for.
    const isWide = /utf16|utf32|ucs2/.test(String(row?.['charset']));
    // Rows to write are staged four times as fast as in InnoDB.
    const version = String(row?.['version']);
    const isMariaDb = /mariadb/i.test(version);
    if (isMariaDb) {
      await connection.query('SET SESSION default_tmp_storage_engine = Aria');
    }
    limits.hasLocalInfile = Number(row?.['enabled']) === 1 && !isWide;
    limits.packet = Math.min(MAX_PIECE, Math.floor(Number(row?.['packet']) / 2));
    const name = `${isMariaDb ? 'MariaDB' : 'MySQL'} ${version.split('-', 1)[0]}`;
    return sqlTarget(connection, dialectOf(connection, database, name), feed);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

interface Bulk {
  readonly client: Connection;
  readonly server: ServerConnection;
  readonly table: string;
  readonly columns: readonly ViewColumn[];
  readonly lines: Lines;
  /** Bytes that may be sent at once. */
  readonly packet: number;
}

/**
 * Loads lines into a table by LOAD DATA LOCAL. The protocol lets a server request any file of the client, so
 * only requests for our random name are accepted.
 */
async function loadData({ client, server, table, columns, lines, packet }: Bulk): Promise<number> {
  const name = `seller-mirror ${randomUUID()}`;
  const socket = server.socket();
  const read = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of server.passOn(lines)) {
      const data = unescapeBlanks(chunk);
      for (let at = 0; at < data.length; at += packet) yield data.subarray(at, at + packet);
      // The driver ignores backpressure.
      if (socket.writableNeedDrain) await once(socket, 'drain');
    }
  };
  const stream = Readable.from(read(), { objectMode: true, highWaterMark: 4 });
  const refused = (): Readable => Readable.from(refusal(), { objectMode: true });
  try {
    const loading = client.query<ResultSetHeader>({
      sql: `LOAD DATA LOCAL INFILE '${name}' INTO TABLE ${table} CHARACTER SET utf8mb4
            FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'
            (${loadedNames(columns).join(', ')}) SET ${CHECK} = ${checkSql(columns)}`,
      infileStreamFactory: (asked) => (asked === name ? stream : refused()),
    });
    const [result] = await server.awaitAnswer(loading);
    if (result.warningStatus > 0 || !/\bSkipped: 0\b/.test(result.info)) {
      await throwWarning(client, table, result.info);
    }
    return result.affectedRows;
  } finally {
    stream.destroy();
  }
}

// oxlint-disable-next-line typescript/require-await, require-yield -- it only fails
async function* refusal(): AsyncGenerator<Buffer> {
  throw new UserError(
    'the server requested a file that the feed did not offer',
    'check which server answers at the target’s address',
    'TARGET',
  );
}

/** With LOCAL, the server cuts values that do not fit and only warns. @throws {UserError} */
async function throwWarning(client: Connection, table: string, info: string): Promise<void> {
  const [rows] = await client.query<RowDataPacket[]>('SHOW WARNINGS');
  const warning = rows.find(({ Level }) => Level !== 'Note');
  if (warning === undefined && /\bSkipped: 0\b/.test(info)) return;
  throw new UserError(
    `table ${table} does not accept the view’s rows: ${String(warning?.['Message'] ?? info)}`,
    'change the table so that it accepts the view’s rows',
    'VIEW',
  );
}

/** Replaces `\\f` and `\\v`, the only escapes of COPY that MySQL does not understand, by their characters. */
function unescapeBlanks(chunk: Buffer): Buffer {
  if (!chunk.includes('\\f') && !chunk.includes('\\v')) return chunk;
  const text = chunk.toString('latin1').replaceAll(/\\([^])/g, (pair, letter: string) => {
    if (letter === 'f') return '\f';
    return letter === 'v' ? '\v' : pair;
  });
  return Buffer.from(text, 'latin1');
}

/** Loads lines into a table by multi-row INSERTs, for servers without `local_infile`. */
async function insertRows({
  client,
  server,
  table,
  columns,
  lines,
  packet,
}: Bulk): Promise<number> {
  let rows = 0;
  let bytes = 0;
  let values = [] as TextRow[];
  const flush = async (): Promise<void> => {
    if (values.length === 0) return;
    const sql = `INSERT INTO ${table} (${loadedNames(columns).join(', ')}) VALUES ?`;
    await server.awaitAnswer(client.query(sql, [values]));
    bytes = 0;
    values = [];
  };
  for await (const chunk of server.passOn(lines)) {
    for (const row of rowsOf(chunk)) {
      // Quotes and escapes can double a text.
      let size = 0;
      for (const text of row) size += text === null ? 5 : Buffer.byteLength(text) * 2 + 3;
      if (bytes + size > packet) await flush();
      values.push(row);
      bytes += size;
      rows += 1;
    }
  }
  await flush();
  await server.awaitAnswer(client.query(`UPDATE ${table} SET ${CHECK} = ${checkSql(columns)}`));
  return rows;
}

function quoted(name: string): string {
  return `\`${name.replaceAll('`', '``')}\``;
}

/** Type of text in a key: 191 characters of four bytes fit into every index. */
const KEY_TEXT = 'varchar(191)';
/** Case-sensitive. */
const TABLE_OPTIONS = 'DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';

function typeOf(column: ViewColumn, isKey = false): string {
  const kind = kindOf(column);
  switch (kind.kind) {
    case 'boolean':
      return 'tinyint(1)';
    case 'integer':
      return kind.bits === 32 ? 'int' : 'bigint';
    case 'decimal':
      return `decimal(${Math.min(65, kind.precision)},${Math.min(30, kind.scale)})`;
    case 'number':
      return 'decimal(65,20)';
    case 'float':
      return 'double';
    case 'date':
      return 'date';
    case 'moment':
      return 'datetime(6)';
    case 'json':
    case 'texts':
      return 'json';
    case 'text':
      return `${isKey ? KEY_TEXT : 'longtext'} COLLATE utf8mb4_bin`;
  }
}

function valueSql(column: ViewColumn, value: string): string {
  switch (kindOf(column).kind) {
    case 'boolean':
      return `${value}::int`;
    case 'number':
      return `round(${value}, 20)`;
    case 'texts':
      return `to_json(${value})::text`;
    // MySQL can't store these years or infinity, so they become null. The session's time zone is UTC.
    case 'moment':
      return `CASE WHEN ${value} >= '0001-01-01 00:00:00+00' AND ${value} < '10000-01-01 00:00:00+00'
                   THEN ${value}::timestamp END`;
    case 'date':
      return `CASE WHEN ${value} >= '0001-01-01' AND ${value} < '10000-01-01' THEN ${value}::text END`;
    default:
      return value;
  }
}

function updateSql({ into, from, on, where, set }: Update): string {
  const sets = set.map(([column, value]) => `t.${column} = ${value}`);
  return `UPDATE ${into} AS t INNER JOIN ${from} AS s ON ${on} SET ${sets.join(', ')} WHERE ${where}`;
}

/** The columns that are loaded. */
function loadedNames(columns: readonly ViewColumn[]): string[] {
  return [...columns.map(({ name }) => quoted(name)), HASH, BUCKET];
}

/** SQL of a row's checksum. Long texts have one each, since together they may be longer than a packet. */
function checkSql(columns: readonly ViewColumn[], prefix = ''): string {
  const each = columns.map((column) => {
    const value = `${prefix}${quoted(column.name)}`;
    const { kind } = kindOf(column);
    return kind === 'text' || kind === 'texts' || kind === 'json'
      ? `if(octet_length(${value}) > 1000, crc32(${value}), quote(${value}))`
      : `ifnull(${value}, '-')`;
  });
  return `crc32(concat_ws(',', ${each.join(', ')}))`;
}

function dialectOf(connection: SqlConnection, database: string, server: string): Dialect {
  const numberOf = async (sql: string, values: readonly SqlValue[] = []): Promise<number> => {
    const [row] = await connection.query(`SELECT ${sql} AS value`, values);
    return Number(row?.['value']);
  };
  return {
    server,
    quote: quoted,
    tableName: quoted,
    typeOf,
    valueSql,
    begin: 'START TRANSACTION READ WRITE',
    tableOptions: TABLE_OPTIONS,
    fit,
    widen: (table, column, type) => `ALTER TABLE ${table} MODIFY COLUMN ${column} ${type}`,
    momentSql: (iso) => `'${iso.replace('T', ' ').replace('Z', '')}'`,
    comparable: (column) => column,
    textOf: (column) => `CAST(${column} AS CHAR)`,
    hasCheck: true,
    editedSql: (_, columns) => `coalesce(t.${CHECK}, -1) <> ${checkSql(columns, 't.')}`,
    updateSql,
    temporary: 'TEMPORARY',
    createSchema: () => Promise.resolve(),
    async table(name) {
      const rows = await connection.query(
        `SELECT column_name AS name, column_type AS type, character_set_name AS charset,
                collation_name AS collation,
                (SELECT table_type FROM information_schema.tables WHERE table_schema = ? AND table_name = ?) AS kind
           FROM information_schema.columns WHERE table_schema = ? AND table_name = ?
         UNION ALL
         SELECT group_concat(column_name ORDER BY seq_in_index SEPARATOR '\\n'), NULL, NULL, NULL, NULL
           FROM information_schema.statistics
          WHERE table_schema = ? AND table_name = ? AND non_unique = 0 GROUP BY index_name`,
        [database, name, database, name, database, name],
      );
      const columns = rows.filter(({ type }) => type !== null);
      const indexes = rows.filter(({ type }) => type === null);
      if (columns.length === 0) return null;
      return {
        isTable: columns[0]?.['kind'] === 'BASE TABLE',
        // Column names are case-insensitive.
        columns: new Map(columns.map((row) => [String(row['name']).toLowerCase(), typeOfRow(row)])),
        unique: indexes.map((row) => String(row['name']).split('\n')),
      };
    },
    async withLock(work) {
      // A lock of the server, not of the database. It ends with the session.
      const values = [`seller-mirror/${database}`.slice(-64)];
      if ((await numberOf(`get_lock(?, ${LOCK_SECONDS})`, values)) !== 1) {
        throw new UserError(
          'another process has been changing tables for a minute',
          'the feed continues by itself',
          'VIEW',
        );
      }
      try {
        return await work();
      } finally {
        await numberOf('release_lock(?)', values).catch(() => undefined);
      }
    },
  };
}

/** A column's type with what a copy of the column needs. */
function typeOfRow(row: Readonly<Record<string, unknown>>): string {
  const text = (name: string): string | null => (row[name] as string | null) ?? null;
  const [charset, collation] = [text('charset'), text('collation')];
  const type = text('type') ?? '';
  return collation === null ? type : `${type} CHARACTER SET ${charset} COLLATE ${collation}`;
}

function fit(found: string, wanted: string): 'fits' | 'narrow' | 'other' {
  // Other character sets can't store every character.
  if (/ character set (?!utf8mb4\b)/i.test(found)) return 'other';
  const [existing, type] = [familyOf(found), familyOf(wanted)];
  // MariaDB's JSON is LONGTEXT.
  return existing === 'longtext' && type === 'json' ? 'fits' : typeFit(existing, type);
}

/** A type without width and collation, which servers add or leave out. */
function familyOf(type: string): string {
  const name = type.toLowerCase().replace(/ (?:character set|collate) .*$/s, '');
  return name
    .replace(/^(tinyint|smallint|int|bigint)\(\d+\)$/, '$1')
    .replace(/^varchar\(\d+\)$/, 'varchar');
}
