import type { Json } from '../domain/item.js';
import { verifyAccount } from './account.js';
import { lookUp } from './look-up.js';
import { findOtherLiveItems } from './lookups-store.js';
import { changeStates, compareStage, readStoredItems, writeFew } from './merge-store.js';
import { prepareAnswer, type PreparedItem } from './prepare-item.js';
import { problemOf, RunProblem } from './problem.js';
import { noteTolerated, performRun, type RunContext } from './run.js';
import { stageItems } from './stage-list.js';
import type { RunDeps, RunReport } from './types.js';

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
  const choice = { ids: [id], gone: [], foundBefore: [] };
  const lookups = await lookUp(run, { ...choice, account, witnesses });
  const { outcomes, found, warning, failure } = lookups;
  const raw = found.get(id);
  if (raw !== undefined) return saveItem(run, id, raw);
  if (outcomes.get(id) === 'gone') return removeItem(run, id);
  if (failure !== null && failure.kind !== 'denied') throw problemOf(failure);
  const message = `item ${id} was denied, which proves nothing: ${warning ?? 'no answer'}`;
  const remedy = 'mirror the whole catalogue with `seller-mirror sync items`; nothing was removed';
  throw new RunProblem('unavailable', message, remedy);
}

async function saveItem(run: RunContext, id: number, raw: Json): Promise<void> {
  const { counts, lock, stamp, extraFields } = run;
  await writeFew(lock, async () => {
    counts.listed = 1;
    await stageFound(run, new Map([[id, raw]]));
    const input = { publishesAdded: true, repeats: false };
    const { unchanged: _none, fields: _fields, ...applied } = await compareStage(lock, input);
    Object.assign(counts, applied);
    counts.unchanged = applied.added + applied.changed + applied.extraChanged === 0 ? 1 : 0;
    return { stamp, extraFields, extraChanged: applied.extraChanged > 0 };
  });
}

async function removeItem({ lock, stamp, counts }: RunContext, id: number): Promise<void> {
  await writeFew(lock, async () => {
    if ((await readStoredItems(lock, [id])).size === 0) {
      const message = `the marketplace shows no item ${id} to this account`;
      const remedy =
        'check the id; items that are pending or belong to another seller are not shown';
      throw new RunProblem('not-found', message, remedy);
    }
    counts.removed = await changeStates(lock, { remove: [id], missing: [] });
    return { stamp };
  });
}

/** Stages records that look-ups found. @returns how many */
export async function stageFound(
  run: RunContext,
  found: ReadonlyMap<number, Json>,
): Promise<number> {
  const stored = await readStoredItems(run.lock, [...found.keys()]);
  const items: PreparedItem[] = [];
  for (const [id, raw] of found) {
    const preparation = prepareAnswer(raw, stored.get(id));
    if (!preparation.ok) throw new Error(`a decoded item can’t be prepared: ${preparation.reason}`);
    noteTolerated(run, preparation.tolerated);
    items.push(preparation.prepared);
  }
  await stageItems(run, items);
  return items.length;
}
