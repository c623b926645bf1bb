import { setImmediate as nextTurn } from 'node:timers/promises';
import { describeWide, wideChanges } from './changes.js';
import { isSuspicious, planRemovals, type RemovalPlan } from './rules.js';
import type { ItemList, ListElement } from '../marketplace/types.js';
import { prepareAnswer, type PreparedItem } from './prepare-item.js';
import { readHeldBefore } from './held-store.js';
import { chooseLookups, findOtherLiveItems, readHidden } from './lookups-store.js';
import { ItemSession } from './session-store.js';
import { syncAccount, verifyAccount, type AccountDetails } from './account.js';
import { ListWriter } from './list-writer.js';
import { lookUp, probeList, type Lookups } from './look-up.js';
import { describeHeld, problemOf, RunProblem } from './problem.js';
import { noteTolerated, performRun, type RunContext, inSession } from './run.js';
import type { Json } from '../domain/item.js';
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
  const list = await requestList(run);
  const session = new ItemSession(run.lock, run.stamp);
  try {
    const unlisted = await readList(run, session, list).finally(() => list?.release());
    await refuseForeignList(run, unlisted);
    const lookups = await lookUpUnlisted(run, unlisted, account);
    run.deps.onProgress?.({ phase: 'write' });
    return await store(run, session, unlisted, lookups);
  } finally {
    await session.discard();
  }
}

/** What the list says about known items. */
interface Unlisted {
  /** Present items that the list does not name. */
  readonly ids: readonly number[];
  /** How many items were present before. */
  readonly present: number;
  /** False when the marketplace sent "no items" instead of a list. */
  readonly hadList: boolean;
  /** Items that the list names. */
  readonly witnesses: readonly number[];
  /** Items that the mirror did not know. */
  readonly fresh: readonly number[];
  /** Unlisted items that earlier runs held; `resting`: those that need not be asked for. */
  readonly held: Awaited<ReturnType<typeof readHeldBefore>>;
  /** Unlisted items that the list always lacks. */
  readonly hidden: ReadonlySet<number>;
}

/** Null if the marketplace says that there are no items. */
async function requestList(run: RunContext): Promise<ItemList | null> {
  const reply = await run.deps.marketplace.items({ signal: run.signal });
  if (reply.kind === 'answered') return reply.data;
  if (reply.kind !== 'denied') throw problemOf(reply, true);
  // A key that was just revoked gets the same answer.
  await verifyAccount(run);
  run.warnings.push(NO_ITEMS);
  return null;
}

/** Stages the list. @returns the known items that it does not name */
async function readList(
  run: RunContext,
  session: ItemSession,
  list: ItemList | null,
): Promise<Unlisted> {
  const known = await session.loadKnown();
  const present = known.presentCount();
  if (list !== null) {
    const writer = new ListWriter(run, session, known);
    try {
      await readRecords(run, list, writer, present);
      await writer.finish();
    } catch (error) {
      await writer.abandon();
      throw error;
    }
    checkQuarantined(run, writer.firstReason);
    noteDuplicates(run);
    for (const name of list.tolerated) run.tolerated.set(name, 1);
    if (known.isAnyNamed()) session.markListLoaded();
  }
  const witnesses = known.listedIds(WITNESSES);
  const [ids, fresh] = [known.unlisted(), known.newIds()];
  const held = await readHeldBefore(run.lock);
  const hidden = await readHidden(run.lock, ids);
  return { ids, present, hadList: list !== null, witnesses, fresh, held, hidden };
}

/**
 * Asks for some items if the list lacks more than half of those known.
 * @throws {RunProblem} when the list can't be the account's, or not all of it
 */
async function refuseForeignList(run: RunContext, unlisted: Unlisted): Promise<void> {
  const { present, fresh, hadList, held, hidden } = unlisted;
  const lacking = unlisted.ids.filter((id) => !held.all.has(id) && !hidden.has(id));
  const expected = present - (unlisted.ids.length - lacking.length);
  if (!hadList || !isSuspicious(expected, lacking.length)) return;
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
  { ids, hadList, witnesses, held }: Unlisted,
  account: string,
): Promise<Lookups> {
  const wanted = ids.filter((id) => !held.resting.has(id));
  const choice = await chooseLookups(run.lock, wanted, run.deps.lookupsPerRun);
  const lookups = await lookUp(run, { ...choice, account, witnesses });
  const { outcomes, warnings, notBefore } = lookups;
  for (const warning of warnings) run.warnings.push(warning);
  const unknown = wanted.filter((id) => !['found', 'gone'].includes(outcomes.get(id) ?? ''));
  if (!hadList && unknown.length > 0) {
    const why = run.warnings.splice(0).at(-1) ?? '';
    const message = `the marketplace lists no items, and it is not proven that ${unknown.length} known ones are gone: ${why}`;
    throw new RunProblem('unavailable', message, 'nothing was changed; try again later', notBefore);
  }
  return lookups;
}

async function readRecords(
  { deps, lock, counts, signal }: RunContext,
  list: ItemList,
  writer: ListWriter,
  present: number,
): Promise<void> {
  const expected = present === 0 ? null : present;
  counts.bytes = list.bytes;
  for (const batch of batchesOf(list.records)) {
    // Other work of this process goes on meanwhile.
    await nextTurn();
    signal.throwIfAborted();
    lock.assertHeld();
    await writer.add(batch);
    const { listed: records, bytes } = counts;
    deps.onProgress?.({ phase: 'list', records, bytes, expected });
  }
}

