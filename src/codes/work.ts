import { confirm } from './confirm.js';
import type { PieceEnd, Work } from './piece.js';
import { pauseBeforeRetry } from './rules.js';
import { sweep } from './sweep.js';

/** Known valid codes that proofs choose from. */
const KNOWN_VALID = 100;

/**
 * Does the next piece of work on a list of codes: sweeps some, or confirms some windows of denied ones, or settles them.
 * Everything that it did is recorded when it returns, so that it may be stopped, killed and repeated at any point.
 * @throws the signal's reason; errors of the ledger
 */
export async function workPiece(work: Work): Promise<PieceEnd> {
  const { ledger, memory } = work;
  const counts = await ledger.counts();
  if (counts.open + counts.denied === 0) return { kind: 'done' };
  if (!memory.hasKnownValid) {
    memory.hasKnownValid = true;
    memory.canaries.add(await ledger.knownValid(KNOWN_VALID));
  }
  let retryMs = Infinity;
  if (counts.open > 0) {
    retryMs = memory.retryAt - performance.now();
    if (retryMs <= 0) {
      const end = await sweep(work);
      if (end !== null) return end;
      retryMs = pauseBeforeRetry(++memory.passes);
      memory.after = -1;
      memory.retryAt = performance.now() + retryMs;
    }
  }
  const isBriefAndOver = work.isBrief === true && memory.passes > 0;
  const end = counts.denied > 0 || retryMs !== Infinity ? await confirm(work) : null;
  if (end !== null && (end.kind !== 'wait' || isBriefAndOver)) return end;
  if (isBriefAndOver) return { kind: 'done' };
  const confirmMs = end?.delayMs ?? Infinity;
  return confirmMs < retryMs
    ? { kind: 'wait', delayMs: confirmMs, until: 'confirm' }
    : {
        kind: 'wait',
        delayMs: retryMs,
        until: 'retry',
        codes: counts.open,
        reason: memory.unanswered,
      };
}
