import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { type Ended, printed, run } from '../cli/support.js';
import { createTestDatabase, databaseAt, testServer } from '../support/postgres.js';

/** A store to attack. */
interface Target {
  /** The role of the store, as in DATABASE_URL. */
  readonly url: string;
  /** Connection of a superuser, who sees everything that an attack could have changed. */
  readonly admin: Client;
}

/** A superuser, which an attack tries to become. */
const SUPERUSER = decodeURIComponent(new URL(testServer.adminUrl).username);

const undo: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const each of undo.reverse()) await each();
});

/** A file that an attack tries to create as the server's user. */
const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-attack-'));
chmodSync(folder, 0o777);
const file = join(folder, 'made');
undo.push(() => Promise.resolve(rmSync(folder, { recursive: true, force: true })));

async function connect(url: string): Promise<Client> {
  const client = new Client(url);
  client.on('error', () => undefined);
  await client.connect();
  undo.push(() => client.end());
  return client;
}

/** Connects a superuser to a store with one seller. */
async function connectAsAdmin(name: string): Promise<Client> {
  const admin = await connect(databaseAt(testServer.adminUrl, name));
  await admin.query(
    `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'market.example')`,
  );
  return admin;
}

/** A store of the role that the embedded server makes, or that tests are given. */
async function ofProgram(): Promise<Target> {
  const database = await createTestDatabase();
  undo.push(() => database.drop());
  const name = new URL(database.url).pathname.slice(1);
  return { url: database.url, admin: await connectAsAdmin(name) };
}

/** A store on the user's server, owned by an ordinary role with these attributes. */
async function ofOwner(attributes: string): Promise<Target> {
  const { adminUrl } = testServer;
  const id = randomBytes(6).toString('hex');
  const [role, name] = [`owner_${id}`, `reads_${id}`];
  const url = new URL(databaseAt(adminUrl, name));
  url.username = role;
  url.password = randomBytes(12).toString('hex');
  const server = await connect(adminUrl);
  await server.query(`CREATE ROLE ${role} LOGIN ${attributes} PASSWORD '${url.password}'`);
  await server.query(`CREATE DATABASE ${name} OWNER "${role}"`);
  undo.push(async () => {
    await server.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await server.query(`DROP ROLE ${role}`);
  });
  await printed(['migrate'], { DATABASE_URL: url.href });
  return { url: url.href, admin: await connectAsAdmin(name) };
}

const sql = (url: string, statement: string): Promise<Ended> =>
  run(['sql', '--format', 'ndjson', statement], { DATABASE_URL: url });

/**
 * Everything that a statement must not change. Of shared server objects it includes only those of this
 * store, since other tests create databases and roles at the same time.
 */
async function stateOf(admin: Client): Promise<unknown> {
  const { rows } = await admin.query(`
    WITH roles AS (
      SELECT a.* FROM pg_authid a, pg_database d
       WHERE d.datname = current_database()
         AND (a.oid = d.datdba
              OR a.rolname IN ('made', current_user)))
    SELECT (SELECT json_agg(s) FROM mirror.sellers s) AS sellers,
           (SELECT json_agg(s) FROM pg_sequences s) AS sequences,
           (SELECT json_agg(r ORDER BY r.oid) FROM roles r) AS roles,
           (SELECT json_agg(m) FROM pg_auth_members m
              JOIN roles r ON r.oid = m.member JOIN pg_roles g ON g.oid = m.roleid
             WHERE g.rolname ~ '^pg_' OR g.oid IN (SELECT oid FROM roles)) AS members,
           (SELECT json_agg(s) FROM pg_db_role_setting s JOIN roles r ON r.oid = s.setrole) AS role_settings,
           (SELECT json_agg(f.sourcefile || f.name || f.setting) FROM pg_file_settings f) AS settings,
           (SELECT count(*) FROM pg_class) AS relations, (SELECT count(*) FROM pg_proc) AS functions,
           (SELECT count(*) FROM pg_namespace) AS schemas,
           (SELECT count(*) FROM pg_database WHERE datname = 'made') AS databases,
           (SELECT count(*) FROM pg_largeobject_metadata) AS large_objects,
           (SELECT count(*) FROM pg_prepared_xacts WHERE gid = 'made') AS prepared`);
  return { ...(rows[0] as object), file: existsSync(file) };
}

