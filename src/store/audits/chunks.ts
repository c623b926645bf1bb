import type { PoolClient } from 'pg';
import { tryLock } from '../locks.js';
import { KNOWN } from './columns.js';
import type { Db } from '../db.js';
import type { AuditState, LockedChunk, PendingCode } from './types.js';

/** Another process, or another job of this process, works on the chunk. */
export class ChunkBusyError extends Error {
  override readonly name = 'ChunkBusyError';

  constructor(
    readonly auditId: bigint,
    readonly chunk: number,
  ) {
    super(`another job works on chunk ${chunk} of audit ${auditId}`);
  }
}

/** The audit is not running: it is finished, cancelled or failed, or does not exist. */
export class AuditNotRunningError extends Error {
  override readonly name = 'AuditNotRunningError';

  constructor(
    readonly auditId: bigint,
    /** Null if there is no such audit. */
    readonly state: Exclude<AuditState, 'running'> | null,
  ) {
    super(state === null ? `there is no audit ${auditId}` : `audit ${auditId} is ${state}`);
  }
}

/** Numbers of the chunks with pending codes, starting at chunk `from`. */
export async function findNextChunks(
  { pool }: Db,
  auditId: bigint,
  from: number,
  limit: number,
): Promise<number[]> {
  const { rows } = await pool.query<{ chunk: number }>(
    `SELECT chunk FROM mirror.audit_chunks
      WHERE audit_id = $1 AND chunk >= $2 AND pending > 0 ORDER BY chunk LIMIT $3`,
    [auditId, from, limit],
  );
  return rows.map(({ chunk }) => chunk);
}

/** The codes of a chunk that are neither settled nor denied, by position. */
export async function readPendingCodes(
  { pool }: Db,
  auditId: bigint,
  chunk: number,
  chunkSize: number,
): Promise<PendingCode[]> {
  // The size is a parameter: with bounds that the planner doesn't know, it reads all codes of the seller.
  const { rows } = await pool.query<PendingCode>(
    `SELECT ${PENDING_COLUMNS}
       FROM mirror.audit_codes a JOIN mirror.purchase_codes p ON p.code_id = a.code_id
      WHERE a.audit_id = $1 AND a.position >= $2 AND a.position < $3
        AND a.verdict IS NULL AND a.denials = 0
      ORDER BY a.position`,
    [auditId, chunk * chunkSize, (chunk + 1) * chunkSize],
  );
  return rows;
}

/** SQL columns of a `PendingCode`, from `mirror.audit_codes a` and its `mirror.purchase_codes p`. */
export const PENDING_COLUMNS = `
  a.position, a.code_id AS "codeId", p.code, a.attempts, a.last_denied_at AS "lastDeniedAt",
  ${KNOWN} AS known`;

/** Calls `work` while holding the chunk's lock. @throws {ChunkBusyError | AuditNotRunningError} */
export async function withChunk<T>(
  db: Db,
  auditId: bigint,
  chunk: number,
  work: (locked: LockedChunk) => Promise<T>,
): Promise<T> {
  const lock = await tryLock(
    db,
    `seller-mirror/audit/${auditId}/${chunk}`,
    () => new ChunkBusyError(auditId, chunk),
  );
  let stopProbing = (): Promise<unknown> => Promise.resolve();
  try {
    const { rows } = await lock.client.query<
      Omit<LockedChunk, 'lost'> & { readonly state: AuditState }
    >(
      `SELECT audit_id AS "auditId", chunk_size AS "chunkSize", canary, confirm, state
         FROM mirror.audits WHERE audit_id = $1`,
      [auditId],
    );
    if (rows[0] === undefined) throw new AuditNotRunningError(auditId, null);
    const { state, ...audit } = rows[0];
    if (state !== 'running') throw new AuditNotRunningError(auditId, state);
    stopProbing = probeRegularly(lock.client, db.times.silentMs / 2);
    return await work({ ...audit, lost: lock.lost });
  } finally {
    await stopProbing();
    await lock.release();
  }
}

/**
 * Sends an empty query at intervals. A lost connection is noticed only during a statement, and work on a chunk takes
 * minutes without one.
 * @returns stops, and resolves once the connection is free
 */
function probeRegularly(client: PoolClient, everyMs: number): () => Promise<unknown> {
  let probe: Promise<unknown> | null = null;
  const timer = setInterval(() => {
    probe ??= client
      .query('SELECT')
      .catch(() => undefined)
      .finally(() => (probe = null));
  }, everyMs);
  timer.unref();
  return () => {
    clearInterval(timer);
    return probe ?? Promise.resolve();
  };
}
