import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt);

/** N = 2^17: 128 MB and about 0.4 s for each. */
const LOG_N = 17;
const BLOCK = 8;
const HASH_BYTES = 32;
/** At most this many at once: each takes 128 MB. */
const AT_ONCE = 2;

export const SHORTEST_PASSWORD = 10;
/** Longer ones are refused, not cut. */
export const LONGEST_PASSWORD = 1_000;

/** Whether an account can have this name. */
export function isUserName(text: string): boolean {
  return /^[\w.@-]{1,63}$/.test(text);
}

/** Why a password can't be used; null when it can. */
export function passwordFault(password: string): string | null {
  if (password.length > LONGEST_PASSWORD) {
    return `a password has at most ${LONGEST_PASSWORD} characters`;
  }
  return password.length < SHORTEST_PASSWORD
    ? `a password has at least ${SHORTEST_PASSWORD} characters`
    : null;
}

/** Hashes a password with scrypt and a salt of its own, for `mirror.users`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await hashOf(password, salt, LOG_N);
  return ['scrypt', LOG_N, salt.toString('base64'), hash.toString('base64')].join('$');
}

/**
 * Whether the password is the one that was hashed. Takes as long when there is no account, so that
 * nobody learns which names exist.
 * @param stored null when there is no account
 */
export async function isPassword(password: string, stored: string | null): Promise<boolean> {
  const [, logN, salt = '', hash = ''] = stored?.split('$') ?? [];
  if (password.length > LONGEST_PASSWORD) return false;
  const expected = Buffer.from(hash, 'base64');
  const found = await hashOf(password, Buffer.from(salt, 'base64'), Number(logN ?? LOG_N));
  return expected.length === found.length && timingSafeEqual(expected, found);
}

let running = 0;
const waiting: (() => void)[] = [];

async function hashOf(password: string, salt: Buffer, logN: number): Promise<Buffer> {
  if (running >= AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
  else running++;
  try {
    const N = 2 ** logN;
    const options = { N, r: BLOCK, p: 1, maxmem: 256 * N * BLOCK };
    return await derive(password.normalize('NFKC'), salt, HASH_BYTES, options);
  } finally {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}
