import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { marketOf, printed, run, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { createTestDatabase, databaseAt, query, testServer } from '../support/postgres.js';
import { until } from '../support/until.js';
import { isInstalled } from '../support/installed.js';

const mirror = useMirror();

it('a database that is not UTF8 is refused at once, with the statement that creates one', async () => {
  const { adminUrl } = testServer;
  const name = `odd_${randomBytes(6).toString('hex')}`;
  const dropped = (database: string): void =>
    onTestFinished(() => query(adminUrl, `DROP DATABASE ${database}`).then(() => undefined));
  await query(adminUrl, `CREATE DATABASE ${name} ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'`);
  dropped(name);
  const env = { DATABASE_URL: databaseAt(adminUrl, name) };
  const refused = `database ${name} has the encoding LATIN1, but items and names`;
  const { code, stderr } = await run(['migrate'], env);
  expect(stderr).toContain(`error: ${refused}`);
  expect(code).toBe(1);
  expect((await run(['doctor'], env)).stdout).toContain(`✗ store: ${refused}`);
  const [, statement = ''] = /: (CREATE DATABASE .*;)\n/.exec(stderr) ?? [];
  const [made = ''] = /"[^"]+"/.exec(statement) ?? [];
  dropped(made);
  await query(adminUrl, statement);
  await printed(['migrate'], { DATABASE_URL: databaseAt(adminUrl, made.replaceAll('"', '')) });
});

it('Ctrl-C ends the wait for a database that does not answer', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const url = `postgresql://u:p@127.0.0.1:${port}/d`;
  const running = start(['status'], { DATABASE_URL: url });
  await once(server, 'connection');
  running.process.kill('SIGINT');
  expect((await running.ended).code).toBe(130);
});

const hasBouncer = isInstalled('pgbouncer');

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts a PgBouncer in front of a database. @returns the address through it */
async function startBouncer(
  database: { readonly url: string },
  mode: string,
  more = '',
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'seller-mirror-bouncer-'));
  await chmod(folder, 0o755);
  const port = await freePort();
  const { hostname, port: serverPort, username, password } = new URL(database.url);
  const settings = join(folder, 'settings.ini');
  await writeFile(
    settings,
    `[databases]
     * = host=${hostname} port=${serverPort || 5432} user=${username} password=${password}
     [pgbouncer]
     listen_addr = 127.0.0.1
     listen_port = ${port}
     unix_socket_dir =
     auth_type = any
     pool_mode = ${mode}
     ${more}`.replaceAll(/^ +/gm, ''),
  );
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', ['-q', ...user, settings], { stdio: 'ignore' });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await rm(folder, { recursive: true, force: true });
  });
  await once(child, 'spawn'); // rejects if it is not installed
  const url = new URL(database.url);
  url.host = `127.0.0.1:${port}`;
  await until(() =>
    query(url.href, 'SELECT 1').then(
      () => true,
      () => false,
    ),
  );
  return url.href;
}

describe.skipIf(!hasBouncer)('PgBouncer', () => {
  it('that passes sessions around is refused in every mode, with the remedy, also to doctor', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const refused = /DATABASE_URL leads to a connection pooler.*\n {2}→ Set pool_mode = session/i;
    for (const [mode, more] of [
      ['transaction', ''],
      ['transaction', 'server_round_robin = 1'],
      ['transaction', 'min_pool_size = 5\nserver_round_robin = 1'],
      ['statement', ''],
    ] as const) {
      const env = { DATABASE_URL: await startBouncer(database, mode, more) };
      expect((await run(['migrate'], env)).stderr, `${mode} ${more}`).toMatch(refused);
      if (more === '') expect((await run(['doctor'], env)).stdout, mode).toMatch(refused);
    }
  });

  it('in mode session works, and leaves no lock behind', async () => {
    const { env } = await marketOf(mirror());
    const url = await startBouncer({ url: mirror().databaseUrl }, 'session');
    for (let night = 0; night < 2; night++) await printed(['sync'], { ...env, DATABASE_URL: url });
    expect(
      await mirror().rows(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND database = (
      SELECT oid FROM pg_database WHERE datname = current_database())`),
    ).toEqual([]);
  });
});
