import { setTimeout as sleep } from 'node:timers/promises';
import type { PoolClient } from 'pg';
import type { RetentionPlan } from '../../domain/retention.js';
import { openLong, tryLock, type LockPools } from '../advisory-lock.js';
import { itemsLockSql } from '../lock.js';
import { listKeptRuns, batchSql, measureSql, PRUNE_STEPS, type PruneStep } from './steps.js';

/** Rows of one batch, and so of one transaction: some ten milliseconds. */
const BATCH = 2_000;

/** How long to wait for a run that writes items, milliseconds. */
const PATIENCE_MS = 10_000;
const ASK_EVERY_MS = 250;

/** Somebody else prunes this store. */
export class PruneBusyError extends Error {
  override readonly name = 'PruneBusyError';

  constructor() {
    super('another process is pruning this store');
  }
}

/** How many rows of one kind are, or were, deleted. */
export interface Pruned {
  readonly what: string;
  /** Older than this. */
  readonly before: Date;
  readonly rows: number;
  /** As they are in the table, without its indexes. */
  readonly bytes: number;
  /** Sellers whose rows were left for the next time, since a run was writing them. */
  readonly left: readonly string[];
}

export interface PruneOptions {
  /** Whose rows; all when there is no such list. */
  readonly sellerIds?: readonly string[];
  readonly signal: AbortSignal;
  /** How many rows went so far, and of what the last ones were. */
  readonly onProgress?: (rows: number, what: string) => void;
  /** How long to wait for a run that writes items of a seller, milliseconds. */
  readonly patienceMs?: number;
}

/** Counts the rows that `prune` would delete now. Changes nothing. @throws what `signal` says */
export async function measurePrune(
  pools: LockPools,
  plan: RetentionPlan,
  { sellerIds, signal }: PruneOptions,
): Promise<Pruned[]> {
  const { client, release } = await openLong(pools);
  let isDone = false;
  try {
    const measured = await eachStep(client, plan, sellerIds, async (step, sellerId, before) => {
      signal.throwIfAborted();
      const { rows } = await client.query<Sum>(measureSql(step), [sellerId, before]);
      return { rows: rows[0]?.rows ?? 0, bytes: rows[0]?.bytes ?? 0, isLeft: false };
    });
    isDone = true;
    return measured;
  } finally {
    release(isDone);
  }
}

/**
 * Deletes what is older than the plan says, in many short transactions: what is done stays done, and
 * who does it again goes on.
 * @throws {PruneBusyError} when another process does so
 * @throws what `signal` says, between two transactions
 */
export async function prune(
  pools: LockPools,
  plan: RetentionPlan,
  { sellerIds, signal, onProgress, patienceMs = PATIENCE_MS }: PruneOptions,
): Promise<Pruned[]> {
  const lock = await tryLock(pools, 'seller-mirror/prune', () =>
    Promise.resolve(new PruneBusyError()),
  );
  let all = 0;
  try {
    return await eachStep(lock.client, plan, sellerIds, (step, sellerId, before) =>
      pruneStep(lock.client, step, { sellerId, before, signal, patienceMs }, (rows) => {
        lock.assertHeld();
        onProgress?.((all += rows), step.what);
      }),
    );
  } finally {
    await lock.release();
  }
}

interface Sum {
  readonly rows: number;
  readonly bytes: number;
}

type StepEnd = Sum & { readonly isLeft: boolean };

async function eachStep(
  client: PoolClient,
  plan: RetentionPlan,
  sellerIds: readonly string[] | undefined,
  work: (step: PruneStep, sellerId: string, before: Date) => Promise<StepEnd>,
): Promise<Pruned[]> {
  const { rows } = await client.query<{ id: string }>(
    `SELECT seller_id AS id FROM mirror.sellers
      WHERE $1::text[] IS NULL OR seller_id = ANY($1::text[]) ORDER BY seller_id`,
    [sellerIds ?? null],
  );
  if (plan.runs !== null) await listKeptRuns(client);
  const done: Pruned[] = [];
  for (const step of PRUNE_STEPS) {
    const before = plan[step.part];
    if (before === null) continue;
    const sum = { rows: 0, bytes: 0 };
    const left: string[] = [];
    for (const { id } of rows) {
      const end = await work(step, id, before);
      sum.rows += end.rows;
      sum.bytes += end.bytes;
      if (end.isLeft) left.push(id);
    }
    done.push({ what: step.what, before, ...sum, left });
  }
  return done;
}

interface Target {
  readonly sellerId: string;
  readonly before: Date;
  readonly signal: AbortSignal;
  readonly patienceMs: number;
}

async function pruneStep(
  client: PoolClient,
  step: PruneStep,
  { sellerId, before, signal, patienceMs }: Target,
  onBatch: (rows: number) => void,
): Promise<StepEnd> {
  const sum = { rows: 0, bytes: 0 };
  let last: readonly string[] | null = null;
  for (;;) {
    signal.throwIfAborted();
    const values: readonly unknown[] = [sellerId, before, last, BATCH];
    const batch: Batch | null = step.alone
      ? await aloneBatch(client, step, values, { signal, patienceMs })
      : ((await client.query<Batch>(batchSql(step), [...values])).rows[0] ?? null);
    if (batch === null) return { ...sum, isLeft: true };
    sum.rows += batch.rows;
    sum.bytes += batch.bytes;
    onBatch(batch.rows);
    if (batch.rows < BATCH) return { ...sum, isLeft: false };
    last = batch.last;
  }
}

type Batch = Sum & { readonly last: readonly string[] | null };

/** One batch while no run writes items of the seller; null when one does, and goes on doing so. */
async function aloneBatch(
  client: PoolClient,
  step: PruneStep,
  values: readonly unknown[],
  { signal, patienceMs }: Pick<Target, 'signal' | 'patienceMs'>,
): Promise<Batch | null> {
  const [sellerId] = values;
  for (let waitedMs = 0; ; waitedMs += ASK_EVERY_MS) {
    await client.query('BEGIN');
    try {
      const lock = `SELECT ${itemsLockSql('pg_try_advisory_xact_lock', '$1')} AS alone`;
      const { rows } = await client.query<{ alone: boolean }>(lock, [sellerId]);
      if (rows[0]?.alone === true) {
        const done = await client.query<Batch>(batchSql(step), [...values]);
        await client.query('COMMIT');
        return done.rows[0] ?? null;
      }
      await client.query('ROLLBACK');
    } catch (error) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw error;
    }
    if (waitedMs >= patienceMs) return null;
    await sleep(ASK_EVERY_MS, undefined, { signal });
  }
}
