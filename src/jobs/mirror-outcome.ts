import type { Alert } from './alerts.js';
import type { Problem, ProblemCode } from './types.js';

/** What became of a mirror job, as plain data that holds ids, codes and counts only. */
export type MirrorOutcome =
  /** Done for good, or needless. */
  | {
      readonly kind: 'done';
      readonly result: Readonly<Record<string, unknown>>;
      readonly alert: Alert | null;
    }
  /** It may work later, but not before `notBefore` (milliseconds since 1970). */
  | {
      readonly kind: 'retry';
      readonly problem: string;
      readonly notBefore: number | null;
      readonly alert: Alert | null;
    }
  /** Another run works for the seller: again after `delayMs`, and it does not count as an attempt. */
  | {
      readonly kind: 'later';
      readonly reason: string;
      readonly delayMs: number;
      /** Another process works on the same, and may be done any moment. */
      readonly isBusy?: true;
    }
  /** Repeating can't help. */
  | { readonly kind: 'give-up'; readonly problem: string; readonly alert: Alert | null }
  /** It was told to stop. */
  | { readonly kind: 'hand-back' };

/** What to do with a job, and with its seller, after a run that failed. */
export type Consequence = 'park' | 'give-up' | 'retry' | 'hand-back';

const CONSEQUENCES: Readonly<Record<ProblemCode, Consequence>> = {
  // Only a person can mend these, and every further run would meet them again.
  refused: 'park',
  'account-changed': 'park',
  // Asking again at once gives the same; by the next tick the marketplace may have mended it.
  unreadable: 'give-up',
  'not-found': 'give-up',
  limited: 'retry',
  unavailable: 'retry',
  store: 'retry',
  interrupted: 'hand-back',
};

/**
 * What follows from the problem of a failed run.
 * @param stopping the job was told to stop: what may pass is then no failure of the job's
 */
export function afterProblem({ code }: Pick<Problem, 'code'>, stopping: boolean): Consequence {
  const consequence = CONSEQUENCES[code];
  return stopping && consequence === 'retry' ? 'hand-back' : consequence;
}

/**
 * What to tell people after an attempt at a mirror job: one alert for each incident. A failure that
 * may pass by itself is told when the last attempt has failed too, not at each; a copy that grows
 * stale meanwhile is told as such. A parked seller is told as that, not as a failed run besides.
 * @param attempt 1 for the first, of `attempts`
 */
export function alertsAfter(
  outcome: MirrorOutcome,
  { attempt, attempts }: { readonly attempt: number; readonly attempts: number },
): readonly Alert[] {
  if (!('alert' in outcome) || outcome.alert === null) return [];
  return outcome.kind === 'retry' && attempt < attempts ? [] : [outcome.alert];
}
