import type { Pool, PoolClient } from 'pg';
import { tryLock, type LockPools } from '../locks.js';
import { KNOWN } from './columns.js';
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
  const { rows: audits } = await pool.query<{ size: number }>(
    'SELECT chunk_size AS size FROM mirror.audits WHERE audit_id = $1',
    [auditId],
  );
  const size = audits[0]?.size ?? 0;
  // Bounds that the planner can't see it takes for far apart, and reads all codes of the seller.
  const { rows } = await pool.query<PendingCode>(
    `SELECT ${PENDING_COLUMNS}
       FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
      WHERE a.audit_id = $1 AND a.position >= $2 AND a.position < $3
        AND a.verdict IS NULL AND a.denials = 0
      ORDER BY a.position`,
    [auditId, chunk * size, (chunk + 1) * size],
  );
  return rows;
}

/** Columns of `mirror.audit_codes a` and its `mirror.purchase_codes p` that make a `PendingCode`. */
export const PENDING_COLUMNS = `
  a.position, a.code_id AS "codeId", p.code, a.attempts, a.last_denied_at AS "lastDeniedAt",
  ${KNOWN} AS known`;

/** Works on a chunk while nobody else does. @throws {ChunkBusyError | AuditNotRunningError} */
export async function withChunk<T>(
  pools: LockPools,
  auditId: bigint,
  chunk: number,
  work: (held: HeldChunk) => Promise<T>,
): Promise<T> {
  const lock = await tryLock(
    pools,
    `seller-mirror/audit/${auditId}/${chunk}`,
    () => new ChunkBusyError(auditId, chunk),
  );
  let endUse = (): Promise<unknown> => Promise.resolve();
  try {
    const { rows } = await lock.client.query<
      Pick<HeldChunk, 'sellerId' | 'canary'> & { readonly state: AuditState }
    >(`SELECT seller_id AS "sellerId", canary, state FROM mirror.audits WHERE audit_id = $1`, [
      auditId,
    ]);
    if (rows[0] === undefined) throw new AuditNotRunningError(auditId, null);
    const { state, ...audit } = rows[0];
    if (state !== 'running') throw new AuditNotRunningError(auditId, state);
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
