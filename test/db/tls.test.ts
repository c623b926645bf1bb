import { chmod, chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { explainDatabaseError } from '../../src/db/errors.js';
import { withPsqlModes } from '../../src/domain/postgres-tls.js';
import { printed, run } from '../cli/support.js';
import { selfSigned } from '../support/certificate.js';
import { testServer } from '../support/postgres.js';
import { query } from '../support/query.js';
import { statusOf, urlOf } from './embedded/trial.js';

/** A server that offers TLS with a certificate that its own authority signed. */
let server: { readonly port: number; readonly authority: string };

/** Offers TLS; user `inside` may not come without it, and nobody else has to. */
beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-`));
  await chmod(folder, 0o755); // the server may run as another user
  const DATA_DIR = join(folder, 'data');
  await printed(['db', 'start'], { DATA_DIR });
  const { location, server: running } = await statusOf(DATA_DIR);
  const admin = await urlOf(DATA_DIR, 'admin');
  const { key, cert } = selfSigned(['localhost']);
  const authority = join(folder, 'authority.pem');
  await writeFile(authority, cert);
  const place = join(location, 'data');
  const { uid, gid } = await stat(place);
  for (const [name, text] of Object.entries({ 'server.key': key, 'server.crt': cert })) {
    await writeFile(join(place, name), text);
    await chmod(join(place, name), 0o600);
    await chown(join(place, name), uid, gid);
  }
  const hba = join(location, 'pg_hba.conf');
  await writeFile(hba, `hostnossl all inside all reject\n${await readFile(hba, 'utf8')}`);
  await query(
    admin,
    `CREATE ROLE inside LOGIN PASSWORD 'pa55word'`,
    'CREATE DATABASE inside OWNER inside',
    'ALTER SYSTEM SET ssl = on',
    'SELECT pg_reload_conf()',
  );
  server = { port: running?.port ?? 0, authority };
  return async () => {
    await run(['db', 'stop', '--now'], { DATA_DIR });
    await rm(folder, { recursive: true, force: true });
  };
});

/** The output of a command with an address of this server. `FILE` in the parameters is the authority's file. */
async function statusWith(
  parameters: string,
  { host = 'localhost', env = {} } = {},
): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const given = parameters.replace('FILE', server.authority);
  const DATABASE_URL = `postgresql://inside:pa55word@${host}:${server.port}/inside${given}`;
  const warnings: string[] = [];
  const onWarning = ({ message }: Error): unknown => warnings.push(message);
  process.on('warning', onWarning);
  // Node.js reads more authorities only at its start.
  const spawned = 'NODE_EXTRA_CA_CERTS' in env;
  const { code, stderr } = await run(['status'], { DATABASE_URL, ...env }, { spawned });
  process.off('warning', onWarning);
  expect(stderr).not.toContain('pa55word');
  return { code, stderr: stderr + warnings.join() };
}

describe('a server that wants TLS, with an authority of its own', () => {
  it.each([
    ['require', 'localhost'],
    ['prefer', 'localhost'],
    ['no-verify', 'localhost'],
    ['verify-full&sslrootcert=FILE', 'localhost'],
    ['verify-ca&sslrootcert=FILE', '127.0.0.1'],
    ['require&sslrootcert=FILE', '127.0.0.1'],
  ])('is reached with sslmode=%s at %s, as by psql, and without a warning', async (mode, host) => {
    expect(await statusWith(`?sslmode=${mode}`, { host })).toEqual({ code: 0, stderr: '' });
  });

  it('is reached with sslrootcert=system if Node.js trusts its authority', async () => {
    const env = { NODE_EXTRA_CA_CERTS: server.authority };
    expect(await statusWith('?sslrootcert=system', { env })).toEqual({ code: 0, stderr: '' });
  });

  it.each([
    ['', 'the server refused this user', 'add sslmode=require'],
    ['?sslmode=disable', 'the server refused this user', 'add sslmode=require'],
    ['?sslmode=allow', 'the server refused this user', 'add sslmode=require'],
    ['?sslmode=verify-full', 'authority', 'sslrootcert=/path/to/ca.pem'],
    ['?sslmode=verify-ca', 'authority', 'NODE_EXTRA_CA_CERTS'],
    ['?sslrootcert=system', 'authority', 'NODE_EXTRA_CA_CERTS'],
    ['?sslmode=require&sslrootcert=/no/ca.pem', '/no/ca.pem can’t be read', 'Correct sslrootcert'],
    ['?sslmode=verify-full&sslrootcert=/no/ca.pem', '/no/ca.pem', 'Correct sslrootcert'],
  ])(
    'is not reached with “%s”, and the message has the remedy',
    async (parameters, why, remedy) => {
      const { code, stderr } = await statusWith(parameters);
      expect(code).not.toBe(0);
      expect(stderr).toContain(why);
      expect(stderr).toMatch(/\n {2}→ /);
      expect(stderr).toContain(remedy);
    },
  );

  it('is not reached by another name than the certificate’s, unless the name is not asked', async () => {
    const { stderr } = await statusWith('?sslmode=verify-full&sslrootcert=FILE', {
      host: '127.0.0.1',
    });
    expect(stderr).toContain('certificate is for another host name');
    expect(stderr).toContain('sslmode=verify-ca');
  });
});

it('a server without TLS is named as such', async () => {
  const url = new URL(testServer.userUrl);
  for (const mode of ['require', 'prefer', 'verify-full']) {
    url.searchParams.set('sslmode', mode);
    const { stderr } = await run(['status'], { DATABASE_URL: url.href });
    expect(stderr, mode).toContain('the server does not offer TLS');
    expect(stderr).toContain('write sslmode=disable');
  }
  url.searchParams.set('sslmode', 'disable');
  expect((await run(['status'], { DATABASE_URL: url.href })).code).toBe(0);
});

it.each(['SSL required', 'connection is insecure (try using `sslmode=require`)'])(
  'what poolers and clouds say about a plain connection has a remedy: %s',
  (text) => {
    expect(explainDatabaseError(new Error(text), 'postgresql://h/d')?.remedy).toContain(
      'Add sslmode=require',
    );
  },
);

it.each([
  'postgresql:///shop?host=/run/postgresql',
  'postgresql://me:p%40ss@h/shop',
  '/run/postgresql shop',
])('an address without TLS parameters stays as it is: %s', (url) => {
  expect(withPsqlModes(url)).toBe(url);
});
