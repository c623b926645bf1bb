import type { Pool, PoolClient } from 'pg';
import { tryLock, type LockPools } from '../advisory-lock.js';
import { readKnown } from './known-row.js';
import type { AuditState, HeldChunk, PendingCode } from './types.js';

/** Another process, or another job of this one, works on the chunk. */
export class ChunkBusyError extends Error {
  override readonly name = 'ChunkBusyError';

  constructor(
    readonly auditId: bigint,
    readonly chunk: number,
  ) {
    super(`chunk ${chunk} of audit ${auditId} is being worked on already`);
  }
}

/** There is nothing to do for the audit: it is finished, was cancelled, failed, or is gone. */
export class AuditNotRunningError extends Error {
  override readonly name = 'AuditNotRunningError';

  constructor(
    readonly auditId: bigint,
    /** Null when there is no such audit. */
    readonly state: Exclude<AuditState, 'running'> | null,
  ) {
    super(state === null ? `there is no audit ${auditId}` : `audit ${auditId} is ${state}`);
  }
}

/** Numbers of the chunks from `after` on that still have pending codes, in order. */
export async function nextChunks(
  pool: Pool,
  auditId: bigint,
  after: number,
  limit: number,
): Promise<number[]> {
  const { rows } = await pool.query<{ chunk: number }>(
    `SELECT chunk FROM mirror.audit_chunks
      WHERE audit_id = $1 AND chunk >= $2 AND pending > 0 ORDER BY chunk LIMIT $3`,
    [auditId, after, limit],
  );
  return rows.map(({ chunk }) => chunk);
}

/** The codes of a chunk that are neither settled nor denied, in the order of their positions. */
export async function pendingOf(
  pool: Pool,
  auditId: bigint,
  chunk: number,
): Promise<PendingCode[]> {
  const { rows: audits } = await pool.query<{ chunk_size: number }>(
    'SELECT chunk_size FROM mirror.audits WHERE audit_id = $1',
    [auditId],
  );
  const size = audits[0]?.chunk_size;
  if (size === undefined) return [];
  // Bounds that the planner can't see it takes for far apart, and reads all codes of the seller.
  const { rows } = await pool.query<{
    position: number;
    code_id: string;
    code: string;
    attempts: number;
    is_known: boolean;
  }>(
    `SELECT a.position, a.code_id, p.code, a.attempts, p.verdict IS NOT NULL AS is_known
       FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
      WHERE a.audit_id = $1 AND a.position >= $2 AND a.position < $3
        AND a.verdict IS NULL AND a.denials = 0
      ORDER BY a.position`,
    [auditId, chunk * size, (chunk + 1) * size],
  );
  const known = await readKnown(pool, rows);
  return rows.map(({ position, code_id, code, attempts }) => ({
    ...{ position, codeId: BigInt(code_id), code, attempts, lastDeniedAt: null },
    known: known.get(code_id) ?? null,
  }));
}

/**
 * Works on a chunk while nobody else does.
 * @throws {ChunkBusyError} when somebody else works on it
 * @throws {AuditNotRunningError} when the audit does not run
 */
export async function withChunk<T>(
  pools: LockPools,
  auditId: bigint,
  chunk: number,
  work: (held: HeldChunk) => Promise<T>,
): Promise<T> {
  const name = `seller-mirror/audit/${auditId}/${chunk}`;
  const lock = await tryLock(pools, name, () =>
    Promise.resolve(new ChunkBusyError(auditId, chunk)),
  );
  let endUse = (): Promise<unknown> => Promise.resolve();
  try {
    const audit = await runningAudit(lock.client, auditId);
    endUse = useRegularly(lock.client, pools.times.silentMs / 2);
    const { lost, assertHeld } = lock;
    return await work({ auditId, chunk, ...audit, lost, assertHeld });
  } finally {
    await endUse();
    await lock.release();
  }
}

/**
 * Uses a connection from time to time, since the watch over it looks at statements only, and the work on
 * a chunk takes minutes without one.
 * @returns ends it, and resolves when the connection is free
 */
function useRegularly(client: PoolClient, everyMs: number): () => Promise<unknown> {
  let using: Promise<unknown> | null = null;
  const timer = setInterval(() => {
    using ??= client
      .query('SELECT')
      .catch(() => undefined)
      .finally(() => (using = null));
  }, everyMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    return using ?? Promise.resolve();
  };
}

async function runningAudit(
  client: PoolClient,
  auditId: bigint,
): Promise<Pick<HeldChunk, 'sellerId' | 'canary'>> {
  const { rows } = await client.query<{
    state: AuditState;
    seller_id: string;
    canary: string | null;
  }>('SELECT state, seller_id, canary FROM mirror.audits WHERE audit_id = $1', [auditId]);
  const audit = rows[0];
  if (audit === undefined) throw new AuditNotRunningError(auditId, null);
  if (audit.state !== 'running') throw new AuditNotRunningError(auditId, audit.state);
  return { sellerId: audit.seller_id, canary: audit.canary };
}
