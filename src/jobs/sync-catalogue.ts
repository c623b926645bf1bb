import { setTimeout as sleep } from 'node:timers/promises';
import type { Failure } from '../domain/reply.js';
import { ListBroken } from '../marketplace/list-broken.js';
import type { ItemList } from '../marketplace/types.js';
import { CatalogueIntake } from './catalogue-intake.js';
import { proveCredential, type Proof } from './prove.js';
import { performRun, problemOf, RunProblem, type RunContext } from './run.js';
import { settleUnlisted } from './settle-unlisted.js';
import type { JobDeps, RunReport } from './types.js';

/** A list that breaks off is asked for again this often in one run. */
const LIST_ATTEMPTS = 3;
const LIST_PAUSE_MS = 1_000;

/** What the list left open. */
interface Intake {
  /** Items that the mirror holds as present and that the list did not name. */
  readonly unlisted: readonly number[];
  /** How many items the mirror held as present before. */
  readonly present: number;
}

/**
 * Mirrors the whole catalogue: proves the credential, takes the list in within one transaction, and
 * settles in a second one what has become of the items that are no longer listed. A list that is
 * cut off, or can't be read, changes nothing.
 * @param proof of the credential, when the caller has just made it
 */
export function syncCatalogue(
  deps: JobDeps,
  signal: AbortSignal,
  proof: Proof | null = null,
): Promise<RunReport> {
  return performRun(deps, 'catalogue', signal, async (run) => {
    if (proof === null) await proveCredential(run);
    const intake = await receiveList(run);
    return settleUnlisted(run, intake.unlisted, intake.present);
  });
}

async function receiveList(run: RunContext): Promise<Intake> {
  for (let attempt = 1; ; attempt++) {
    const reply = await run.deps.marketplace.items({ signal: run.signal });
    if (reply.kind === 'denied') {
      // A key that was revoked a moment ago is denied in the same words.
      await proveCredential(run);
      run.warnings.push(
        'the marketplace lists no items; it says the same of an account with exactly one item, so known items are looked up one by one, and an only item can be mirrored with `seller-mirror sync item ID`',
      );
      return takeIn(run, null);
    }
    if (reply.kind !== 'answered') throw problemOf(reply);
    try {
      return await takeIn(run, reply.data);
    } catch (error) {
      if (!(error instanceof ListBroken)) throw error;
      if (attempt === LIST_ATTEMPTS || !worthRepeating(error.failure))
        throw listProblem(error.failure);
    }
    const pauseMs = (run.deps.listPauseMs ?? LIST_PAUSE_MS) * attempt * (0.5 + Math.random());
    await sleep(pauseMs, undefined, { signal: run.signal });
  }
}

/** Takes one list in, or none, in one transaction that fails as a whole. */
async function takeIn(run: RunContext, list: ItemList | null): Promise<Intake> {
  const { deps, lock, stamp, counts } = run;
  const session = await deps.store.beginItems(lock, stamp);
  try {
    resetCounts(run);
    const known = await session.loadKnown();
    const present = known.presentCount();
    if (list !== null) {
      const intake = new CatalogueIntake(run, session, known);
      for await (const batch of list.batches) {
        run.signal.throwIfAborted();
        await intake.take(batch);
        counts.bytes = list.bytes();
        deps.onProgress?.({
          phase: 'list',
          records: counts.listed,
          bytes: counts.bytes,
          expected: present === 0 ? null : present,
        });
      }
      deps.onProgress?.({ phase: 'write' });
      await intake.finish();
      refuseMostlyUnreadable(run, intake.firstReason);
      noteEnvelope(run, list);
    }
    const { listed, added, changed, extraChanged, unchanged, restored, quarantined, duplicates } =
      counts;
    await session.counts({
      listed,
      added,
      changed,
      extraChanged,
      unchanged,
      restored,
      quarantined,
      duplicates,
    });
    run.signal.throwIfAborted();
    await session.commit();
    return { unlisted: known.unseen(), present };
  } catch (error) {
    await session.rollback();
    throw error;
  }
}

/** A list of which most records can't be read is another format, not a catalogue with flaws. */
function refuseMostlyUnreadable(run: RunContext, reason: string | null): void {
  const { quarantined, listed } = run.counts;
  if (quarantined === 0) return;
  if (quarantined * 2 > listed) {
    throw new RunProblem(
      'unreadable',
      `${quarantined} of ${listed} records of the list can’t be read, the first because: ${reason ?? 'unknown'}`,
      'run `seller-mirror doctor`; the copy is as it was',
      true,
    );
  }
  run.warnings.push(
    `${quarantined} of ${listed} records could not be read and are in mirror.quarantine, the first because: ${reason ?? 'unknown'}`,
  );
}

function noteEnvelope(run: RunContext, list: ItemList): void {
  for (const name of list.tolerated()) run.tolerated.set(name, 1);
}

function resetCounts(run: RunContext): void {
  const { counts } = run;
  counts.listed = counts.added = counts.changed = counts.extraChanged = counts.unchanged = 0;
  counts.restored = counts.quarantined = counts.duplicates = counts.bytes = 0;
  run.tolerated.clear();
}

function worthRepeating(failure: Failure): boolean {
  return (
    failure.kind === 'unavailable' &&
    failure.reason !== 'challenge' &&
    failure.reason !== 'redirect'
  );
}

function listProblem(failure: Failure): RunProblem {
  const { problem } = problemOf(failure);
  return new RunProblem(
    problem.code,
    `the list of items is not whole: ${problem.message}`,
    'nothing was changed; try again later',
    problem.permanent,
  );
}
