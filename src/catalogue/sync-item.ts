import type { Json } from '../domain/item.js';
import { findOtherLiveItems } from './lookups-store.js';
import { verifyAccount } from './account.js';
import { problemOf, RunProblem } from './problem.js';
import { inSession, performRun, type RunContext } from './run.js';
import { stageFound } from './sync-items.js';
import type { RunDeps, RunReport } from './types.js';
import { lookUp } from './look-up.js';

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
    if ((await session.rawRecords([id])).size === 0) {
      const message = `the marketplace shows no item ${id} to this account`;
      const remedy =
        'check the id; items that are pending or belong to another seller are not shown';
      throw new RunProblem('not-found', message, remedy);
    }
    run.counts.removed = await session.remove({ remove: [id], missing: [] });
  });
}
