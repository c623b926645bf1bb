import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';

const derive = promisify<string, Buffer, number, object, Buffer>(scrypt);

/** scrypt cost N = 2^17: a hash takes 128 MB and about 0.4 s. */
const LOG_N = 17;
/** scrypt block size r. */
const BLOCK = 8;
const HASH_BYTES = 32;
const MAX_PARALLEL_HASHES = 2;

export const MIN_PASSWORD_CHARS = 10;
/** Longer passwords are refused, not truncated. */
const MAX_PASSWORD_CHARS = 1_000;

/** What a password must be, for the form that asks for one. */
export const PASSWORD_RULE = `At least ${MIN_PASSWORD_CHARS} characters, and nothing else is required.`;

/** Whether the text is a valid account name. */
export function isUserName(text: string): boolean {
  return /^[\w.@-]{1,63}$/.test(text);
}

/** Why a password is not allowed; null when it is. */
export function passwordFault(password: string): string | null {
  if (password.length > MAX_PASSWORD_CHARS) {
    return `a password may have at most ${MAX_PASSWORD_CHARS} characters`;
  }
  return password.length < MIN_PASSWORD_CHARS
    ? `a password needs at least ${MIN_PASSWORD_CHARS} characters`
    : null;
}

/** Hashes a password with scrypt and a random salt, for `mirror.users`. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const hash = await hashOf(password, salt, LOG_N);
  return ['scrypt', LOG_N, salt.toString('base64'), hash.toString('base64')].join('$');
}

/**
 * Whether a password matches its hash. Takes equally long without an account, so that timing does not
 * reveal which names exist.
 * @param stored the hash; null without an account
 */
export async function isPassword(password: string, stored: string | null): Promise<boolean> {
  const [, logN, salt = '', hash = ''] = stored?.split('$') ?? [];
  if (password.length > MAX_PASSWORD_CHARS) return false;
  const expected = Buffer.from(hash, 'base64');
  const found = await hashOf(password, Buffer.from(salt, 'base64'), Number(logN ?? LOG_N));
  return expected.length === found.length && timingSafeEqual(expected, found);
}

let running = 0;
const waiting: (() => void)[] = [];

async function hashOf(password: string, salt: Buffer, logN: number): Promise<Buffer> {
  if (running >= MAX_PARALLEL_HASHES) await new Promise<void>((resolve) => waiting.push(resolve));
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
