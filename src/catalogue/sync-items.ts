import { retryTimeOf } from '../marketplace/reply.js';
import type { ItemList } from '../marketplace/types.js';
import { syncAccount, verifyAccount, type AccountDetails } from './account.js';
import { describeWide, wideChanges } from './changes.js';
import { readHeldBefore, readHeldItems, saveHeldItems } from './held-store.js';
import { lookUp, probeList, type Lookups } from './look-up.js';
import { chooseLookups, forgetFound, readHidden, recordLookups } from './lookups-store.js';
import {
  begin,
  changeStates,
  commit,
  compareStage,
  discard,
  loadKnownItems,
  openStage,
  saveBroken,
  writeItems,
} from './merge-store.js';
import { describeHeld, problemOf, RunProblem } from './problem.js';
import { isSuspicious, planRemovals, type RemovalPlan } from './rules.js';
import { performRun, resetCounts, type RunContext } from './run.js';
import { markWideFields, saveCounts } from './runs-store.js';
import { type KnownSummary, stageList, type StagedList } from './stage-list.js';
import { stageFound } from './sync-item.js';
import type { RunDeps, RunReport } from './types.js';

/** Listed items that serve as witnesses, in turn. */
const WITNESSES = 20;

const NO_ITEMS =
  'the marketplace lists no items, which it also does for an account with exactly one item; so known items are looked up one by one, and a single item can be mirrored with `seller-mirror sync item ID`';

/**
 * Mirrors the items. Verifies the key, reads the list, looks up the items that it lacks, and stores all of
 * it in one transaction. So a reader sees the copy before the run or the one after it. A run that ends
 * before that changes nothing.
 * @param account account details, if the caller has just verified them
 */
export function syncItems(
  deps: RunDeps,
  signal: AbortSignal,
  account: AccountDetails | null = null,
): Promise<RunReport> {
  return performRun(deps, 'items', signal, async (run) => {
    if (account === null) deps.onProgress?.({ phase: 'account' });
    const { value } = account ?? (await verifyAccount(run));
    return mirrorItems(run, value.username);
  });
}

/** Mirrors the account and, if that succeeded, the items. */
export async function* syncSeller(deps: RunDeps, signal: AbortSignal): AsyncGenerator<RunReport> {
  const { report, account } = await syncAccount(deps, signal);
  yield report;
  if (account !== null && report.state === 'succeeded') {
    yield await syncItems(deps, signal, account);
  }
}

async function mirrorItems(run: RunContext, account: string): Promise<'succeeded' | 'held'> {
  try {
    await openStage(run.lock);
    const read = await readList(run);
    await refuseForeignList(run, read);
    const lookups = await lookUpUnlisted(run, read, account);
    run.deps.onProgress?.({ phase: 'write' });
    return await store(run, read, lookups);
  } finally {
    if (!run.committed) await discard(run.lock);
  }
}

/** What the list says, and what is known of the items that it lacks. */
interface ReadList extends KnownSummary {
  readonly staged: StagedList;
  /** True if the rows are in the table of items already, in an open transaction: it was empty. */
  readonly isWritten: boolean;
  /** False when the marketplace sent "no items" instead of a list. */
  readonly hasList: boolean;
  /** Whether an earlier run stored a list. */
  readonly hadList: boolean;
  /** Unlisted items that earlier runs held; `resting`: those that need not be asked for. */
  readonly held: Awaited<ReturnType<typeof readHeldBefore>>;
  /** Unlisted items that the list always lacks. */
  readonly hidden: ReadonlySet<number>;
}

/** Null if the marketplace says that there are no items. */
async function requestList(run: RunContext): Promise<ItemList | null> {
  const { deps, signal } = run;
  const onBytes = (bytes: number): void =>
    deps.onProgress?.({ phase: 'list', records: 0, bytes, expected: null });
  const reply = await deps.marketplace.items({ signal, onBytes });
  if (reply.kind === 'answered') return reply.data;
  if (reply.kind !== 'denied') throw problemOf(reply, true);
  // A key that was just revoked gets the same answer.
  await verifyAccount(run);
  run.warnings.push(NO_ITEMS);
  return null;
}

