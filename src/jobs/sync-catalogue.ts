import { setTimeout as sleep } from 'node:timers/promises';
import { describeWide, type WideChange } from '../domain/changes.js';
import { ListBroken } from '../marketplace/types.js';
import type { ItemList } from '../marketplace/types.js';
import { isTransient } from '../marketplace/retry.js';
import { CatalogueIntake, ListedTwice } from './catalogue-intake.js';
import { verifyAccount, syncAccount, type Proof } from './account.js';
import { problemOf, RunProblem } from './problem.js';
import { forgetChanges, inSession, performRun, type RunContext } from './run.js';
import { resolveUnlisted, type Unlisted } from './unlisted.js';
import type { JobDeps, RunReport } from './types.js';

/** A list that breaks off is asked for again this often in one run. */
const LIST_ATTEMPTS = 3;
const LIST_PAUSE_MS = 1_000;

const NO_ITEMS =
  'the marketplace lists no items; it says the same of an account with exactly one item, so known items are looked up one by one, and an only item can be mirrored with `seller-mirror sync item ID`';

/**
 * Proves the credential, takes the list in within one transaction, which also marks what it no longer names
 * as missing, then looks that up. A list that is cut off, or can't be read, changes nothing.
 * @param proof of the credential, when the caller has just made it
 */
export function syncCatalogue(
  deps: JobDeps,
  signal: AbortSignal,
  proof: Proof | null = null,
): Promise<RunReport> {
  return performRun(deps, 'items', signal, async (run) => {
    if (proof === null) {
      deps.onProgress?.({ phase: 'account' });
      await verifyAccount(run);
    }
    return resolveUnlisted(run, await receiveList(run));
  });
}

/** Mirrors the account and, when that went well, the items. */
export async function* syncSeller(deps: JobDeps, signal: AbortSignal): AsyncGenerator<RunReport> {
  const { report, proof } = await syncAccount(deps, signal);
  yield report;
  if (proof !== null && report.state === 'succeeded') {
    yield await syncCatalogue(deps, signal, proof);
  }
}

async function receiveList(run: RunContext): Promise<Unlisted> {
  let mayApplyEarly = true;
  for (let attempt = 1; ; attempt++) {
    const reply = await run.deps.marketplace.items({ signal: run.signal });
    if (reply.kind === 'denied') {
      // A key that was revoked a moment ago is denied in the same words.
      await verifyAccount(run);
      run.warnings.push(NO_ITEMS);
      return takeIn(run, null, false);
    }
    if (reply.kind !== 'answered') throw problemOf(reply, true);
    try {
      return await takeIn(run, reply.data, mayApplyEarly);
    } catch (error) {
      if (error instanceof ListedTwice) {
        // Once at most, and nothing broke off: it is none of the attempts.
        mayApplyEarly = false;
        attempt--;
        continue;
      }
      if (!(error instanceof ListBroken)) throw error;
      if (attempt === LIST_ATTEMPTS || !isTransient(error.failure)) {
        throw problemOf(error.failure, true);
      }
    }
    const pauseMs = (run.deps.listPauseMs ?? LIST_PAUSE_MS) * attempt * (0.5 + Math.random());
    await sleep(pauseMs, undefined, { signal: run.signal });
  }
}

/** Takes one list in, or none, in one transaction that fails as a whole. */
async function takeIn(
  run: RunContext,
  list: ItemList | null,
  mayApplyEarly: boolean,
): Promise<Unlisted> {
  forgetChanges(run);
  run.tolerated.clear();
  let wideChanges: readonly WideChange[] = [];
  const unlisted = await inSession(run, async (session) => {
    const known = await session.loadKnown();
    const present = known.presentCount();
    let delisted = 0;
    if (list !== null) {
      const intake = new CatalogueIntake(run, session, known, mayApplyEarly);
      try {
        await readList(run, list, intake, present);
      } finally {
        // What is being written must not go on after the transaction has ended.
        await intake.settled();
      }
      ({ wideChanges } = intake);
      await session.markWideFields(wideChanges);
      ({ delisted, missing: run.counts.missing } = await session.delist(known.unseen()));
      if (known.anySeen() !== null) session.markListLoaded();
    }
    const { apiCalls: _calls, tolerated: _tolerated, ...counts } = run.counts;
    await session.saveCounts(counts);
    run.signal.throwIfAborted();
    run.committed = true;
    const witness = known.anySeen();
    return { ids: known.unseen(), delisted, present, listed: list !== null, witness };
  });
  for (const wide of wideChanges) run.warnings.push(describeWide(wide));
  return unlisted;
}

async function readList(
  run: RunContext,
  list: ItemList,
  intake: CatalogueIntake,
  present: number,
): Promise<void> {
  const { deps, lock, counts, signal } = run;
  const expected = present === 0 ? null : present;
  for await (const batch of list.batches) {
    signal.throwIfAborted();
    lock.assertHeld();
    await intake.take(batch);
    counts.bytes = list.bytes();
    const { listed: records, bytes } = counts;
    deps.onProgress?.({ phase: 'list', records, bytes, expected });
  }
  deps.onProgress?.({ phase: 'write' });
  await intake.finish();
  refuseMostlyUnreadable(run, intake.firstReason);
  for (const name of list.tolerated()) run.tolerated.set(name, 1);
}

/** A list of which most records can't be read is another format, not a catalogue with flaws. */
function refuseMostlyUnreadable(run: RunContext, reason: string | null): void {
  const { quarantined, listed } = run.counts;
  if (quarantined === 0) return;
  const which = `${quarantined} of ${listed} records`;
  const why = `the first because: ${reason ?? 'unknown'}`;
  if (quarantined * 2 > listed) {
    const message = `${which} of the list can’t be read, ${why}`;
    const remedy = 'run `seller-mirror doctor`; the copy is as it was';
    throw new RunProblem('unreadable', message, remedy);
  }
  run.warnings.push(`${which} could not be read and are in mirror.quarantine, ${why}`);
}
