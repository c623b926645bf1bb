import type { Pool } from 'pg';
import type { WideChange } from '../domain/changes.js';
import { type HeldBack, readHeldBack } from './decisions.js';
import type { PrismaClient, Run } from './generated/prisma/client.js';
import { isLocked } from './lock.js';
import type { Connections } from './pools.js';
import { DIED } from './runs.js';
import type { Parking } from './sellers.js';

export type { Run };

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
  readonly running: Run | null;
  /** Of the newest account run and the newest catalogue run the later one that did not succeed. */
  readonly lastProblem: Run | null;
  /** The items that this run held back, when it waits for a person's decision. */
  readonly held: HeldBack | null;
  /** The newest run of the last days that changed a field in all or nearly all items. */
  readonly lastWide: {
    readonly runId: bigint;
    readonly at: Date;
    readonly changes: readonly WideChange[];
  } | null;
}

/** Changes of the whole catalogue are shown for a week (ms), so that a weekly look finds them. */
const WIDE_TOLD_MS = 7 * 86_400_000;

/** The fields that a run changed in all or nearly all items. */
function wideChangesOf(run: Pick<Run, 'wideFields' | 'wideItems' | 'compared'>): WideChange[] {
  const { wideFields, wideItems, compared } = run;
  // A run from before the figures were kept has the fields only.
  if (compared === null) return [];
  return wideFields.map((field, n) => ({
    field,
    items: wideItems[n] ?? compared,
    of: compared,
  }));
}

/** The state of every seller in the store, by name. */
export async function sellerStatuses({
  prisma,
  others: pool,
}: Connections): Promise<SellerStatus[]> {
  const sellers = await prisma.seller.findMany({
    orderBy: { sellerId: 'asc' },
    include: { account: true },
  });
  const counts = await prisma.item.groupBy({ by: ['sellerId', 'state'], _count: true });
  return Promise.all(
    sellers.map(async (seller) => {
      const { sellerId, marketplace, account } = seller;
      const count = (state: string): number =>
        counts.find((row) => row.sellerId === sellerId && row.state === state)?._count ?? 0;
      const running = await runningRun(prisma, pool, sellerId);
      const [catalogue, accountRun, problem, wide] = await Promise.all([
        lastGood(prisma, sellerId, 'items'),
        lastGood(prisma, sellerId, 'account'),
        lastProblem(prisma, sellerId, running),
        lastWide(prisma, sellerId),
      ]);
      return {
        sellerId,
        marketplace,
        account:
          account === null
            ? null
            : {
                username: account.username,
                balance: account.balance?.toFixed(2) ?? null,
                currency: account.currency,
              },
        items: { live: count('live'), missing: count('missing'), removed: count('removed') },
        quarantined: catalogue?.quarantined ?? 0,
        accountMirroredAt: accountRun?.finishedAt ?? null,
        itemsMirroredAt: catalogue?.finishedAt ?? null,
        parked: parkingIn(seller),
        running,
        lastProblem: problem,
        held: problem?.state === 'held' ? await readHeldBack(pool, problem.runId) : null,
        lastWide: wide,
      };
    }),
  );
}

/** The parking in a seller's row; null when the seller is not parked. */
function parkingIn(seller: {
  readonly parkedAt: Date | null;
  readonly parkedCode: string | null;
  readonly parkedReason: string | null;
  readonly parkedRunId: bigint | null;
}): Parking | null {
  const { parkedAt: since, parkedCode: code, parkedReason: reason, parkedRunId: runId } = seller;
  if (since === null || code === null || reason === null || runId === null) return null;
  return { since, code, reason, runId };
}

/** The run under way; null for one whose process died, which holds the seller's lock no more. */
async function runningRun(prisma: PrismaClient, pool: Pool, sellerId: string): Promise<Run | null> {
  const find = (): Promise<Run | null> =>
    prisma.run.findFirst({ where: { sellerId, state: 'running' }, orderBy: { runId: 'desc' } });
  const run = await find();
  if (run === null || (await isLocked(pool, sellerId))) return run;
  // It may have ended, and another begun, since.
  const again = await find();
  return again?.runId === run.runId ? null : again;
}

async function lastWide(prisma: PrismaClient, sellerId: string): Promise<SellerStatus['lastWide']> {
  const run = await prisma.run.findFirst({
    where: {
      ...{ sellerId, kind: 'items', state: { in: ['succeeded', 'held'] } },
      wideFields: { isEmpty: false },
      startedAt: { gte: new Date(Date.now() - WIDE_TOLD_MS) },
    },
    orderBy: { runId: 'desc' },
  });
  const changes = run === null ? [] : wideChangesOf(run);
  if (run === null || changes.length === 0) return null;
  return { runId: run.runId, at: run.finishedAt ?? run.startedAt, changes };
}

/** An item run fails for the item's own reasons, so it says nothing about the copy. */
async function lastProblem(
  prisma: PrismaClient,
  sellerId: string,
  running: Run | null,
): Promise<Run | null> {
  const others = running === null ? {} : { runId: { not: running.runId } };
  const last = await Promise.all(
    (['items', 'account'] as const).map((kind) =>
      prisma.run.findFirst({ where: { sellerId, kind, ...others }, orderBy: { runId: 'desc' } }),
    ),
  );
  const problems = last
    .filter((run) => run !== null)
    .filter(({ state, decision }) => state !== 'succeeded' && decision === null);
  const [newest] = problems.sort((a, b) => Number(b.runId - a.runId));
  if (newest === undefined) return null;
  return newest.state === 'running' ? { ...newest, ...DIED } : newest;
}

/** A held run mirrored all that is present, so the copy is as current as after a success. */
function lastGood(
  prisma: PrismaClient,
  sellerId: string,
  kind: 'items' | 'account',
): Promise<Run | null> {
  return prisma.run.findFirst({
    where: { sellerId, kind, state: { in: ['succeeded', 'held'] } },
    orderBy: { runId: 'desc' },
  });
}

/** The newest run of the same kind after this one that went well; null for a run of one item or an approval, which stand for themselves. */
export async function laterGoodRun(
  { prisma }: Connections,
  { sellerId, kind, runId }: Pick<Run, 'sellerId' | 'kind' | 'runId'>,
): Promise<bigint | null> {
  if (kind === 'item' || kind === 'approval') return null;
  const good = await lastGood(prisma, sellerId, kind);
  return good !== null && good.runId > runId ? good.runId : null;
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
