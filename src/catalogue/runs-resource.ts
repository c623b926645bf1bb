import { count, plural } from '../domain/text.js';
import type { Db } from '../db/db.js';
import type { ListingColumn } from '../listing/listing.js';
import { type Action, type Notice, part, type Resource } from '../listing/resource.js';
import { acceptRemovals, keepRemovals } from './accept-removals.js';
import { CHANGES, readShownChanges, type ShownChange } from './changes-listing.js';
import { problemOnPage, runRemedy } from './problem.js';
import { RUN_COUNTS, RUN_FACTS, RUNS } from './runs-listing.js';
import { getRun, type Run } from './runs-store.js';

type Stored = NonNullable<Awaited<ReturnType<typeof getRun>>>;
type HeldItem = Stored['shown'][number];
type UnreadableRecord = Stored['quarantine'][number];

/** A run with what it found. */
interface FoundRun extends Run {
  readonly held: readonly HeldItem[];
  /** The run that removed what was accepted; null: none. */
  readonly acceptedBy: bigint | null;
  readonly quarantine: readonly UnreadableRecord[];
}

/** Longer records are cut off. */
const MAX_RAW_CHARS = 2_000;

/** Removes what a run shows as held and proven gone. */
const ACCEPT: Action<FoundRun, Db> = {
  name: 'accept',
  label: 'Accept removals',
  about: 'remove the items that the run shows as held, if they are really gone',
  isPossible: (run) => isOpen(run) && goneIn(run) > 0,
  confirm: (run) => ({
    field: 'items',
    ask: `To accept, type the number of items that it removes, ${goneIn(run)}`,
    answer: String(goneIn(run)),
    wrong: `The number of items does not match: nothing was removed. Type ${goneIn(run)}.`,
  }),
  takesNote: true,
  async perform({ source: db, who, holder, followUp }, { runId }, note) {
    const by = note === '' ? who : `${who}: ${note}`;
    const done = await acceptRemovals({ db, holder, by }, runId);
    await followUp();
    const { sellerId, removed, shown, rest } = done;
    const head = `${sellerId} · ${removed} of ${plural(shown, 'item')} removed (run ${done.runId})`;
    return {
      text: [head, ...rest].join('\n  '),
      json: done,
      path: `/runs/${done.runId}`,
      notice: 'accepted',
    };
  },
};

/** Keeps what a run shows as held. */
const KEEP: Action<FoundRun, Db> = {
  name: 'keep',
  label: 'Keep them',
  logged: 'keep held items',
  about: 'keep the items that the run shows as held as missing',
  hint: 'Items that you keep stay missing, and need nobody any more.',
  isPossible: isOpen,
  async perform({ source: db }, { runId }) {
    const { sellerId, kept } = await keepRemovals({ db }, runId);
    const stay = kept === 1 ? '1 item stays missing' : `${kept} items stay missing`;
    const said =
      kept === 0 ? 'kept before; nothing was done' : `${stay}, and later runs hold only others`;
    return {
      text: `${sellerId} · run ${runId}: ${said}`,
      json: { sellerId, runId, kept },
      notice: 'kept',
    };
  },
};

