import { errorCode } from '../domain/error-code.js';
import type { Action, LoginLink, User } from '../db/generated/prisma/client.js';
import type { Role } from '../db/generated/prisma/enums.js';
import type { Db } from '../db/db.js';

export type { Role };

export const ROLES = ['viewer', 'operator'] as const satisfies readonly Role[];

/** A dashboard account. */
export type DashboardUser = Pick<User, 'name' | 'role' | 'createdAt'> & {
  /** False: the person logs in by links. */
  readonly hasPassword: boolean;
};

/** A logged-in browser. */
export interface DashboardSession {
  /** The account's name, or who created the login link. */
  readonly who: string;
  readonly role: Role;
  /** The account; null for a login by a link of whoever may run commands on the store. */
  readonly account: string | null;
}

/** Whom a login lets in. */
export type LoginOwner = { readonly userName: string } | { readonly madeBy: string };

/** A session ends after this long without use (ms). */
const SESSION_IDLE_MS = 12 * 3_600_000;
/** How long a login link is valid (ms): one's own, and one that is sent to a colleague. */
const LINK_MS = 10 * 60_000;
const ACCOUNT_LINK_MS = 24 * 3_600_000;
/** What was recorded further ahead (ms) was recorded by a clock that was wrong, and opens nothing. */
const AHEAD_MS = 60_000;
/** A session's last use is recorded at most this often (ms), so that most requests write nothing. */
const SEEN_EVERY_MS = 60_000;

/** All accounts, sorted by name. */
export async function listUsers(db: Db): Promise<DashboardUser[]> {
  const prisma = await db.prisma();
  const users = await prisma.user.findMany({ orderBy: { name: 'asc' } });
  return users.map(({ passwordHash, ...user }) => {
    return { ...user, hasPassword: passwordHash !== '' };
  });
}

/** Whether anybody can log in with a password. */
export async function hasAccount(db: Db): Promise<boolean> {
  return (await listUsers(db)).some(({ hasPassword }) => hasPassword);
}

/** @returns false if the name is taken */
export async function createUser(
  db: Db,
  user: { readonly name: string; readonly role: Role; readonly passwordHash: string },
): Promise<boolean> {
  const prisma = await db.prisma();
  const { count } = await prisma.user.createMany({ data: [user], skipDuplicates: true });
  return count === 1;
}

/** Removes an account and ends its sessions. @returns false if there is no such account */
export async function deleteUser(db: Db, name: string): Promise<boolean> {
  const prisma = await db.prisma();
  return (await prisma.user.deleteMany({ where: { name } })).count === 1;
}

/** Sets a password, and ends the account's sessions and login links. @returns false if there is no such account */
export async function changePassword(db: Db, name: string, passwordHash: string): Promise<boolean> {
  const prisma = await db.prisma();
  const [{ count }] = await prisma.$transaction([
    prisma.user.updateMany({ where: { name }, data: { passwordHash } }),
    prisma.session.deleteMany({ where: { userName: name } }),
    prisma.loginLink.deleteMany({ where: { userName: name } }),
  ]);
  return count === 1;
}

/** An account's password hash; null if there is no such account. */
export async function readPasswordHash(db: Db, name: string): Promise<string | null> {
  const prisma = await db.prisma();
  return (await prisma.user.findUnique({ where: { name } }))?.passwordHash ?? null;
}

/**
 * Stores a login link: one's own is valid for ten minutes, one of an account for a day, or until the next one.
 * @param tokenHash SHA-256 of its token
 * @param madeBy shown to people
 */
export async function addLoginLink(
  db: Db,
  tokenHash: Uint8Array<ArrayBuffer>,
  madeBy: string,
  userName: string | null = null,
): Promise<void> {
  const prisma = await db.prisma();
  const now = db.clock.now();
  const tooLate = new Date(now + ACCOUNT_LINK_MS + AHEAD_MS);
  const expiresAt = new Date(now + lifeOf(userName));
  await prisma.$transaction([
    prisma.loginLink.deleteMany({
      where: {
        OR: [
          { expiresAt: { lt: new Date(now) } },
          { expiresAt: { gt: tooLate } },
          ...(userName === null ? [] : [{ userName }]),
        ],
      },
    }),
    prisma.loginLink.create({ data: { tokenHash, madeBy, userName, expiresAt } }),
  ]);
}

