import { hash, randomBytes } from 'node:crypto';
import type { Db } from '../db/db.js';
import { TokenScope } from '../db/generated/prisma/enums.js';
import { TOKEN_PREFIX } from '../domain/secret.js';

/** What a token lets a program do: look up codes, or read the state and ask for syncs. */
export type Scope = TokenScope;
export const SCOPES: readonly Scope[] = Object.values(TokenScope);

/** What people see of a token. The token itself is not stored. */
export interface TokenRow {
  readonly name: string;
  /** Null: every configured seller. */
  readonly sellerId: string | null;
  readonly scope: Scope;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

/** A program with a token. */
export interface Caller {
  readonly tokenId: bigint;
  readonly name: string;
  /** Null: every configured seller. */
  readonly sellerId: string | null;
  readonly scope: Scope;
}

/**
 * Makes a token for a program.
 * @returns the token, which can't be shown again; null if the name is taken
 */
export async function createToken(
  db: Db,
  name: string,
  sellerId: string | null,
  scope: Scope = 'codes',
): Promise<string | null> {
  const token = TOKEN_PREFIX + randomBytes(32).toString('base64url');
  const prisma = await db.prisma();
  const { count } = await prisma.apiToken.createMany({
    data: [{ name, sellerId, scope, tokenHash: hashOf(token) }],
    skipDuplicates: true,
  });
  return count === 1 ? token : null;
}

/** All tokens, sorted by name. */
export async function listTokens(db: Db): Promise<TokenRow[]> {
  const prisma = await db.prisma();
  const select = { name: true, sellerId: true, scope: true, createdAt: true, lastUsedAt: true };
  return prisma.apiToken.findMany({ select, orderBy: { name: 'asc' } });
}

/** Deletes a token. Programs that use it are refused within two seconds. @returns false if there is none */
export async function revokeToken(db: Db, name: string): Promise<boolean> {
  const prisma = await db.prisma();
  return (await prisma.apiToken.deleteMany({ where: { name } })).count === 1;
}

/** A token is looked up at most this often (ms), and its last use recorded at most this often (ms). */
const FRESH_MS = 2_000;
const USED_EVERY_MS = 60_000;
/** Wrong tokens that are remembered; then all are forgotten. */
const MAX_REMEMBERED = 10_000;

interface Remembered {
  readonly caller: Caller | null;
  readonly at: number;
}

/** Recognizes the tokens of requests. */
export class Callers {
  readonly #db: Db;
  readonly #known = new Map<string, Remembered>();
  readonly #usedAt = new Map<bigint, number>();

  constructor(db: Db) {
    this.#db = db;
  }

  /** @returns null for a token that is unknown or revoked */
  async find(token: string): Promise<Caller | null> {
    const key = hash('sha256', token, 'base64');
    const now = performance.now();
    let found = this.#known.get(key);
    if (found === undefined || now - found.at > FRESH_MS) {
      const { rows } = await this.#db.pool.query<Caller>(
        `SELECT token_id AS "tokenId", name, seller_id AS "sellerId", scope FROM mirror.api_tokens
          WHERE token_hash = $1`,
        [Buffer.from(key, 'base64')],
      );
      found = { caller: rows[0] ?? null, at: now };
      if (this.#known.size >= MAX_REMEMBERED) this.#known.clear();
      this.#known.set(key, found);
    }
    if (found.caller !== null) this.#noteUse(found.caller.tokenId, now);
    return found.caller;
  }

  /** For people only, so a failure does not matter. */
  #noteUse(tokenId: bigint, now: number): void {
    if (now - (this.#usedAt.get(tokenId) ?? -Infinity) < USED_EVERY_MS) return;
    this.#usedAt.set(tokenId, now);
    void this.#db.pool
      .query('UPDATE mirror.api_tokens SET last_used_at = now() WHERE token_id = $1', [tokenId])
      .catch(() => undefined);
  }
}

/** A random token needs no salt. */
function hashOf(token: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(hash('sha256', token, 'base64'), 'base64'));
}
