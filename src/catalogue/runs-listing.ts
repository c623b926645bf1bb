import { bytes } from '../domain/text.js';
import type { Listing, ListingColumn } from '../listing/listing.js';
import type { Db } from '../db/db.js';
import type { Prisma } from '../db/generated/prisma/client.js';
import { RunKind, RunState } from '../db/generated/prisma/enums.js';
import type { Run } from './runs-store.js';

const STATES = Object.values(RunState);
const KINDS = Object.values(RunKind);

const TOOK: ListingColumn<Run> = {
  name: 'took',
  type: 'milliseconds',
  value: ({ startedAt, finishedAt }) =>
    finishedAt === null ? null : finishedAt.getTime() - startedAt.getTime(),
};

/** How a run went, as `runs show` and the page of the run show it. */
export const RUN_FACTS: readonly ListingColumn<Run>[] = [
  { name: 'started', type: 'moment', value: ({ startedAt }) => startedAt },
  TOOK,
  { name: 'calls', type: 'count', value: ({ apiCalls }) => apiCalls },
  { name: 'downloaded', type: 'word', value: (run) => bytes(Number(run.bytes)) },
  { name: 'process', type: 'text', value: ({ holder }) => holder },
];

/** What a run found, as there. */
export const RUN_COUNTS: readonly ListingColumn<Run>[] = [
  ...(['listed', 'added', 'changed'] as const).map(countOf),
  { name: 'changed in unknown fields only', type: 'count', value: (run) => run.extraChanged },
  ...(['unchanged', 'restored', 'missing', 'removed', 'quarantined', 'duplicates'] as const).map(
    countOf,
  ),
];

function countOf<Name extends string>(name: Name) {
  return {
    name,
    type: 'count',
    value: (run: Readonly<Record<Name, number>>) => run[name],
  } as const;
}

/** Runs of all sellers, as `runs` lists them and the page Runs shows them. */
export const RUNS: Listing<Run, Db> = {
  name: 'runs',
  about: 'Every sync of a seller’s account and items.',
  none: 'There is no run yet. `npx seller-mirror sync` makes one.',
  columns: [
    { name: 'run', type: 'id', value: ({ runId }) => runId },
    { name: 'seller', type: 'seller', value: ({ sellerId }) => sellerId },
    { name: 'kind', type: 'word', value: ({ kind }) => kind },
    { name: 'state', type: 'state', value: ({ state }) => state },
    { name: 'started', type: 'moment', value: ({ startedAt }) => startedAt },
    TOOK,
    { name: 'listed', type: 'count', value: ({ listed }) => listed },
    { name: 'added', type: 'count', value: ({ added }) => added },
    { name: 'changed', type: 'count', value: ({ changed }) => changed },
    { name: 'removed', type: 'count', value: ({ removed }) => removed },
    { name: 'calls', type: 'count', value: ({ apiCalls }) => apiCalls },
    { name: 'problem', type: 'sentence', value: (run) => run.problem ?? run.warnings[0] ?? null },
  ],
  filters: [
    { name: 'state', about: 'runs in this state', type: 'choice', choices: STATES },
    { name: 'kind', about: 'runs of this kind', type: 'choice', choices: KINDS },
  ],
  next: ({ runId }) => runId,
  async read(db, { seller, state, kind }, { from, limit }) {
    const prisma = await db.prisma();
    const where: Prisma.RunWhereInput = {
      ...(state === undefined ? {} : { state: state as RunState }),
      ...(kind === undefined ? {} : { kind: kind as RunKind }),
      ...(seller === undefined ? {} : { sellerId: seller }),
      ...(from === null ? {} : { runId: { lt: from } }),
    };
    const newest = (filter: Prisma.RunWhereInput): Promise<Run[]> =>
      prisma.run.findMany({ where: filter, orderBy: { runId: 'desc' }, take: limit });
    if (seller === undefined || kind !== undefined) return newest(where);
    // One seller's runs are indexed by kind: a scan from the newest run could pass hundreds of thousands of
    // other sellers' runs.
    const ofKinds = await Promise.all(KINDS.map((one) => newest({ ...where, kind: one })));
    const runs = ofKinds.flat().sort((a, b) => Number(b.runId - a.runId));
    return runs.slice(0, limit);
  },
};
