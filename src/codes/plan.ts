/**
 * What a check does next: `nextStep`, from what the ledger says, what the plan remembers, and the time.
 *
 * The loop, whoever asked for the check, under the lock of the check:
 *
 *     for (;;) {
 *       const step = nextStep(await ledger.facts(), memory, situation, clock.now());
 *       first-pass   → memory = await runTalk(firstPass(await ledger.open(step.after, step.limit), situation, memory), loop)
 *       second-check → memory = await runTalk(secondCheck(step.codes, facts, situation, memory), loop)
 *       settle       → await ledger.record(step.results)
 *       give-up      → await ledger.giveUp(step.reason): every code without a verdict becomes unproven
 *       wait, pause  → note it, and hand the job back until then
 *       finished     → the end
 *     }
 */

import type { UnprovenReason } from './evidence.js';
import type { CheckFacts, CodeResult, DeniedCode } from './results.js';
import type { Memory, Situation, Stop } from './situation.js';

/** Codes read for one piece of the first pass. */
export const OPEN_PER_STEP = 500;
/** Denied codes read for each step. */
export const DENIED_PER_STEP = 500;

export type Step =
  /** Ask the next open codes after this position, at most so many. */
  | { readonly kind: 'first-pass'; readonly after: number; readonly limit: number }
  /** Check these codes again, in proven windows. */
  | { readonly kind: 'second-check'; readonly codes: readonly DeniedCode[] }
  /** Record these verdicts, which follow from recorded checks. */
  | { readonly kind: 'settle'; readonly results: readonly CodeResult[] }
  /** Nothing can be proven here: every code without a verdict becomes unproven. */
  | { readonly kind: 'give-up'; readonly reason: UnprovenReason }
  /** Nothing is due. `stop`: an outage or a limit is why; null: only the minute between two denials, or two tries. */
  | {
      readonly kind: 'wait';
      readonly until: number;
      readonly what: 'second-check' | 'retry' | 'stop';
      readonly stop: Stop | null;
    }
  /** A person must act: the key is bad. */
  | { readonly kind: 'pause'; readonly stop: Stop }
  | { readonly kind: 'finished' };

/** @param now milliseconds since 1970, by the clock of the database */
export type NextStep = (
  facts: CheckFacts,
  memory: Memory,
  situation: Situation,
  now: number,
) => Step;
