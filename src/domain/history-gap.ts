/** Since when there is history of a seller; null when there is none yet. */
export interface Start {
  readonly sellerId: string;
  readonly since: Date | null;
}

/** Why the catalogue of a moment is not known in full. */
export type HistoryGap =
  | { readonly kind: 'future' }
  /** Of none of the sellers, or of some, it is known; these are the ones of which it is not. */
  | { readonly kind: 'nothing' | 'some'; readonly starts: readonly Start[] };

/** What is not known of a moment; null when all of it is. */
export function historyGap(starts: readonly Start[], moment: Date, now: Date): HistoryGap | null {
  if (moment.getTime() > now.getTime()) return { kind: 'future' };
  const unknown = starts.filter(({ since }) => since === null || since > moment);
  if (unknown.length === starts.length) return { kind: 'nothing', starts: unknown };
  return unknown.length === 0 ? null : { kind: 'some', starts: unknown };
}
