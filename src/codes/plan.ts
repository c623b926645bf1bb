/**
 * What a check does next: `nextStep`, from what the ledger says, what the plan remembers, and the time.
 *
 * The loop, whoever asked for the check, under the lock of the check:
 *
 *     for (;;) {
 *       const facts = await ledger.facts();
 *       const step = nextStep(facts, memory, situation);
 *       first-pass   → memory = await firstPass(await ledger.open(step.after, step.limit), situation, memory)
 *       second-check → memory = await secondCheck(step.codes, facts, situation, memory)
 *       settle       → await ledger.record(step.results)
 *       give-up      → await ledger.giveUp(step.reason): every code without a verdict becomes unproven
 *       wait, pause  → note it, and hand the job back until then
 *       finished     → the end
 *     }
 *
 * `situation` is read again for each step: what it holds of known-valid codes changes with each.
 */

import type { UnprovenReason } from './evidence.js';
import { endOf, neededBy, windowSize } from './window.js';
import {
  type CheckFacts,
  type CodeResult,
  type DeniedCode,
  isUnlisted,
  resultOf,
} from './ledger.js';
import type { Memory, Situation, Stop } from './situation.js';

export { firstPass } from './first-pass.js';
export { secondCheck } from './window.js';

/** Codes read for one piece of the first pass, with a budget, and without one: there they last as long. */
export const OPEN_PER_STEP = 500;
const OPEN_PER_FAST_STEP = 4_000;
/** Denied codes read for each step. */
export const DENIED_PER_STEP = 500;

export type Step =
  /** Ask the next open codes after this position, at most so many. If there are none, `firstPass` is told so. */
  | { readonly kind: 'first-pass'; readonly after: number; readonly limit: number }
  /** Check these codes again, in proven windows. */
  | { readonly kind: 'second-check'; readonly codes: readonly DeniedCode[] }
  /** Record these verdicts, which follow from recorded checks. */
  | { readonly kind: 'settle'; readonly results: readonly CodeResult[] }
  /** Nothing can be proven here: every code without a verdict becomes unproven. */
  | { readonly kind: 'give-up'; readonly reason: UnprovenReason }
  /** Nothing is due. `stop`: an outage, a limit or a bad proof; null: the minute between two denials, or two tries. */
  | {
      readonly kind: 'wait';
      readonly until: number;
      readonly what: 'second-check' | 'retry' | 'stop';
      readonly stop: Stop | null;
    }
  /** A person must act: the key is bad. When it goes on, see `resumed`. */
  | { readonly kind: 'pause'; readonly stop: Stop }
  | { readonly kind: 'finished' };

/** How many codes one piece of the first pass asks. */
export function openPerStep({ spacingMs }: Pick<Situation, 'spacingMs'>): number {
  return spacingMs === 0 ? OPEN_PER_FAST_STEP : OPEN_PER_STEP;
}

/** Decides what is done next. */
export function nextStep(facts: CheckFacts, memory: Memory, situation: Situation): Step {
  const now = situation.now();
  const { open, denied } = facts;
  if (open + denied === 0) return { kind: 'finished' };
  if (memory.findsEverything) return { kind: 'give-up', reason: 'finds-everything' };
  const settled = settledNow(facts);
  if (settled.length > 0) return { kind: 'settle', results: settled };
  if (memory.hold !== null) {
    const { stop, until } = memory.hold;
    if (until === null) return { kind: 'pause', stop };
    if (until > now) return { kind: 'wait', until, what: 'stop', stop };
  }
  if (open > 0 && memory.retryAt <= now) {
    return { kind: 'first-pass', after: memory.after, limit: openPerStep(situation) };
  }
  const size = windowSize(facts, memory, situation);
  const codes = dueCodes(facts, size, situation);
  if (codes.length > 0) return { kind: 'second-check', codes };
  const secondAt = secondCheckAt(facts, size, situation);
  return open > 0 && memory.retryAt <= secondAt
    ? { kind: 'wait', until: memory.retryAt, what: 'retry', stop: null }
    : { kind: 'wait', until: secondAt, what: 'second-check', stop: null };
}

/** What the plan remembers when a person lets a paused check go on. */
export function resumed(memory: Memory): Memory {
  return memory.hold?.until === null ? { ...memory, hold: null, bad: null } : memory;
}

/** Codes whose recorded denials suffice by now: what chance requires may have become less. */
function settledNow(facts: CheckFacts): readonly CodeResult[] {
  const needed = neededBy(facts);
  const isAnyDoubtful = facts.deniedCodes.some(isUnlisted);
  return facts.deniedCodes.flatMap((code): CodeResult[] => {
    const end = endOf(code, code, needed, isAnyDoubtful, 'denied');
    return end === null ? [] : [resultOf({ position: code.position }, end)];
  });
}

/**
 * The due codes, if there are enough for a full window, or nothing more to wait for. A window with few codes costs as many
 * proofs as a full one.
 */
function dueCodes(facts: CheckFacts, size: number, situation: Situation): readonly DeniedCode[] {
  const now = situation.now();
  if (secondCheckAt(facts, size, situation) > now) return [];
  const due = facts.deniedCodes.filter(({ askedAt }) => askedAt + situation.waitMs <= now);
  const isAll = due.length === facts.denied || due.length < size;
  return isAll ? due : due.slice(0, due.length - (due.length % size));
}

/** When the next window may begin. */
function secondCheckAt(
  { denied, deniedCodes }: CheckFacts,
  size: number,
  { waitMs, gatherMs, heldUntil }: Situation,
): number {
  const dueAt = deniedCodes.map(({ askedAt }) => askedAt + waitMs).sort((a, b) => a - b);
  const fullAt = dueAt[Math.min(size, denied) - 1] ?? Infinity;
  return Math.max(heldUntil, Math.min(fullAt, (dueAt[0] ?? Infinity) + gatherMs));
}
