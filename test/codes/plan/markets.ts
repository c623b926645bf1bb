import { expect } from 'vitest';
import { KINDS, runKind, type Kind } from './kinds.js';

/** Wrong markets that a kind may have, of all, and of those with one code or more. */
interface Bound {
  /** Of 2,000. */
  readonly wrong?: number;
  /** Shares, for markets with one code and for others. */
  readonly oneCode?: number;
  readonly others?: number;
}

/** Chance alone may deny a code four times. No other kind may have a wrong verdict, in either direction. */
const BOUNDS: Readonly<Record<string, Bound>> = {
  'one call in nine is denied': { wrong: 3 },
  'one call in three is denied': { others: 0.005 },
  'one call in three is denied, and there is one code': { oneCode: 0.015 },
};

export const MARKETS: readonly (readonly [string, Kind])[] = Object.entries({
  ...KINDS,
  'one call in three is denied, and there is one code': { deniedShare: 1 / 3, codes: 1 },
});

/**
 * Runs random markets of a kind, and compares every verdict with what is true.
 * @param count markets @param from the first seed
 */
export async function expectTruth(
  name: string,
  kind: Kind,
  count: number,
  from = 1,
): Promise<void> {
  const wrong: { readonly seed: number; readonly codes: readonly string[]; readonly of: number }[] =
    [];
  let markets = 0;
  for (let seed = from; seed < from + count; seed++) {
    // Throws if the check does not end.
    const run = await runKind(kind, seed);
    markets++;
    if (run.wrong.length > 0) wrong.push({ seed, codes: run.wrong, of: run.codes });
  }
  const { wrong: most = 0, oneCode, others } = BOUNDS[name] ?? {};
  const share = oneCode ?? others;
  // So few markets may have one more by chance.
  const allowed = share === undefined ? (most * count) / 2_000 : share * markets;
  expect(wrong.length <= Math.ceil(allowed) ? [] : wrong).toEqual([]);
}