const BATCH_RECORDS = 1_000;

function* batchesOf(records: Iterable<ListElement>): Generator<readonly ListElement[]> {
  let batch: ListElement[] = [];
  for (const record of records) {
    batch.push(record);
    if (batch.length < BATCH_RECORDS) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
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
  session: ItemSession,
  unlisted: Unlisted,
  lookups: Lookups,
): Promise<'succeeded' | 'held'> {
  const { counts, warnings, deps, signal } = run;
  const { ids, present, held, hidden } = unlisted;
  const { outcomes, witnessed } = lookups;
  const plan = planRemovals({
    present,
    unlisted: ids,
    lookups: outcomes,
    witnessed,
    guard: deps.removalGuard,
    held: held.all,
    hidden,
  });

  await stageFound(run, session, lookups.found);
  const applied = await session.apply(counts.duplicates > 0);
  counts.added = applied.added;
  counts.changed = applied.changed;
  counts.extraChanged = applied.extraChanged;
  counts.restored = applied.restored;
  counts.unchanged += applied.unchanged;
  const compared = counts.listed - counts.duplicates - counts.quarantined - counts.added;
  const wide = wideChanges(applied.fields, compared);
  await session.markWideFields(wide);

  await session.recordLookups(outcomes);
  await session.forgetFound(ids);
  counts.removed = await session.remove(plan);
  counts.missing = plan.missing.length;
  const heldBefore = ids.filter((id) => held.all.has(id) && outcomes.get(id) !== 'found').length;
  if (plan.held) run.held = await session.holdItems(plan, present - heldBefore);
  const { apiCalls: _calls, tolerated: _tolerated, ...saved } = counts;
  await session.saveCounts(saved);
  signal.throwIfAborted();
  await session.commit();
  run.committed = true;
  for (const one of wide) warnings.push(describeWide(one));
  warnOfUnlisted(run, plan, heldBefore);
  return plan.held ? 'held' : 'succeeded';
}

/** Stages records that look-ups found. */
async function stageFound(
  run: RunContext,
  session: ItemSession,
  found: ReadonlyMap<number, Json>,
): Promise<void> {
  const stored = await session.storedItems([...found.keys()]);
  const items: PreparedItem[] = [];
  for (const [id, raw] of found) {
    const preparation = prepareAnswer(raw, stored.get(id));
    if (!preparation.ok) throw new Error(`a decoded item can’t be prepared: ${preparation.reason}`);
    noteTolerated(run, preparation.tolerated);
    items.push(preparation.prepared);
  }
  await session.stageItems(items);
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

/**
 * Mirrors one item. Removes a known item only if it is denied, and denied again in a proven window. An item
 * that was never mirrored is reported as not found.
 */
export function syncItem(deps: RunDeps, id: number, signal: AbortSignal): Promise<RunReport> {
  return performRun(deps, 'item', signal, async (run) => {
    deps.onProgress?.({ phase: 'account' });
    const { value } = await verifyAccount(run);
    const reply = await deps.marketplace.item(id, { signal });
    if (reply.kind === 'answered') await saveItem(run, id, reply.data.raw);
    else if (reply.kind === 'denied') await lookAgain(run, id, value.username);
    else throw problemOf(reply);
    return 'succeeded';
  });
}

async function lookAgain(run: RunContext, id: number, account: string): Promise<void> {
  const witnesses = await findOtherLiveItems(run.lock, id);
  const choice = { ids: [id], gone: [], hidden: [] };
  const lookups = await lookUp(run, { ...choice, account, witnesses });
  const { outcomes, found, warnings, failure } = lookups;
  const raw = found.get(id);
  if (raw !== undefined) return saveItem(run, id, raw);
  if (outcomes.get(id) === 'gone') return removeItem(run, id);
  if (failure !== null && failure.kind !== 'denied') throw problemOf(failure);
  const message = `item ${id} was denied, which proves nothing: ${warnings.at(-1) ?? 'no answer'}`;
  const remedy = 'mirror the whole catalogue with `seller-mirror sync items`; nothing was removed';
  throw new RunProblem('unavailable', message, remedy);
}

async function saveItem(run: RunContext, id: number, raw: Json): Promise<void> {
  const { counts } = run;
  await inSession(run, async (session) => {
    counts.listed = 1;
    await stageFound(run, session, new Map([[id, raw]]));
    const applied = await session.apply();
    counts.added = applied.added;
    counts.changed = applied.changed;
    counts.extraChanged = applied.extraChanged;
    counts.restored = applied.restored;
    counts.unchanged = applied.added + applied.changed + applied.extraChanged === 0 ? 1 : 0;
  });
}

async function removeItem(run: RunContext, id: number): Promise<void> {
  await inSession(run, async (session) => {
    if ((await session.storedItems([id])).size === 0) {
      const message = `the marketplace shows no item ${id} to this account`;
      const remedy =
        'check the id; items that are pending or belong to another seller are not shown';
      throw new RunProblem('not-found', message, remedy);
    }
    run.counts.removed = await session.remove({ remove: [id], missing: [] });
  });
}
