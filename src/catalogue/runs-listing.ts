import { bytes } from '../domain/text.js';
import {
  OF_SELLER,
  type Listing,
  type ListingColumn,
  type ListingFilter,
} from '../listing/listing.js';
import { camelCased, newestFirst, wordFilter } from '../listing/table-listing.js';
import type { Db } from '../db/db.js';
import { RunKind, RunState } from '../db/generated/prisma/enums.js';
import type { Run } from './runs-store.js';

const FILTERS: readonly ListingFilter[] = [
  wordFilter('state', 'runs in this state', Object.values(RunState)),
  wordFilter('kind', 'runs of this kind', Object.values(RunKind)),
  OF_SELLER,
];

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
  { name: 'asked by', type: 'text', value: ({ askedBy }) => askedBy },
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
    {
      name: 'run',
      type: 'id',
      value: ({ runId }) => runId,
      link: ({ runId }) => `/runs/${runId}`,
    },
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
  filters: FILTERS,
  next: ({ runId }) => runId,
  ...newestFirst<Run>({
    table: 'mirror.runs',
    key: 'run_id',
    columns: '*',
    filters: FILTERS,
    rowOf: camelCased,
  }),
};