function lifeOf(userName: string | null): number {
  return userName === null ? LINK_MS : ACCOUNT_LINK_MS;
}

/** Whom a login link would let in; null if it was used before or has expired. */
export async function findLoginLink(
  db: Db,
  tokenHash: Uint8Array<ArrayBuffer>,
): Promise<LoginOwner | null> {
  const prisma = await db.prisma();
  const link = await prisma.loginLink.findUnique({ where: { tokenHash } });
  return link === null ? null : ownerOf(db, link);
}

/** Redeems a login link, once. @returns whom it lets in; null if it was used before or has expired */
export async function useLoginLink(
  db: Db,
  tokenHash: Uint8Array<ArrayBuffer>,
): Promise<LoginOwner | null> {
  const prisma = await db.prisma();
  try {
    return ownerOf(db, await prisma.loginLink.delete({ where: { tokenHash } }));
  } catch (error) {
    if (errorCode(error) === ROW_NOT_FOUND) return null;
    throw error;
  }
}

function ownerOf(
  db: Db,
  { madeBy, userName, expiresAt }: Pick<LoginLink, 'madeBy' | 'userName' | 'expiresAt'>,
): LoginOwner | null {
  const leftMs = expiresAt.getTime() - db.clock.now();
  if (leftMs <= 0 || leftMs > lifeOf(userName) + AHEAD_MS) return null;
  return userName === null ? { madeBy } : { userName };
}

/** Prisma's error code for a record that does not exist. */
const ROW_NOT_FOUND = 'P2025';

/** Opens a session for an account or a login link, and deletes expired sessions. */
export async function startSession(
  db: Db,
  tokenHash: Uint8Array<ArrayBuffer>,
  owner: LoginOwner,
): Promise<void> {
  const prisma = await db.prisma();
  const now = db.clock.now();
  const [at, expired, ahead] = [now, now - SESSION_IDLE_MS, now + AHEAD_MS].map(
    (ms) => new Date(ms),
  ) as [Date, Date, Date];
  await prisma.$transaction([
    prisma.session.deleteMany({
      where: { OR: [{ seenAt: { lt: expired } }, { seenAt: { gt: ahead } }] },
    }),
    prisma.session.create({ data: { tokenHash, createdAt: at, seenAt: at, ...owner } }),
  ]);
}

/**
 * The session of a token; null if it has expired or never existed. A login link gives the operator role.
 * @param isUse false for requests that an open page makes by itself; they don't keep a session alive
 */
export async function findSession(
  db: Db,
  tokenHash: Uint8Array<ArrayBuffer>,
  isUse = true,
): Promise<DashboardSession | null> {
  const prisma = await db.prisma();
  const session = await prisma.session.findUnique({
    where: { tokenHash },
    include: { user: true },
  });
  if (session === null) return null;
  const now = db.clock.now();
  const idleMs = now - session.seenAt.getTime();
  if (idleMs > SESSION_IDLE_MS || idleMs < -AHEAD_MS) return null;
  if (isUse && idleMs > SEEN_EVERY_MS) {
    await prisma.session.updateMany({ where: { tokenHash }, data: { seenAt: new Date(now) } });
  }
  const { user, madeBy } = session;
  return user === null
    ? { who: madeBy ?? 'login link', role: 'operator', account: null }
    : { who: user.name, role: user.role, account: user.name };
}

export async function endSession(db: Db, tokenHash: Uint8Array<ArrayBuffer>): Promise<void> {
  const prisma = await db.prisma();
  await prisma.session.deleteMany({ where: { tokenHash } });
}

/** An entry of the action log. */
type LoggedAction = Omit<Action, 'actionId' | 'at'>;

export async function logAction(db: Db, action: LoggedAction): Promise<void> {
  const prisma = await db.prisma();
  await prisma.action.create({ data: action });
}

/** The newest actions, newest first. */
export async function listActions(db: Db, limit: number): Promise<Action[]> {
  const prisma = await db.prisma();
  return prisma.action.findMany({ orderBy: { actionId: 'desc' }, take: limit });
}
