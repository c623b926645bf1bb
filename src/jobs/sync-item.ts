import { prepareItem } from '../domain/prepare-item.js';
import type { Json } from '../domain/item.js';
import { proveCredential } from './prove.js';
import { noteTolerated, performRun, problemOf, RunProblem, type RunContext } from './run.js';
import type { JobDeps, RunReport } from './types.js';

/**
 * Mirrors one item. A denial removes a known item only between two proofs of the credential; an
 * item the mirror never knew is reported as not found.
 */
export function syncItem(deps: JobDeps, id: number, signal: AbortSignal): Promise<RunReport> {
  return performRun(deps, 'item', signal, async (run) => {
    await proveCredential(run);
    const reply = await deps.marketplace.item(id, { signal });
    if (reply.kind === 'answered') {
      noteTolerated(run, reply.data.tolerated);
      await saveItem(run, reply.data.raw);
    } else if (reply.kind === 'denied') {
      await proveCredential(run);
      await removeItem(run, id);
    } else {
      throw problemOf(reply);
    }
    return 'succeeded';
  });
}

async function saveItem(run: RunContext, raw: Json): Promise<void> {
  const preparation = prepareItem(Buffer.from(JSON.stringify(raw)));
  if (!preparation.ok)
    throw new Error(`a decoded item could not be prepared: ${preparation.reason}`);
  const { prepared } = preparation;
  const { counts } = run;
  await inSession(run, async (session) => {
    counts.listed = 1;
    if ((await session.hashesOf([prepared.item.id])).size === 0) {
      await session.insert([prepared]);
      counts.added = 1;
      return;
    }
    await session.stage([{ prepared, rival: false }]);
    const applied = await session.apply();
    counts.changed = applied.changed;
    counts.extraChanged = applied.extraChanged;
    counts.restored = applied.restored;
    counts.unchanged = applied.changed + applied.extraChanged === 0 ? 1 : 0;
  });
}

async function removeItem(run: RunContext, id: number): Promise<void> {
  await inSession(run, async (session) => {
    if ((await session.hashesOf([id])).size === 0) {
      throw new RunProblem(
        'not-found',
        `the marketplace shows no item ${id} to this account`,
        'check the id; items that are pending or belong to another seller are not shown',
        true,
      );
    }
    const plan = { held: false, remove: [id], missing: [], found: [] };
    run.counts.removed = (await session.remove(plan)).removed;
  });
}

type Session = Awaited<ReturnType<JobDeps['store']['beginItems']>>;

async function inSession(
  run: RunContext,
  work: (session: Session) => Promise<void>,
): Promise<void> {
  const session = await run.deps.store.beginItems(run.lock, run.stamp);
  try {
    await work(session);
    await session.commit();
  } catch (error) {
    await session.rollback();
    throw error;
  }
}
