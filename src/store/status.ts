import type { Pool } from 'pg';
import type { WideChange } from '../domain/changes.js';
import { type HeldBack, readHeldBack } from './decisions.js';
import type { PrismaClient, Prisma, Run } from './generated/prisma/client.js';
import { type SellerRow, sellers } from './overview.js';
import type { Connections } from './pools.js';
import type { Parking } from './sellers.js';

export type { Run };

/** What is told of a run that did not go well. */
export type RunEndSeen = Pick<
  Run,
  'runId' | 'sellerId' | 'kind' | 'state' | 'startedAt' | 'finishedAt' | 'problemCode' | 'problem'
>;

/** How current the copy of one seller is. */
export interface SellerStatus {
  readonly sellerId: string;
  readonly marketplace: string;
  readonly account: {
    readonly username: string;
    readonly balance: string | null;
    readonly currency: string | null;
  } | null;
  readonly items: { readonly live: number; readonly missing: number; readonly removed: number };
  /** Records of the newest catalogue run that could not be decoded. */
  readonly quarantined: number;
  readonly accountMirroredAt: Date | null;
  readonly itemsMirroredAt: Date | null;
  /** Why schedules leave the seller alone; null when they don't. */
  readonly parked: Parking | null;
  readonly running: Pick<Run, 'runId' | 'kind' | 'startedAt' | 'holder'> | null;
  /** Of the newest account run and the newest run of items the later one that did not go well. */
  readonly lastProblem: RunEndSeen | null;
  /** The items that this run held back, when it waits for a person's decision. */
  readonly held: HeldBack | null;
  /** The newest run of the last days that changed a field in all or nearly all items. */
  readonly lastWide: {
    readonly runId: bigint;
    readonly at: Date;
    readonly changes: readonly WideChange[];
  } | null;
}

/** A held run mirrored all that is present, so the copy is as current as after a success. */
const GOOD = { state: { in: ['succeeded', 'held'] } } satisfies Prisma.RunWhereInput;

/** The newest of a seller's runs; null when there is none. */
function newestRun(
  prisma: PrismaClient,
  sellerId: string,
  where: Prisma.RunWhereInput,
): Promise<Run | null> {
  return prisma.run.findFirst({ where: { sellerId, ...where }, orderBy: { runId: 'desc' } });
}

/** The state of every seller in the store, by name. Prisma Client is not loaded for it. */
export async function sellerStatuses(pool: Pool): Promise<SellerStatus[]> {
  return Promise.all((await sellers(pool)).map((row) => statusOf(pool, row)));
}

async function statusOf(pool: Pool, row: SellerRow): Promise<SellerStatus> {
  const { sellerId, username, running, problem, wide } = row;
  const { live, missing, removed } = row;
  return {
    sellerId,
    marketplace: row.marketplace,
    account: username === null ? null : { username, balance: row.balance, currency: row.currency },
    items: { live, missing, removed },
    quarantined: row.quarantined,
    accountMirroredAt: row.accountMirroredAt,
    itemsMirroredAt: row.itemsMirroredAt,
    parked: parkingIn(row),
    running: running && {
      ...running,
      runId: BigInt(running.runId),
      startedAt: new Date(running.startedAt),
    },
    lastProblem: problem && {
      ...{ sellerId, kind: problem.kind, state: problem.state },
      ...{ problemCode: problem.problemCode, problem: problem.problem },
      runId: BigInt(problem.runId),
      startedAt: new Date(problem.startedAt),
      finishedAt: problem.finishedAt === null ? null : new Date(problem.finishedAt),
    },
    held: problem?.undecided === true ? await readHeldBack(pool, BigInt(problem.runId)) : null,
    lastWide: wide && {
      runId: BigInt(wide.runId),
      at: new Date(wide.at),
      changes: wide.fields.map((field, n) => {
        return { field, items: wide.items[n] ?? wide.compared, of: wide.compared };
      }),
    },
  };
}

/** The parking in a seller's row; null when schedules don't leave the seller alone. */
function parkingIn({
  parkedAt: since,
  parkedCode: code,
  parkedReason: reason,
  parkedRunId: runId,
}: SellerRow): Parking | null {
  if (since === null || code === null || reason === null) return null;
  return { since, code, reason, runId: runId === null ? null : BigInt(runId) };
}

/**
 * The newest run of the same kind after this one that went well; null for a run of one item or an
 * approval, which stand for themselves.
 */
export async function laterGoodRun(
  { prisma }: Connections,
  { sellerId, kind, runId }: Pick<Run, 'sellerId' | 'kind' | 'runId'>,
): Promise<bigint | null> {
  if (kind === 'item' || kind === 'approval') return null;
  return (
    (await newestRun(prisma, sellerId, { kind, ...GOOD, runId: { gt: runId } }))?.runId ?? null
  );
}

/** The newest runs, newest first. */
export function listRuns(
  { prisma }: Connections,
  filter: { readonly sellerIds?: readonly string[]; readonly limit: number },
): Promise<Run[]> {
  return prisma.run.findMany({
    where: filter.sellerIds === undefined ? {} : { sellerId: { in: [...filter.sellerIds] } },
    orderBy: { runId: 'desc' },
    take: filter.limit,
  });
}

/** One run with the records it put into quarantine (the first 100) and what it held back, or null. */
export async function getRun({ prisma, others: pool }: Connections, runId: bigint) {
  const run = await prisma.run.findUnique({ where: { runId } });
  if (run === null) return null;
  const quarantine = await prisma.quarantinedRecord.findMany({
    where: { sellerId: run.sellerId, firstRunId: { lte: runId }, lastRunId: { gte: runId } },
    orderBy: { quarantineId: 'asc' },
    take: 100,
  });
  const held = run.state === 'held' ? await readHeldBack(pool, runId) : null;
  return { run, quarantine, held };
}
