import { diceOf } from '../dice.js';
import { simulate } from './check.js';
import type { Condition, MarketOptions, Stretch } from './market.js';
import type { Simulation } from './simulation.js';

export type Kind = Partial<Omit<MarketOptions, 'valid' | 'dice'>> & {
  /** Known-valid codes; default 0 to 4. */
  readonly known?: number;
  /** Listed codes; default 1 to 60. */
  readonly codes?: number;
  readonly foundEver?: number;
  /** Makes the stretches of one market. */
  readonly weather?: (dice: () => number) => Pick<MarketOptions, 'stretches' | 'last'>;
};

export interface Run {
  readonly simulation: Simulation;
  readonly codes: number;
  /** Codes with a verdict that is wrong. */
  readonly wrong: readonly string[];
}

const BAD: readonly Condition[] = [
  'revoked',
  'other-seller',
  'sells-nothing',
  'page',
  'down',
  'swapped',
];

function pick<T>(values: readonly T[], dice: () => number): T {
  return values[Math.floor(dice() * values.length)] as T;
}

/** Good and bad stretches in turn, each of 1 to 60 calls. */
export function stretches(
  conditions: readonly Condition[] = BAD,
): (dice: () => number) => { stretches: readonly Stretch[] } {
  return (dice) => ({
    stretches: Array.from({ length: Math.floor(dice() * 8) }, () => ({
      calls: 1 + Math.floor(dice() * 60),
      condition: dice() < 0.5 ? 'good' : pick(conditions, dice),
    })),
  });
}

/** From some call on the key is bad for good. */
export function dies(
  conditions: readonly Condition[],
): (dice: () => number) => { stretches: readonly Stretch[]; last: Condition } {
  return (dice) => ({
    stretches: [{ calls: Math.floor(dice() * 150), condition: 'good' }],
    last: pick(conditions, dice),
  });
}

const KEY_FAULTS: readonly Condition[] = ['revoked', 'other-seller', 'sells-nothing'];

/** Every kind of random market, by what is wrong with it. */
export const KINDS: Readonly<Record<string, Kind>> = {
  'nothing is wrong': {},
  'one call in nine is denied': { deniedShare: 1 / 9 },
  'one call in three is denied': { deniedShare: 1 / 3 },
  'one machine in nine denies all': { machines: 9 },
  'false denials and other faults for a stretch': { weather: stretches() },
  'false denials for a stretch': { weather: stretches(['sells-nothing']) },
  'the key dies, is swapped, or sells nothing from some call on': { weather: dies(KEY_FAULTS) },
  'the key is bad from the beginning': {
    weather: (dice) => ({ stretches: [], last: pick(KEY_FAULTS, dice) }),
  },
  'account details are cached while the key dies': {
    accountCached: true,
    weather: dies(KEY_FAULTS),
  },
  'a hidden cache stands in front of a key that dies': {
    cache: 'by-address',
    weather: dies(KEY_FAULTS),
  },
  'a cache that says so stands in front of a key that dies': {
    cache: 'says-so',
    weather: dies(KEY_FAULTS),
  },
  'a hidden cache, and 20 known codes': {
    cache: 'by-address',
    known: 20,
    weather: dies(KEY_FAULTS),
  },
  'a cache that says so, and 20 known codes': {
    cache: 'says-so',
    known: 20,
    weather: dies(KEY_FAULTS),
  },
  'replies of two calls are swapped': { weather: () => ({ last: 'swapped' }) },
  'replies are swapped for a stretch': { weather: stretches(['swapped']) },
  'successes carry no purchase': { emptyPurchases: true },
  'the marketplace finds everything': { findsEverything: true },
};

/** One random market of a kind, and the list to check there. */
export interface Case {
  readonly codes: readonly string[];
  readonly known: readonly string[];
  /** As the market is while the list is checked. */
  readonly market: MarketOptions;
  readonly foundEver: number | undefined;
  readonly dice: () => number;
}

/** Items that are for sale. */
const ITEMS = [5, 6, 7];

export function caseOf(kind: Kind, seed: number): Case {
  const dice = diceOf(seed);
  // The first numbers of neighbouring seeds are alike.
  for (let n = 0; n < 8; n++) dice();
  const { weather, codes: size, known: knownSize, foundEver, ...rest } = kind;
  const count = size ?? 1 + Math.floor(dice() * 60);
  const codes = Array.from({ length: count }, (_, n) => {
    const kindOf = dice();
    return `${kindOf < 0.5 ? 'sold' : kindOf < 0.6 ? 'theirs' : 'no'}-${n}`;
  });
  const known = Array.from({ length: knownSize ?? Math.floor(dice() * 5) }, (_, n) => `known-${n}`);
  const valid = new Set([...codes.filter((code) => code.startsWith('sold')), ...known]);
  const others = new Set(codes.filter((code) => code.startsWith('theirs')));
  const market = { items: ITEMS, others, ...rest, ...weather?.(dice), valid, dice };
  return { codes, known, market, foundEver, dice };
}

/** Checks the list of one random market of a kind. */
export async function runKind(kind: Kind, seed: number): Promise<Run> {
  const { codes, known, market, foundEver, dice } = caseOf(kind, seed);
  const { ledger, simulation } = await simulate(
    codes.map((code) => [code]),
    known,
    market,
    {
      concurrency: pick([1, 3, 8, 25], dice),
      spacingMs: pick([0, 100, 1_000, 1_000], dice),
    },
    foundEver,
  );
  const wrong = ledger.rows.filter(
    ({ code, verdict }) => verdict === (market.valid.has(code) ? 'invalid' : 'valid'),
  );
  return { simulation, codes: codes.length, wrong: wrong.map(({ code }) => code) };
}
