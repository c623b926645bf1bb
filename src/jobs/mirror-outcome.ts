import type { Alert } from './alerts.js';

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

/**
 * One alert for each incident: a failure that may pass is told when the last attempt has failed too. A parked
 * seller is told as that, not as a failed run besides.
 * @param attempt 1 for the first, of `attempts`
 */
export function alertsAfter(
  outcome: MirrorOutcome,
  { attempt, attempts }: { readonly attempt: number; readonly attempts: number },
): readonly Alert[] {
  if (!('alert' in outcome) || outcome.alert === null) return [];
  return outcome.kind === 'retry' && attempt < attempts ? [] : [outcome.alert];
}
