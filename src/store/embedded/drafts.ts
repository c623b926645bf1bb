import { randomBytes } from 'node:crypto';
import { chmod, chown, lstat, mkdir, readdir, rename, rm, rmdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode } from '../errors.js';
import { makeOwnFolder, syncFolder } from './folders.js';
import { files } from './place.js';
import { isRoot, runAs, type ServiceUser } from './service-user.js';

/** A database is built in a draft, a folder beside its final place, and published by a rename. */
const DRAFT = '.postgres-new-';
/** A draft is done in seconds; an older one of a dead process is rubbish. */
const DRAFT_LIFE_MS = 60_000;

/** An empty draft in `base` that `user` was seen to reach and write to, or null. */
export async function makeDraft(
  base: string,
  user: ServiceUser | null,
  own: boolean,
): Promise<string | null> {
  const draft = join(base, `${DRAFT}${process.pid}-${randomBytes(4).toString('hex')}`);
  try {
    if (!own && !(await makeOwnFolder(base))) return null;
    await mkdir(draft);
    await chmod(draft, user === null ? 0o700 : 0o711);
    await mkdir(files.data(draft), { mode: 0o700 });
    if (user === null) return draft;
    await chown(files.data(draft), user.uid, user.gid);
    const script = 'cd "$1" && : > probe && rm probe';
    const tried = await runAs(user, '/bin/sh', ['-c', script, 'sh', files.data(draft)]);
    if (tried.code === 0) return draft;
  } catch (error) {
    if (user === null || errorCode(error) === 'ENOSPC') throw error;
  }
  await removeDraft(draft);
  return null;
}

/** Gives the draft its final name, unless another process was first. */
export async function publish(
  draft: string,
  pointer: string,
  user: ServiceUser | null,
): Promise<void> {
  if (dirname(draft) === dirname(pointer)) {
    await unlessTaken(rename(draft, pointer));
  } else {
    const location = join(dirname(draft), randomBytes(8).toString('hex'));
    await rename(draft, location);
    await syncFolder(dirname(draft));
    if (!(await unlessTaken(symlink(location, pointer)))) await removeTree(location, user);
  }
  await syncFolder(dirname(pointer));
}

async function unlessTaken(step: Promise<void>): Promise<boolean> {
  try {
    await step;
    return true;
  } catch (error) {
    if (['EEXIST', 'ENOTEMPTY', 'ENOTDIR'].includes(errorCode(error))) return false;
    throw error;
  }
}

export async function removeDraft(draft: string): Promise<void> {
  const data = await lstat(files.data(draft)).catch(() => null);
  const user = isRoot() && data !== null && data.uid !== 0 ? data : null;
  await removeTree(draft, user).catch(() => {}); // the sweep of a later start tries again
}

/**
 * Removes a database's folder. What belongs to the service user is removed under its name: root
 * walking through folders that another account can change could be led astray by a link.
 */
async function removeTree(location: string, user: ServiceUser | null): Promise<void> {
  if (user !== null) {
    const script = 'cd "$1" && find . -mindepth 1 -delete';
    await runAs(user, '/bin/sh', ['-c', script, 'sh', files.data(location)]);
    await rmdir(files.data(location)).catch(() => {});
    if ((await lstat(files.data(location)).catch(() => null)) !== null) return;
  }
  await rm(location, { recursive: true, force: true });
}

/** Removes what starts that were killed left beside a database. */
export async function sweepDrafts(folder: string): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    if (!name.startsWith(DRAFT)) continue;
    const draft = join(folder, name);
    const found = await lstat(draft).catch(() => null);
    const ours = found?.isDirectory() === true && found.uid === process.geteuid?.();
    if (!ours || Date.now() - found.mtimeMs < DRAFT_LIFE_MS) continue;
    if (!isAlive(Number(name.slice(DRAFT.length).split('-')[0]))) await removeDraft(draft);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) !== 'ESRCH';
  }
}
