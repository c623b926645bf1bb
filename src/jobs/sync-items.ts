import { setTimeout as sleep } from 'node:timers/promises';
import { describeWide, type WideChange } from '../domain/changes.js';
import { ListBroken } from '../marketplace/types.js';
import type { ItemList } from '../marketplace/types.js';
import { isTransient } from '../marketplace/retry.js';
import { ListWriter, ListedTwice } from './list-writer.js';
import { syncAccount, verifyAccount, type AccountDetails } from './account.js';
import { problemOf, RunProblem } from './problem.js';
import { inSession, performRun, resetCounts, type RunContext } from './run.js';
import { resolveUnlisted, type Unlisted } from './unlisted.js';
import type { RunDeps, RunReport } from './types.js';

/** Requests for a list that breaks off, in one run. */
const LIST_ATTEMPTS = 3;
const LIST_PAUSE_MS = 1_000;

const NO_ITEMS =
  'the marketplace lists no items, which it also does for an account with exactly one item; so known items are looked up one by one, and a single item can be mirrored with `seller-mirror sync item ID`';

/**
 * Mirrors the items. Verifies the key, stores the list in one transaction, which also marks unlisted
 * items as missing, and then looks those up. A list that breaks off or can't be read changes nothing.
 * @param account account details, if the caller has just verified them
 */
export function syncItems(
  deps: RunDeps,
  signal: AbortSignal,
  account: AccountDetails | null = null,
): Promise<RunReport> {
  return performRun(deps, 'items', signal, async (run) => {
    if (account === null) {
      deps.onProgress?.({ phase: 'account' });
      await verifyAccount(run);
    }
    return resolveUnlisted(run, await mirrorList(run));
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

/** Requests the list and stores it; repeats both when the list breaks off. */
async function mirrorList(run: RunContext): Promise<Unlisted> {
  let mayApplyEarly = true;
  let brokenLists = 0;
  for (;;) {
    const reply = await run.deps.marketplace.items({ signal: run.signal });
    if (reply.kind === 'denied') {
      // A key that was just revoked gets the same answer.
      await verifyAccount(run);
      run.warnings.push(NO_ITEMS);
      return storeList(run, null, false);
    }
    if (reply.kind !== 'answered') throw problemOf(reply, true);
    try {
      return await storeList(run, reply.data, mayApplyEarly);
    } catch (error) {
      if (error instanceof ListedTwice) {
        // Happens once at most and is no failure.
        mayApplyEarly = false;
        continue;
      }
      if (!(error instanceof ListBroken)) throw error;
      brokenLists++;
      if (brokenLists === LIST_ATTEMPTS || !isTransient(error.failure)) {
        throw problemOf(error.failure, true);
      }
    }
    const pauseMs = (run.deps.listPauseMs ?? LIST_PAUSE_MS) * brokenLists * (0.5 + Math.random());
    await sleep(pauseMs, undefined, { signal: run.signal });
  }
}

/** Stores a list, or the fact that there was none, in one transaction. */
async function storeList(
  run: RunContext,
  list: ItemList | null,
  mayApplyEarly: boolean,
): Promise<Unlisted> {
  resetCounts(run);
  run.tolerated.clear();
  let wideChanges: readonly WideChange[] = [];
  const unlisted = await inSession(run, async (session) => {
    const known = await session.loadKnown();
    const present = known.presentCount();
    let delisted = 0;
    if (list !== null) {
      const writer = new ListWriter(run, session, known, mayApplyEarly);
      try {
        await readList(run, list, writer, present);
      } finally {
        // No write may outlive the transaction.
        await writer.writesEnded();
      }
      ({ wideChanges } = writer);
      await session.markWideFields(wideChanges);
      ({ delisted, missing: run.counts.missing } = await session.delist(known.unseen()));
      if (known.anySeen() !== null) session.markListLoaded();
    }
    const { apiCalls: _calls, tolerated: _tolerated, ...counts } = run.counts;
    await session.saveCounts(counts);
    run.signal.throwIfAborted();
    run.committed = true;
    const witness = known.anySeen();
    return { ids: known.unseen(), delisted, present, hadList: list !== null, witness };
  });
  for (const wide of wideChanges) run.warnings.push(describeWide(wide));
  return unlisted;
}

async function readList(
  run: RunContext,
  list: ItemList,
  writer: ListWriter,
  present: number,
): Promise<void> {
  const { deps, lock, counts, signal } = run;
  const expected = present === 0 ? null : present;
  for await (const batch of list.batches) {
    signal.throwIfAborted();
    lock.assertHeld();
    await writer.add(batch);
    counts.bytes = list.bytes();
    const { listed: records, bytes } = counts;
    deps.onProgress?.({ phase: 'list', records, bytes, expected });
  }
  deps.onProgress?.({ phase: 'write' });
  await writer.finish();
  checkQuarantined(run, writer.firstReason);
  for (const name of list.tolerated()) run.tolerated.set(name, 1);
}

/** If most records can't be read, the list has another format: fail instead of storing a few items. */
function checkQuarantined(run: RunContext, reason: string | null): void {
  const { quarantined, listed } = run.counts;
  if (quarantined === 0) return;
  const which = `${quarantined} of ${listed} records`;
  const why = `the first because: ${reason ?? 'unknown'}`;
  if (quarantined * 2 > listed) {
    const message = `${which} of the list can’t be read, ${why}`;
    const remedy = 'run `seller-mirror doctor`; the copy is unchanged';
    throw new RunProblem('unreadable', message, remedy);
  }
  run.warnings.push(`${which} could not be read and are in mirror.quarantine, ${why}`);
}
