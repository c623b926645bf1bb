import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import { types, type Client, type FieldDef } from 'pg';
import { errorCode } from '../domain/error-code.js';
import { StoreError } from './errors.js';
import { withOwnClient } from './pools.js';
import { openTextCursor, type TextRow } from './text-cursor.js';

/** The store's role could do more than reading, and no other role can be used in its place. */
export class PowerfulRoleError extends StoreError {
  readonly code = 'POWERFUL_ROLE';
}

/** The role of DATABASE_URL on its server. */
export interface StoreRole {
  readonly name: string;
  /** It is a superuser, can become one, or may run programs or use files on the server. */
  readonly isPowerful: boolean;
  /** Name of the role that can only read this database; there may be no such role yet. */
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
  const { rows } = await client.query<StoreRole>(STORE_ROLE);
  const [role] = rows;
  if (role === undefined) throw new Error('the server does not know its own user');
  return role;
}

/**
 * Address of the store for statements that people write: they can read schemas `mirror` and
 * `reporting`, and do nothing else. It logs in as a role of its own, which is created where that is
 * possible. Otherwise it is `url` itself, provided that its role is an ordinary one; so begin every
 * transaction READ ONLY.
 * @param url of a store that is migrated
 * @param adminUrl of a role that may create roles; by default `url`
 * @throws {PowerfulRoleError} when only a superuser, or a role like it, could be used
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
    let reader = await lookIn(readerUrl, signal);
    if (reader === null && (role.mayCreateRoles || adminUrl !== url)) {
      await withOwnClient(adminUrl, 'roles', signal, (admin) =>
        createReader(admin, role, password),
      );
      reader = await lookIn(readerUrl, signal);
    }
    if (reader !== null && !reader.isPowerful) {
      if (!reader.readsAll) await grantReading(owner, role);
      return readerUrl;
    }
    if (!role.isPowerful) return url;
    throw new PowerfulRoleError(
      `the store's role ${role.name} can do anything on its server, and ${
        reader === null ? `there is no role ${role.reader} in its place` : `so can ${role.reader}`
      }`,
      'Use an ordinary role in DATABASE_URL: docs/operations.md says how to make one.',
    );
  });
}

/**
 * All processes that know the store's password derive the same one for the reader, so it is kept
 * nowhere. Null where the server asks for no password.
 */
function readerPassword(
  { reader }: StoreRole,
  ownPassword: string | null | undefined,
): string | null {
  // The driver returns null where its types say it never does.
  if (ownPassword === undefined || ownPassword === null || ownPassword === '') return null;
  return createHmac('sha256', ownPassword).update(`seller-mirror ${reader}`).digest('base64url');
}

/** The driver prefers these parameters to what stands before the host. */
function withUser(url: string, user: string, password: string | null): string {
  const parameters = new URLSearchParams({ user, ...(password === null ? {} : { password }) });
  return `${url}${url.includes('?') ? '&' : '?'}${parameters.toString()}`;
}

/** The reader's role and rights; null when it can't log in. */
async function lookIn(
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

/** The server let the role not in, not do this, or not write at all. */
function isDenied(error: unknown): boolean {
  const code = errorCode(error);
  return code.startsWith('28') || code === '42501' || code === '25006';
}

/** Two processes that change the same role or table at once would get in each other's way. */
const LOCK = `SELECT pg_advisory_xact_lock(hashtextextended('seller-mirror/reader', 0))`;

/** Creates the reader, or gives it its present password. Leaves things as they are where it may not. */
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

/** The password as the server keeps it, so that its log never holds the password itself. */
function scramVerifier(password: string): string {
  const [salt, rounds] = [randomBytes(16), 4096];
  const salted = pbkdf2Sync(password, salt, rounds, 32, 'sha256');
  const keyed = (text: string): Buffer => createHmac('sha256', salted).update(text).digest();
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64');
  const serverKey = keyed('Server Key').toString('base64');
  return `SCRAM-SHA-256$${rounds}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}

/** Lets the reader read tables that came since the last time, too. */
async function grantReading(owner: Client, { reader }: StoreRole): Promise<void> {
  await owner.query(`
    ${LOCK};
    GRANT USAGE ON SCHEMA mirror, reporting TO ${reader};
    GRANT SELECT ON ALL TABLES IN SCHEMA mirror, reporting TO ${reader};
    GRANT SELECT ON ALL SEQUENCES IN SCHEMA mirror, reporting TO ${reader}`);
}

export interface QueryColumn {
  readonly name: string;
  /** Type of its values; every other type is text. */
  readonly type: 'number' | 'decimal' | 'boolean' | 'json' | 'texts' | 'moment' | 'text';
}

/** The answer to a query, row by row, each value in PostgreSQL's own text form or null. */
export interface QueryAnswer {
  readonly columns: readonly QueryColumn[];
  readonly rows: AsyncIterable<TextRow>;
}

const TYPES: ReadonlyMap<number, QueryColumn['type']> = new Map([
  ...[20, 21, 23, 26, 700, 701].map((oid) => [oid, 'number'] as const), // int8 … float8
  [1700, 'decimal'], // numeric: money above all
  [16, 'boolean'],
  [1184, 'moment'], // timestamptz
  ...[1009, 1015].map((oid) => [oid, 'texts'] as const), // text[], varchar[]
  ...[114, 3802].map((oid) => [oid, 'json'] as const), // json, jsonb
]);

export function queryColumns(fields: readonly FieldDef[]): readonly QueryColumn[] {
  return fields.map(({ name, dataTypeID }) => ({ name, type: TYPES.get(dataTypeID) ?? 'text' }));
}

/** text[]; missing in the driver's list of types. */
const TEXT_ARRAY = 1009 as number as Parameters<typeof types.getTypeParser>[0];

/** A value of type `texts`, such as `{a,"b c"}`, as the list it stands for. */
export function textsOf(text: string): unknown {
  const parse = types.getTypeParser(TEXT_ARRAY) as (value: string) => unknown;
  return parse(text);
}

/**
 * Runs one statement in a read-only transaction, which is never committed, and hands its rows to
 * `consume`, in bounded memory. The extended protocol takes exactly one statement, so nothing can
 * follow that ends the transaction. What a statement of a person's may do besides is up to the role
 * in `url`: see `readOnlyUrl`.
 */
export async function queryReadOnly<T>(
  url: string,
  sql: string,
  consume: (answer: QueryAnswer) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return withOwnClient(url, 'sql', signal, async (client) => {
    await client.query('BEGIN TRANSACTION READ ONLY');
    const { fields, batches, close } = await openTextCursor(client, sql);
    const answer = await consume({ columns: queryColumns(fields), rows: eachRow(batches) });
    await close();
    return answer;
  });
}

async function* eachRow(batches: AsyncIterable<readonly TextRow[]>): AsyncGenerator<TextRow> {
  for await (const rows of batches) yield* rows;
}