const NOTHING_STAGED: StagedList = { broken: [], rows: 0, repeats: false };

/** Requests the list, and stages it, or writes it into the empty table of items. */
async function readList(run: RunContext): Promise<ReadList> {
  const list = await requestList(run);
  try {
    return await readInto(run, list);
  } finally {
    list?.release();
  }
}

async function readInto(run: RunContext, list: ItemList | null): Promise<ReadList> {
  const { lock, counts } = run;
  let { known, hadList } = await loadKnownItems(lock);
  let staged: StagedList | null = null;
  if (list !== null && known.size === 0) {
    await begin(lock);
    staged = await stageList(run, list, known, 'items');
    if (staged === null) {
      // The list names an item twice.
      await discard(lock);
      await openStage(lock);
      resetCounts(run);
      run.tolerated.clear();
      ({ known, hadList } = await loadKnownItems(lock));
    }
  }
  const isWritten = staged !== null;
  if (list !== null) staged ??= await stageList(run, list, known, 'staging');
  staged ??= NOTHING_STAGED;
  const summary = known.summarize(WITNESSES);
  counts.duplicates = counts.listed - counts.quarantined - summary.listed;
  checkQuarantined(run, staged.broken[0]?.reason ?? null);
  noteDuplicates(run);
  for (const name of list?.tolerated ?? []) run.tolerated.set(name, 1);
  const held = await readHeldBefore(lock);
  const hidden = await readHidden(lock, summary.unlisted);
  return { ...summary, staged, isWritten, hasList: list !== null, hadList, held, hidden };
}

/**
 * Asks for some items if the list lacks more than half of those known.
 * @throws {RunProblem} when the list can't be the account's, or not all of it
 */
async function refuseForeignList(run: RunContext, read: ReadList): Promise<void> {
  const { present, unlisted, fresh, hasList, held, hidden } = read;
  const lacking = unlisted.filter((id) => !held.all.has(id) && !hidden.has(id));
  const expected = present - (unlisted.length - lacking.length);
  if (!hasList || !isSuspicious(expected, lacking.length)) return;
  const why = await probeList(run, lacking, fresh);
  if (why === null) return;
  const message = `the list lacks ${lacking.length} of ${expected} known items, and ${why}`;
  const remedy =
    'nothing was changed; try again later, and check whether a cache stands before the marketplace';
  throw new RunProblem('unavailable', message, remedy);
}

/**
 * Looks items up even if the run will be held: a person can then approve the removal.
 * @throws {RunProblem} when there was no list, and look-ups could not prove that the items are gone
 */
async function lookUpUnlisted(
  run: RunContext,
  { unlisted, hasList, witnesses, held }: ReadList,
  account: string,
): Promise<Lookups> {
  const wanted = unlisted.filter((id) => !held.resting.has(id));
  const choice = await chooseLookups(run.lock, wanted, run.deps.lookupsPerRun);
  const lookups = await lookUp(run, { ...choice, account, witnesses });
  const { outcomes, warning, failure } = lookups;
  if (warning !== null) run.warnings.push(warning);
  const unknown = wanted.filter((id) => !['found', 'gone'].includes(outcomes.get(id) ?? ''));
  if (!hasList && unknown.length > 0) {
    const why = run.warnings.splice(0).at(-1) ?? '';
    const message = `the marketplace lists no items, and it is not proven that ${unknown.length} known ones are gone: ${why}`;
    const notBefore = failure === null ? null : retryTimeOf(failure);
    throw new RunProblem('unavailable', message, 'nothing was changed; try again later', notBefore);
  }
  return lookups;
}

/** If most records can't be read, the list has another format: fail instead of storing a few items. */
function checkQuarantined({ counts, warnings }: RunContext, reason: string | null): void {
  const { quarantined, listed } = counts;
  if (quarantined === 0) return;
  const which = `${quarantined} of ${listed} records`;
  const why = `the first because: ${reason ?? 'unknown'}`;
  if (quarantined * 2 > listed) {
    const message = `${which} of the list can’t be read, ${why}`;
    const remedy = 'run `seller-mirror doctor`; the copy is unchanged';
    throw new RunProblem('unreadable', message, remedy);
  }
  warnings.push(`${which} could not be read and are in mirror.quarantine, ${why}`);
}

