import { noteTolerated, performRun, type RunContext } from './run.js';
import { proveCredential, type Proof } from './prove.js';
import type { JobDeps, RunReport } from './types.js';

/** Mirrors the account. The proof that comes with a success serves the catalogue run that follows. */
export async function syncAccount(
  deps: JobDeps,
  signal: AbortSignal,
): Promise<{ report: RunReport; proof: Proof | null }> {
  let proof: Proof | null = null;
  const report = await performRun(deps, 'account', signal, async (run) => {
    deps.onProgress?.({ phase: 'account' });
    proof = await proveCredential(run);
    await saveAccount(run, proof);
    return 'succeeded';
  });
  return { report, proof };
}

async function saveAccount(run: RunContext, proof: Proof): Promise<void> {
  noteTolerated(run, proof.tolerated);
  const unreadable = proof.tolerated.filter((name) => name.endsWith('.unreadable'));
  if (unreadable.length > 0) {
    const fields = unreadable.map((name) => name.slice(0, -'.unreadable'.length)).join(', ');
    run.warnings.push(`could not be read, and are kept as they came in "extra": ${fields}`);
  }
  const change = await run.deps.store.sellers.saveAccount(run.lock, run.stamp, proof);
  run.counts.listed = 1;
  if (change === 'added') run.counts.added = 1;
  else if (change === 'changed') run.counts.changed = 1;
  else if (change === 'extra-changed') run.counts.extraChanged = 1;
  else run.counts.unchanged = 1;
}
