import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { types, type Client, type FieldDef } from 'pg';
import { errorCode } from '../domain/error-code.js';
import { StoreError } from './errors.js';
import { onlyRow } from './only-row.js';
import { withOwnClient } from './pools.js';
import { openTextCursor, type TextRow } from './text-cursor.js';

/** The store's role can do more than read the database, and no other role is available. */
export class PowerfulRoleError extends StoreError {
  readonly code = 'POWERFUL_ROLE';
}

/** The role of DATABASE_URL on its server. */
interface StoreRole {
  readonly name: string;
  /** A superuser, can become one, or may run programs or access files on the server. */
  readonly isPowerful: boolean;
  /** Name of the role that can only read this database. It may not exist yet. */
  readonly reader: string;
  readonly mayCreateRoles: boolean;
  /** Statement that lets the reader connect; null when the role does not own the database. */
  readonly grantConnect: string | null;
}

const STORE_ROLE = `
  SELECT r.rolname AS name,
         EXISTS (
           SELECT FROM pg_roles p
            WHERE (p.rolsuper OR p.rolname IN ('pg_execute_server_program', 'pg_read_server_files',
                                               'pg_write_server_files'))
              AND pg_has_role(r.oid, p.oid, 'MEMBER')) AS "isPowerful",
         'mirror_reader_' || d.oid AS reader,
         r.rolsuper OR r.rolcreaterole AS "mayCreateRoles",
         CASE WHEN pg_has_role(r.oid, d.datdba, 'USAGE')
              THEN format('GRANT CONNECT ON DATABASE %I TO mirror_reader_%s', d.datname, d.oid)
         END AS "grantConnect"
    FROM pg_roles r, pg_database d
   WHERE r.rolname = current_user AND d.datname = current_database()`;

export function storeRole(url: string, signal: AbortSignal): Promise<StoreRole> {
  return withOwnClient(url, 'roles', signal, roleOf);
}

async function roleOf(client: Client): Promise<StoreRole> {
  return onlyRow(await client.query<StoreRole>(STORE_ROLE));
}

/**
 * URL for statements written by users. They can read schemas `mirror` and `reporting` and do nothing
 * else. It logs in as the reader role, which this creates if it may. Otherwise this returns `url`, if its
 * role is not powerful; so begin every transaction READ ONLY.
 * @param url of a migrated store
 * @param adminUrl of a role that may create roles; by default `url`
 * @throws {PowerfulRoleError} if only a superuser or a similar role is available
 */
export async function readOnlyUrl(
  url: string,
  signal: AbortSignal,
  adminUrl: string = url,
): Promise<string> {
  return withOwnClient(url, 'roles', signal, async (owner) => {
    const role = await roleOf(owner);
    const password = readerPassword(role, owner.password);
    const readerUrl = withUser(url, role.reader, password);
    let reader = await tryReader(readerUrl, signal);
    if (reader === null && (role.mayCreateRoles || adminUrl !== url)) {
      await withOwnClient(adminUrl, 'roles', signal, (admin) =>
        createReader(admin, role, password),
      );
      reader = await tryReader(readerUrl, signal);
    }
    if (reader !== null && !reader.isPowerful) {
      if (!reader.readsAll) await grantReading(owner, role);
      return readerUrl;
    }
    if (!role.isPowerful) return url;
    throw new PowerfulRoleError(
      `the store's role ${role.name} can do anything on its server, and ${
        reader === null ? `there is no role ${role.reader} to use instead` : `so can ${role.reader}`
      }`,
      'Use an ordinary role in DATABASE_URL; docs/operations.md shows how to create one.',
    );
  });
}

/**
 * Every process that knows the store's password derives the same reader password, so it is stored
 * nowhere. Null if the server needs no password.
 */
function readerPassword(
  { reader }: StoreRole,
  ownPassword: string | null | undefined,
): string | null {
  // The driver may return null, although its types exclude it.
  if (ownPassword === undefined || ownPassword === null || ownPassword === '') return null;
  return createHmac('sha256', ownPassword).update(`seller-mirror ${reader}`).digest('base64url');
}

/** Adds credentials as URL parameters, which the driver prefers to those before the host. */
function withUser(url: string, user: string, password: string | null): string {
  const parameters = new URLSearchParams({ user, ...(password === null ? {} : { password }) });
  return `${url}${url.includes('?') ? '&' : '?'}${parameters.toString()}`;
}

/** Logs in as the reader and returns its rights; null if the login fails. */
async function tryReader(
  readerUrl: string,
  signal: AbortSignal,
): Promise<{ isPowerful: boolean; readsAll: boolean } | null> {
  try {
    return await withOwnClient(readerUrl, 'roles', signal, async (client) => {
      const { isPowerful } = await roleOf(client);
      const { rows } = await client.query<{ readsAll: boolean }>(
        `SELECT bool_and(has_schema_privilege(n.oid, 'USAGE')
                         AND has_table_privilege(c.oid, 'SELECT')) AS "readsAll"
           FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
          WHERE n.nspname IN ('mirror', 'reporting') AND c.relkind IN ('r', 'v', 'S')`,
      );
      return { isPowerful, readsAll: rows[0]?.readsAll === true };
    });
  } catch (error) {
    if (isDenied(error)) return null;
    throw error;
  }
}