function noteDuplicates({ counts, warnings }: RunContext): void {
  const { duplicates } = counts;
  if (duplicates === 0) return;
  const which = duplicates === 1 ? '1 record repeats' : `${duplicates} records repeat`;
  warnings.push(`${which} an item of the list; the last record of an item counts`);
}

/** Stores the list, the results of look-ups, and what follows from both, in one transaction. */
async function store(
  run: RunContext,
  read: ReadList,
  lookups: Lookups,
): Promise<'succeeded' | 'held'> {
  const { counts, warnings, deps, lock, stamp, signal } = run;
  const { present, unlisted, staged, held, hidden, hadList } = read;
  const { outcomes, witnessed } = lookups;
  const plan = planRemovals({
    present,
    unlisted,
    lookups: outcomes,
    witnessed,
    guard: deps.removalGuard,
    held: held.all,
    hidden,
  });
  const isHeldStill = (id: number): boolean => held.all.has(id) && outcomes.get(id) !== 'found';
  const heldBefore = unlisted.filter(isHeldStill).length;

  if (!read.isWritten) await begin(lock);
  const found = await stageFound(run, lookups.found);
  const { repeats } = staged;
  const applied = await compareStage(lock, { publishesAdded: hadList, repeats });
  counts.added = applied.added + (read.isWritten ? staged.rows : 0);
  counts.changed = applied.changed;
  counts.extraChanged = applied.extraChanged;
  counts.restored = applied.restored;
  counts.unchanged = read.unchanged + applied.unchanged;
  counts.removed = await changeStates(lock, plan);
  counts.missing = plan.missing.length;
  if (staged.rows + found + unlisted.length > 0) await writeItems(lock, stamp, run.extraFields);

  await saveBroken(lock.client, stamp, staged.broken);
  await recordLookups(lock.client, stamp, outcomes);
  await forgetFound(lock.client, stamp.sellerId, unlisted);
  if (plan.held) {
    await saveHeldItems(lock.client, stamp, plan, present - heldBefore);
    run.held = await readHeldItems(lock.client, stamp.runId);
  }
  const compared = counts.listed - counts.duplicates - counts.quarantined - counts.added;
  const wide = wideChanges(applied.fields, compared);
  await markWideFields(lock.client, stamp.runId, wide);
  const { apiCalls: _calls, tolerated: _tolerated, ...saved } = counts;
  await saveCounts(lock.client, stamp.runId, saved);
  signal.throwIfAborted();
  const isFirstList = !hadList && read.witnesses.length > 0;
  await commit(lock, stamp, { isFirstList, extraChanged: applied.extraChanged > 0 });
  run.committed = true;
  for (const one of wide) warnings.push(describeWide(one));
  warnOfUnlisted(run, plan, heldBefore);
  return plan.held ? 'held' : 'succeeded';
}

function warnOfUnlisted({ held, warnings }: RunContext, plan: RemovalPlan, before: number): void {
  const { open, doubts, asTheyWere } = plan;
  if (held !== null) {
    // First, since it needs a person.
    warnings.unshift(`removals are held: ${describeHeld(held)}`);
  } else if (open.length > 0) {
    const which = open.length === 1 ? '1 unlisted item is' : `${open.length} unlisted items are`;
    warnings.push(`${which} kept as missing: not proven to be gone`);
  }
  if (asTheyWere.length > 0) {
    const found = doubts.length === 1 ? '1 of them' : `${doubts.length} of them`;
    const others = asTheyWere.length === 1 ? '1 other stays' : `${asTheyWere.length} others stay`;
    warnings.push(`the list lacks known items, but look-ups found ${found}; ${others} as before`);
  }
  if (before > 0) {
    const which = before === 1 ? '1 item that was' : `${before} items that were`;
    warnings.push(`${which} held before stay missing`);
  }
}
