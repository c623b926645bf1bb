import { errorCode } from '../domain/error-code.js';
import type { Action, User } from './generated/prisma/client.js';
import type { Role } from './generated/prisma/enums.js';
import type { Connections } from './pools.js';

export type { Role };

/** A person with an account at the dashboard. */
export type DashboardUser = Pick<User, 'name' | 'role' | 'createdAt'>;

/** A browser that is logged in. */
export interface DashboardSession {
  /** The account's name, or who made the login link. */
  readonly who: string;
  readonly role: Role;
}

/** A session ends when it was not used for this long (ms). */
const SESSION_IDLE_MS = 12 * 3_600_000;
/** How long a login link works (ms). */
const LINK_MS = 10 * 60_000;
/** The last use of a session is kept to the minute, so that most requests write nothing. */
const SEEN_EVERY_MS = 60_000;

/** All accounts, by name. */
export function users({ prisma }: Connections): Promise<DashboardUser[]> {
  const select = { name: true, role: true, createdAt: true };
  return prisma.user.findMany({ select, orderBy: { name: 'asc' } });
}

/** @returns false when there is an account of this name already */
export async function addUser(
  { prisma }: Connections,
  user: { readonly name: string; readonly role: Role; readonly passwordHash: string },
): Promise<boolean> {
  const { count } = await prisma.user.createMany({ data: [user], skipDuplicates: true });
  return count === 1;
}

/** Removes an account; its sessions end. @returns false when there is none of this name */
export async function removeUser({ prisma }: Connections, name: string): Promise<boolean> {
  return (await prisma.user.deleteMany({ where: { name } })).count === 1;
}

/** Sets a password; the account's sessions end. @returns false when there is no such account */
export async function setPassword(
  { prisma }: Connections,
  name: string,
  passwordHash: string,
): Promise<boolean> {
  const [{ count }] = await prisma.$transaction([
    prisma.user.updateMany({ where: { name }, data: { passwordHash } }),
    prisma.session.deleteMany({ where: { userName: name } }),
  ]);
  return count === 1;
}

/** The hash of an account's password; null when there is no such account. */
export async function passwordHash({ prisma }: Connections, name: string): Promise<string | null> {
  return (await prisma.user.findUnique({ where: { name } }))?.passwordHash ?? null;
}

/** Keeps a login link. @param tokenHash SHA-256 of its token @param madeBy for people */
export async function addLink(
  { prisma }: Connections,
  tokenHash: Uint8Array<ArrayBuffer>,
  madeBy: string,
): Promise<void> {
  const now = Date.now();
  await prisma.$transaction([
    prisma.loginLink.deleteMany({ where: { expiresAt: { lt: new Date(now) } } }),
    prisma.loginLink.create({
      data: { tokenHash, madeBy, expiresAt: new Date(now + LINK_MS) },
    }),
  ]);
}

/** Uses a login link up. @returns who made it; null when it was used before, or is too old */
export async function useLink(
  { prisma }: Connections,
  tokenHash: Uint8Array<ArrayBuffer>,
): Promise<string | null> {
  try {
    const { madeBy, expiresAt } = await prisma.loginLink.delete({ where: { tokenHash } });
    return expiresAt.getTime() > Date.now() ? madeBy : null;
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Prisma's word for a row that is not there. */
function isMissing(error: unknown): boolean {
  return errorCode(error) === 'P2025';
}

/** Opens a session, for an account or for who used a login link; forgets those that ended long ago. */
export async function openSession(
  { prisma }: Connections,
  tokenHash: Uint8Array<ArrayBuffer>,
  of: { readonly userName: string } | { readonly madeBy: string },
): Promise<void> {
  const ended = new Date(Date.now() - SESSION_IDLE_MS);
  await prisma.$transaction([
    prisma.session.deleteMany({ where: { seenAt: { lt: ended } } }),
    prisma.session.create({ data: { tokenHash, ...of } }),
  ]);
}

/**
 * The session of a token; null when it has ended or never was. A login link opens an operator's.
 * @param isUse false for what an open page asks by itself: the session ends all the same when nobody uses it
 */
export async function session(
  { prisma }: Connections,
  tokenHash: Uint8Array<ArrayBuffer>,
  isUse = true,
): Promise<DashboardSession | null> {
  const session = await prisma.session.findUnique({
    where: { tokenHash },
    include: { user: true },
  });
  if (session === null) return null;
  const idleMs = Date.now() - session.seenAt.getTime();
  if (idleMs > SESSION_IDLE_MS) return null;
  if (isUse && idleMs > SEEN_EVERY_MS) {
    await prisma.session.updateMany({ where: { tokenHash }, data: { seenAt: new Date() } });
  }
  const { user, madeBy } = session;
  return user === null
    ? { who: madeBy ?? 'login link', role: 'operator' }
    : { who: user.name, role: user.role };
}

/** Ends a session. */
export async function endSession(
  { prisma }: Connections,
  tokenHash: Uint8Array<ArrayBuffer>,
): Promise<void> {
  await prisma.session.deleteMany({ where: { tokenHash } });
}

/** What somebody did. */
export type LoggedAction = Omit<Action, 'actionId' | 'at'>;

/** Enters what somebody did into the log of actions. */
export async function log({ prisma }: Connections, action: LoggedAction): Promise<void> {
  await prisma.action.create({ data: action });
}

/** The newest actions, newest first. */
export function actions({ prisma }: Connections, limit: number): Promise<Action[]> {
  return prisma.action.findMany({ orderBy: { actionId: 'desc' }, take: limit });
}