/** The login failed, a right is missing, or the server is read-only. */
function isDenied(error: unknown): boolean {
  const code = errorCode(error);
  return code.startsWith('28') || code === '42501' || code === '25006';
}

/** Concurrent changes of the same role or table would fail. */
const LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/reader', 0))`;

/** Creates the reader, or sets its current password. Does nothing without the right to. */
async function createReader(
  admin: Client,
  { reader, grantConnect }: StoreRole,
  password: string | null,
): Promise<void> {
  const secret = password === null ? 'NULL' : `'${scramVerifier(password)}'`;
  try {
    await admin.query('BEGIN');
    await admin.query(LOCK);
    const { rowCount } = await admin.query('SELECT FROM pg_roles WHERE rolname = $1', [reader]);
    const verb = rowCount === 0 ? 'CREATE' : 'ALTER';
    await admin.query(`${verb} ROLE ${reader} LOGIN PASSWORD ${secret}`);
    await admin.query(`ALTER ROLE ${reader} SET default_transaction_read_only = on`);
    await admin.query(`COMMENT ON ROLE ${reader} IS 'Lets seller-mirror sql read one database'`);
    if (grantConnect !== null) await admin.query(grantConnect);
    await admin.query('COMMIT');
  } catch (error) {
    if (!isDenied(error)) throw error;
  }
}

/** The password hash that the server stores. Sending it keeps the password out of the server's log. */
function scramVerifier(password: string): string {
  const [salt, rounds] = [randomBytes(16), 4096];
  const salted = pbkdf2Sync(password, salt, rounds, 32, 'sha256');
  const keyed = (text: string): Buffer => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64');
  const serverKey = keyed('Server Key').toString('base64');
  return `SCRAM-SHA-256$${rounds}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}

/** Grants the reader access to all tables, including new ones. */
async function grantReading(owner: Client, { reader }: StoreRole): Promise<void> {
  await owner.query(`
    ${LOCK};
    GRANT USAGE ON SCHEMA mirror, reporting TO ${reader};
    GRANT SELECT ON ALL TABLES IN SCHEMA mirror, reporting TO ${reader};
    GRANT SELECT ON ALL SEQUENCES IN SCHEMA mirror, reporting TO ${reader}`);
}

export interface QueryColumn {
  readonly name: string;
  /** Any other type is `text`. */
  readonly type: 'number' | 'decimal' | 'boolean' | 'json' | 'texts' | 'moment' | 'text';
}

/** A query's result. Each value is PostgreSQL's text representation or null. */
export interface QueryResult {
  readonly columns: readonly QueryColumn[];
  readonly rows: AsyncIterable<TextRow>;
}

const TYPES: ReadonlyMap<number, QueryColumn['type']> = new Map([
  ...[20, 21, 23, 26, 700, 701].map((oid) => [oid, 'number'] as const), // int8 … float8
  [1700, 'decimal'], // numeric, mostly money
  [16, 'boolean'],
  [1184, 'moment'], // timestamptz
  ...[1009, 1015].map((oid) => [oid, 'texts'] as const), // text[], varchar[]
  ...[114, 3802].map((oid) => [oid, 'json'] as const), // json, jsonb
]);

export function queryColumns(fields: readonly FieldDef[]): readonly QueryColumn[] {
  return fields.map(({ name, dataTypeID }) => ({ name, type: TYPES.get(dataTypeID) ?? 'text' }));
}

/** text[], which the driver's types lack. */
const TEXT_ARRAY = 1009 as number as Parameters<typeof types.getTypeParser>[0];

/** Parses a value of type `texts`, such as `{a,"b c"}`. */
export function textsOf(text: string): unknown {
  const parse = types.getTypeParser(TEXT_ARRAY) as (value: string) => unknown;
  return parse(text);
}

/**
 * Runs one statement in a read-only transaction, which is never committed, and passes its rows to
 * `consume`, in bounded memory. The extended protocol accepts exactly one statement, so no second one can
 * end the transaction. The role in `url` limits what else a statement may do; see `readOnlyUrl`.
 */
export async function queryReadOnly<T>(
  url: string,
  sql: string,
  consume: (result: QueryResult) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return withOwnClient(url, 'sql', signal, async (client) => {
    await client.query('BEGIN TRANSACTION READ ONLY');
    const { fields, batches, close } = await openTextCursor(client, sql);
    const result = await consume({ columns: queryColumns(fields), rows: eachRow(batches) });
    await close();
    return result;
  });
}

async function* eachRow(batches: AsyncIterable<readonly TextRow[]>): AsyncGenerator<TextRow> {
  for await (const rows of batches) yield* rows;
}
