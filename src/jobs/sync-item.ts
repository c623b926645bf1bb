import type { Json } from '../domain/item.js';
import { completeMedia, prepareAnswer } from '../domain/prepare-item.js';
import { describeFailure } from '../domain/reply.js';
import { problemOf, RunProblem } from './problem.js';
import { verifyAccount } from './account.js';
import { inSession, noteTolerated, performRun, type RunContext } from './run.js';
import { findOtherLiveItem } from '../store/removals.js';
import type { RunDeps, RunReport } from './types.js';

/**
 * Mirrors one item. Removes a known item only if it is denied twice between two checks of the key, with
 * another known item found in between. An item that was never mirrored is reported as not found.
 */
export function syncItem(deps: RunDeps, id: number, signal: AbortSignal): Promise<RunReport> {
  return performRun(deps, 'item', signal, async (run) => {
    deps.onProgress?.({ phase: 'account' });
    await verifyAccount(run);
    let reply = await deps.marketplace.item(id, { signal });
    if (reply.kind === 'denied') {
      await checkWitness(run, id);
      reply = await deps.marketplace.item(id, { signal });
    }
    if (reply.kind === 'answered') {
      noteTolerated(run, reply.data.tolerated);
      await saveItem(run, id, reply.data.raw);
    } else if (reply.kind === 'denied') {
      await verifyAccount(run);
      await removeItem(run, id);
    } else {
      throw problemOf(reply);
    }
    return 'succeeded';
  });
}

async function saveItem(run: RunContext, id: number, raw: Json): Promise<void> {
  const { counts } = run;
  await inSession(run, async (session) => {
    const stored = (await session.rawRecords([id])).get(id);
    const preparation = prepareAnswer(completeMedia(raw, stored));
    if (!preparation.ok) throw new Error(`a decoded item can’t be prepared: ${preparation.reason}`);
    counts.listed = 1;
    await session.stageItems([preparation.prepared]);
    const applied = await session.apply();
    counts.added = applied.added;
    counts.changed = applied.changed;
    counts.extraChanged = applied.extraChanged;
    counts.restored = applied.restored;
    counts.unchanged = applied.added + applied.changed + applied.extraChanged === 0 ? 1 : 0;
  });
}

/** @throws {RunProblem} when another live item can't be looked up; without another, when the key is bad */
async function checkWitness(run: RunContext, id: number): Promise<void> {
  const witness = await findOtherLiveItem(run.lock, id);
  if (witness === null) return void (await verifyAccount(run));
  const reply = await run.deps.marketplace.item(witness, { signal: run.signal });
  if (reply.kind === 'answered') return;
  if (reply.kind !== 'denied') throw problemOf(reply);
  throw new RunProblem(
    'unavailable',
    `item ${id} was denied, but so was item ${witness}, which was live: ${describeFailure(reply)}`,
    'mirror the whole catalogue with `seller-mirror sync items`; nothing was removed',
  );
}

async function removeItem(run: RunContext, id: number): Promise<void> {
  await inSession(run, async (session) => {
    if ((await session.rawRecords([id])).size === 0) {
      const message = `the marketplace shows no item ${id} to this account`;
      const remedy =
        'check the id; items that are pending or belong to another seller are not shown';
      throw new RunProblem('not-found', message, remedy);
    }
    run.counts.removed = await session.remove({ remove: [id], missing: [] });
  });
}