/** Runs: listed, shown with what they found, repeated, and their held removals settled. */
export const RUN: Resource<Run, FoundRun, Db> = {
  listing: RUNS,
  one: 'run',
  ids: 'number',
  async find(db, id) {
    const found = await getRun(db, BigInt(id));
    if (found === null) return [];
    const quarantine = found.quarantine.map((one) => ({
      ...one,
      raw: one.raw.length > MAX_RAW_CHARS ? `${one.raw.slice(0, MAX_RAW_CHARS)}…` : one.raw,
    }));
    return [{ ...found.run, held: found.shown, acceptedBy: found.acceptedBy, quarantine }];
  },
  sellerOf: ({ sellerId }) => sellerId,
  record: {
    title: ({ runId }) => `Run ${runId}`,
    head: [
      { name: 'seller', type: 'seller', value: ({ sellerId }) => sellerId },
      {
        name: 'kind',
        type: 'word',
        value: ({ kind }) => (kind === 'approval' ? 'accepted removals' : kind),
      },
      { name: 'state', type: 'state', value: ({ state }) => state },
    ],
    notices: (run) => [...problemOf(run), ...heldNotices(run), ...run.warnings.map(warning)],
    figures: RUN_COUNTS.map((column): ListingColumn<FoundRun> => ({
      ...column,
      value: (run) => (run.kind === 'account' ? null : column.value(run)),
    })),
    facts: [
      ...RUN_FACTS,
      { name: 'account', type: 'word', value: accountOf },
      {
        name: 'accepted',
        type: 'word',
        value: (run) =>
          run.acceptedRunId === null ? null : `removals that run ${run.acceptedRunId} shows`,
        link: (run) => `/runs/${run.acceptedRunId}`,
      },
      {
        name: 'removals accepted',
        type: 'word',
        value: ({ acceptedBy }) => acceptedBy && `by run ${acceptedBy}, which removed them`,
        link: ({ acceptedBy }) => `/runs/${acceptedBy}`,
      },
    ],
    parts: [
      part<FoundRun, Db, HeldItem & { readonly sellerId: string }>({
        title: 'Held removals',
        columns: [
          { name: 'item', type: 'number', value: ({ itemId }) => itemId },
          {
            name: 'name',
            type: 'text',
            value: ({ name }) => name,
            link: ({ sellerId, itemId }) => `/items/${encodeURIComponent(sellerId)}/${itemId}`,
          },
          {
            name: 'now',
            type: 'word',
            value: ({ now, kept }) => `${EVIDENCE[now]}${kept ? ', kept' : ''}`,
          },
        ],
        rows: (_, { held, sellerId }) => held.map((one) => ({ ...one, sellerId })),
      }),
      part<FoundRun, Db, UnreadableRecord>({
        title: 'Unreadable records',
        note: 'the copy keeps their last good state; `mirror.quarantine` has all',
        columns: [
          { name: 'item', type: 'number', value: ({ itemId }) => itemId },
          { name: 'why', type: 'text', value: ({ reason }) => reason },
          { name: 'record', type: 'record', value: ({ raw }) => raw },
        ],
        rows: (_, { quarantine }) => quarantine,
      }),
      part<FoundRun, Db, ShownChange>({
        title: 'Changes',
        columns: CHANGES.columns.filter(({ name }) => name !== 'at' && name !== 'seller'),
        rows: (db, { runId }, limit) =>
          readShownChanges(db, { run: String(runId) }, { limit }, true),
        all: ({ runId }) => `/changes?run=${runId}`,
      }),
      part<FoundRun, Db, readonly [string, unknown]>({
        title: 'Tolerated notations',
        columns: [
          { name: 'notation', type: 'word', value: ([name]) => name },
          { name: 'records', type: 'count', value: ([, records]) => Number(records) },
        ],
        rows: (_, { tolerated }) => Object.entries(tolerated ?? {}),
      }),
    ],
    json: ({ held, acceptedBy, quarantine, ...run }) => ({ run, held, acceptedBy, quarantine }),
  },
  actions: [
    {
      name: 'again',
      label: 'Run again',
      about: 'have a worker repeat the run',
      isPossible: isRepeatable,
      async perform({ ask }, { sellerId, kind }) {
        await ask(sellerId, { kind: kind === 'account' ? kind : 'items' });
        return { text: `${sellerId} · asked for; a worker does it`, path: '/', notice: 'queued' };
      },
    },
    ACCEPT,
    KEEP,
  ],
};

const EVIDENCE: Readonly<Record<HeldItem['now'], string>> = {
  gone: 'not listed, look-up denied',
  unproven: 'not listed, not proven to be gone',
  back: 'back',
  removed: 'removed',
};

function isRepeatable({ kind }: Run): boolean {
  return kind === 'items' || kind === 'account';
}

function isOpen({ held }: FoundRun): boolean {
  return held.some(({ now, kept }) => !kept && (now === 'gone' || now === 'unproven'));
}

function goneIn({ held }: FoundRun): number {
  return held.filter(({ now }) => now === 'gone').length;
}

function warning(text: string): Notice {
  return { tone: 'warn', text };
}

function problemOf(run: FoundRun): readonly Notice[] {
  if (run.problem === null) return [];
  const { problem: text, state, problemCode } = run;
  if (state !== 'failed') return [{ tone: 'bad', text }];
  const button = isRepeatable(run) ? 'Run again' : 'Sync now on the page of the seller';
  const onPage = problemOnPage(problemCode, button);
  return [{ tone: 'bad', text, remedy: runRemedy(run), onPage }];
}

/** What became of the held items that a run shows. */
function heldNotices(run: FoundRun): readonly Notice[] {
  const { held, state } = run;
  if (held.length === 0) return [];
  const number = (now: HeldItem['now']): number => held.filter((one) => one.now === now).length;
  const [gone, unproven, back, removed] = ['gone', 'unproven', 'back', 'removed'].map((now) =>
    number(now as HeldItem['now']),
  ) as [number, number, number, number];
  const sentences = [
    `The list lacked ${plural(held.length, 'item')} that ${state === 'held' ? 'this run' : 'an earlier run'} did not remove by itself.`,
    gone > 0 ? `The marketplace denies ${count(gone)} of them between two proofs of the key.` : '',
    unproven > 0 ? `${count(unproven)} are not proven to be gone.` : '',
    back > 0 ? `${count(back)} are back.` : '',
    removed > 0 ? `${count(removed)} are removed.` : '',
    !isOpen(run) && gone + unproven > 0 ? 'They are kept as missing.' : '',
  ];
  const tone = isOpen(run) ? 'warn' : 'quiet';
  return [{ tone, text: sentences.filter(Boolean).join(' ') }];
}

/** What a run of the account found. */
function accountOf({ kind, added, changed, listed }: Run): string | null {
  if (kind !== 'account') return null;
  if (added + changed > 0) return 'changed';
  return listed > 0 ? 'unchanged' : null;
}