const RUN = `touch ${file}`;
const copyTo = `COPY (SELECT 1) TO PROGRAM '${RUN}'`;

/** Statements that must be refused, whatever the role. */
const REFUSED: readonly string[] = [
  copyTo,
  `-- a comment\n/* a /* nested */ comment */;;\n${copyTo}`,
  `COPY mirror.sellers FROM PROGRAM '${RUN}'`,
  `COPY (SELECT 1) TO '${file}'`,
  `COPY mirror.sellers FROM '/etc/hostname'`,
  'COPY mirror.sellers FROM STDIN',
  'COPY (SELECT 1) TO STDOUT',
  `DO $$ BEGIN EXECUTE $x$${copyTo}$x$; END $$`,
  'SET TRANSACTION READ WRITE',
  'DO $$ BEGIN SET TRANSACTION READ WRITE; CREATE TABLE mirror.made (); END $$',
  'DO $$ BEGIN SET default_transaction_read_only = off; COMMIT; CREATE TABLE mirror.made (); END $$',
  `DO $$ BEGIN PERFORM set_config('transaction_read_only', 'off', false); DELETE FROM mirror.sellers; END $$`,
  'DO $$ BEGIN ROLLBACK; DELETE FROM mirror.sellers; END $$',
  `SELECT pg_read_file('/etc/hostname')`,
  `SELECT pg_ls_dir('/')`,
  `SELECT lo_import('/etc/hostname')`,
  `SELECT lo_export(1, '${file}')`,
  `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('mine', 'x')`,
  'TRUNCATE mirror.sellers CASCADE',
  'WITH gone AS (DELETE FROM mirror.sellers RETURNING *) SELECT * FROM gone',
  'EXPLAIN ANALYZE DELETE FROM mirror.sellers',
  `SELECT query_to_xml('DELETE FROM mirror.sellers', true, true, '')`,
  'SELECT * FROM mirror.sellers FOR UPDATE',
  `SELECT setval('mirror.runs_run_id_seq', 1000000)`,
  'SELECT 1; DROP SCHEMA mirror CASCADE',
  'COMMIT; DROP SCHEMA mirror CASCADE',
  'DROP SCHEMA mirror CASCADE',
  'CREATE TEMP TABLE made ()',
  'CREATE FUNCTION mirror.made() RETURNS int LANGUAGE sql AS $$ SELECT 1 $$',
  `LOAD '/lib/x86_64-linux-gnu/libc.so.6'`,
  'CREATE EXTENSION dblink',
  'GRANT ALL ON ALL TABLES IN SCHEMA mirror TO PUBLIC',
  'VACUUM FULL mirror.items',
  'SELECT pg_reload_conf()',
  'SELECT pg_switch_wal()',
  'SELECT rolpassword FROM pg_authid',
  `PREPARE TRANSACTION 'made'`,
  ' -- nothing\n/* at /* all */ */ ;',
];

