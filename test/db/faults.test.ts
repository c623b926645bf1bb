import { existsSync, mkdirSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { folder, MAIN, run } from '../cli/support.js';
import { createTestDatabase, databaseAt, query, testServer } from '../support/postgres.js';
import { trialFolder } from './embedded/trial.js';

const isRoot = process.geteuid?.() === 0;

/** A migrated database that is dropped after the test. */
async function database(): Promise<string> {
  const made = await createTestDatabase();
  onTestFinished(() => made.drop());
  return made.url;
}

/** Runs a command under a shell, which limits it. @param before the shell's commands before it */
function limited(before: string, args: string, env: Readonly<Record<string, string>>) {
  const script = `${before}exec "${process.execPath}" "${MAIN}" ${args}`;
  const ended = spawnSync('sh', ['-c', script], {
    env: { PATH: process.env['PATH'], ...env },
    cwd: '/',
    encoding: 'utf8',
  });
  return { code: ended.status, stdout: ended.stdout, stderr: ended.stderr };
}

describe('a backup', () => {
  it('of an 80-MB workbook takes time in proportion to it (once it took minutes, by its square)', async () => {
    const url = await database();
    await query(
      url,
      `INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'a')`,
      `INSERT INTO mirror.audits (seller_id, state, source, layout, columns, lines, rejected, codes,
                                  reused, valid, invalid, unproven, pending)
       VALUES ('main', 'running', 'x', '{}', '{}', 0, 0, 0, 0, 0, 0, 0, 0)`,
      `INSERT INTO mirror.audit_workbooks (audit_id, seller_id, sheet, content)
       SELECT audit_id, 'main', 's', convert_to(repeat('ab', 40000000), 'UTF8') FROM mirror.audits`,
    );
    const file = join(folder(), 'large.tar.gz');
    const backup = await run(['backup', file, '--json'], { DATABASE_URL: url });
    expect(JSON.parse(backup.stdout)).toMatchObject({ rows: { audit_workbooks: 1 } });
    const check = await run(['restore', '--check', file], { DATABASE_URL: url });
    expect(check).toMatchObject({ code: 0, stderr: '' });
  });

  it('is not restored by a role that owns no table, which is told so', async () => {
    const url = await database();
    const env = { DATABASE_URL: url };
    const file = join(folder(), 'mirror.tar.gz');
    await run(['backup', file], env);
    const role = `test_writer_${process.pid}`;
    const admin = databaseAt(testServer.adminUrl, new URL(url).pathname.slice(1));
    await query(
      admin,
      `CREATE ROLE ${role} LOGIN PASSWORD 'w'`,
      `GRANT USAGE ON SCHEMA mirror TO ${role}`,
      `GRANT ALL ON ALL TABLES IN SCHEMA mirror TO ${role}`,
    );
    onTestFinished(async () => {
      await query(admin, `DROP OWNED BY ${role}`, `DROP ROLE ${role}`);
    });
    const other = new URL(url);
    Object.assign(other, { username: role, password: 'w' });
    const restored = await run(['restore', file, '--replace'], { DATABASE_URL: other.href });
    expect(restored).toMatchObject({
      code: 1,
      stderr:
        'error: the role in DATABASE_URL does not own the tables of schema mirror\n  → Nothing was changed. Use the role that owns them in DATABASE_URL.\n',
    });
  });
});

describe('doctor', () => {
  it.each([
    ['could not extend file "base/1/2": No space left on device', 'the disk is full'],
    [
      'could not resize shared memory segment "/PostgreSQL.12" to 34 bytes: No space left on device',
      'the server has too little shared memory',
    ],
  ])('does not ask for rights when %s', async (message, expected) => {
    const url = await database();
    // A superuser's trigger, since a test can't fill a disk.
    await query(
      databaseAt(testServer.adminUrl, new URL(url).pathname.slice(1)),
      `CREATE FUNCTION public.fail() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
         RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = '${message}'; END $$`,
      `CREATE EVENT TRIGGER fail ON ddl_command_start EXECUTE FUNCTION public.fail()`,
    );
    const { stdout } = await run(['doctor'], { DATABASE_URL: url });
    expect(stdout).toContain(`: ${expected}\n`);
    expect(stdout).not.toContain('grant it');
  });
});

describe('the program', () => {
  it.each([20, 64])('that may open only %i files says how to raise the limit', (limit) => {
    const ended = limited(`ulimit -n ${limit}; `, 'sync', { DATA_DIR: '/nowhere' });
    expect(ended).toEqual({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(
        /^error: .* too few files\n {2}→ raise the limit .*\n$/,
      ) as string,
    });
  });

  it.skipIf(!isRoot)(
    'run by a user without a name says that PostgreSQL needs one (needs root)',
    async () => {
      const place = await trialFolder('nameless');
      const own = join(place, 'own');
      mkdirSync(own, { mode: 0o777 });
      const script = `process.setgid(54321); process.setuid(54321); process.argv = [process.execPath, ...process.argv.slice(1)];
        await import(process.argv[1])`;
      const as = (...args: string[]) =>
        spawnSync(process.execPath, ['--input-type=module', '-e', script, '--', MAIN, ...args], {
          env: { PATH: process.env['PATH'], DATA_DIR: join(own, 'data') },
          cwd: '/',
          encoding: 'utf8',
        });
      const nameless = 'PostgreSQL can’t be set up by user 54321, who has no entry in /etc/passwd';
      expect(as('migrate').stderr).toContain(`error: ${nameless}\n  → Add an entry`);
      expect(as('doctor').stdout).toContain(`✗ store: ${nameless}\n  → Add an entry`);
      expect(existsSync(join(own, 'data/postgres'))).toBe(false);
    },
  );

  it.skipIf(!isRoot || spawnSync('unshare', ['-m', 'true']).status !== 0)(
    'whose /dev/shm is small says so, and names no disk (needs root and a namespace of mounts)',
    async () => {
      const place = await trialFolder('shm');
      const mount = 'mount -t tmpfs -o size=100k tmpfs /dev/shm && ';
      const ended = spawnSync(
        'unshare',
        ['-m', 'sh', '-c', `${mount}exec "${process.execPath}" "${MAIN}" migrate`],
        {
          env: { PATH: process.env['PATH'], DATA_DIR: join(place, 'data') },
          cwd: '/',
          encoding: 'utf8',
        },
      );
      expect(ended.stderr).toContain('the server has too little shared memory\n  → Give its');
      expect(ended.stderr).not.toContain('disk');
    },
  );
});