/** Statements that must be refused, and that a role which may create others could be allowed. */
const OF_ROLES: readonly string[] = [
  `DO $$ BEGIN SET ROLE NONE; EXECUTE $x$${copyTo}$x$; END $$`,
  `DO $$ BEGIN RESET ROLE; RESET SESSION AUTHORIZATION; EXECUTE $x$${copyTo}$x$; END $$`,
  `DO $$ BEGIN PERFORM set_config('role', 'none', false); EXECUTE $x$${copyTo}$x$; END $$`,
  `SELECT set_config('role', 'SUPERUSER_NAME', false)`,
  `SELECT set_config('session_authorization', 'SUPERUSER_NAME', false)`,
  'SET ROLE SUPERUSER_NAME',
  'SET SESSION AUTHORIZATION SUPERUSER_NAME',
  'SET ROLE pg_execute_server_program',
  'CREATE ROLE made SUPERUSER',
  'ALTER ROLE CURRENT_USER SUPERUSER',
  `ALTER ROLE CURRENT_USER PASSWORD 'x'`,
  'ALTER ROLE CURRENT_USER SET default_transaction_read_only = off',
  'GRANT pg_execute_server_program TO CURRENT_USER',
  'GRANT SUPERUSER_NAME TO CURRENT_USER',
  `ALTER SYSTEM SET archive_command = '${RUN}'`,
  'CREATE DATABASE made',
];

/** Statements that run and change nothing. */
const HARMLESS: readonly string[] = [
  'COMMIT',
  'ROLLBACK',
  'COMMIT AND CHAIN',
  'RESET ROLE',
  'RESET ALL',
  'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
  'SET default_transaction_read_only = off',
  'SELECT pg_advisory_lock(1)',
  `SELECT pg_notify('x', 'y')`,
  'PREPARE made AS DELETE FROM mirror.sellers',
  'SELECT last_value FROM mirror.runs_run_id_seq',
  'SELECT * FROM reporting.items_as_of(now())',
];

/** Statements that only some PostgreSQL versions refuse, or only for some roles. */
const NEVER_KEPT: readonly string[] = [
  `SELECT lo_from_bytea(0, 'x')`,
  'ANALYZE mirror.items',
  'LOCK TABLE mirror.items IN ACCESS EXCLUSIVE MODE',
  'CHECKPOINT',
];

/** There are seventy statements, and machines that do other work, too. */
const PATIENCE_MS = 300_000;

describe('a statement of `sql`', () => {
  /** Sends statements to a store. They change nothing. @param expected of how each ends */
  async function attack(
    { url, admin }: Target,
    statements: readonly string[],
    expected: (ended: Ended, statement: string) => void,
  ): Promise<void> {
    const before = await stateOf(admin);
    for (const statement of statements) {
      expected(await sql(url, statement.replaceAll('SUPERUSER_NAME', `"${SUPERUSER}"`)), statement);
      expect(await stateOf(admin), statement).toEqual(before);
    }
  }

  const isRefused = ({ code, stdout, stderr }: Ended, statement: string): void => {
    expect(stderr, statement).toMatch(/^error: (?!unexpected)/);
    expect([1, 2], statement).toContain(code);
    expect(stdout, statement).toBe('');
  };

  it(
    'that would change or read more than the store is refused, and changes nothing',
    async () => {
      const store = await ofProgram();
      await attack(store, [...REFUSED, ...OF_ROLES], isRefused);
      await attack(store, HARMLESS, (ended, statement) =>
        expect(ended, statement).toMatchObject({ code: 0, stderr: '' }),
      );
      await attack(store, NEVER_KEPT, () => undefined);
    },
    PATIENCE_MS,
  );

  it(
    'that would give a role more rights is refused also for a role that may create roles',
    async () => {
      const store = await ofOwner('CREATEROLE');
      await attack(store, [copyTo, 'CREATE TEMP TABLE made ()', ...OF_ROLES], isRefused);
    },
    PATIENCE_MS,
  );
});

it.each(['CREATEROLE', 'NOINHERIT'])(
  'a role that may become more than an ordinary one, also by SET ROLE, is refused with the remedy: %s',
  async (attributes) => {
    const { url, admin } = await ofOwner(attributes);
    expect((await sql(url, 'select 1')).code).toBe(0);
    await admin.query(`GRANT pg_write_server_files TO ${new URL(url).username}`);
    expect((await sql(url, 'select 1')).stderr).toMatch(
      /^error: the store's role \w+ is a superuser, can become one, or may run programs .*\n {2}→ Use an ordinary role in DATABASE_URL/,
    );
  },
);
