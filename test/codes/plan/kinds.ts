import { diceOf } from '../dice.js';
import { ModelLedger } from './ledger.js';
import { Market, type Condition, type MarketOptions, type Stretch } from './market.js';
import { BEGAN_AT, Simulation } from './simulation.js';

export type Kind = Partial<MarketOptions> & {
  /** Known-valid codes, at most; default 0 to 4. */
  readonly known?: number;
  readonly codes?: number;
  /** Makes the stretches of one market. */
  readonly weather?: (dice: () => number) => Pick<MarketOptions, 'stretches' | 'last'>;
  /** Chance that the catalogue is empty; default 0. */
  readonly noItems?: boolean;
  readonly foundEver?: number;
};

export interface Run {
  readonly simulation: Simulation;
  readonly ledger: ModelLedger;
  readonly codes: number;
  /** Codes with a verdict that is wrong. */
  readonly wrong: readonly string[];
  readonly unproven: number;
  /** Codes without a verdict: the check was given up. */
  readonly left: number;
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

/** Runs one random market of a kind. */
export function runKind(kind: Kind, seed: number): Run {
  const dice = diceOf(seed);
  // The first numbers of neighbouring seeds are alike.
  for (let n = 0; n < 8; n++) dice();
  const { known = 4, codes: most = 60, weather } = kind;
  const count = kind.codes ?? 1 + Math.floor(dice() * most);
  const codes = Array.from({ length: count }, (_, n) => {
    const kindOf = dice();
    return `${kindOf < 0.5 ? 'sold' : kindOf < 0.6 ? 'theirs' : 'no'}-${n}`;
  });
  const knownCount = kind.known ?? Math.floor(dice() * (known + 1));
  const knownCodes = Array.from({ length: knownCount }, (_, n) => `known-${n}`);
  const valid = new Set([...codes.filter((code) => code.startsWith('sold')), ...knownCodes]);
  const items = kind.noItems === true ? [] : [5, 6, 7];
  const { foundEver } = kind;
  const ledger = new ModelLedger(
    codes.map((code) => [code]),
    knownCodes.map((code, n) => ({
      code,
      foundAt: BEGAN_AT - (n + 1) * 86_400_000,
      isLive: true,
      isValid: true,
    })),
    BEGAN_AT,
    foundEver === undefined ? {} : { foundEver },
  );
  const market = new Market({
    others: new Set(codes.filter((code) => code.startsWith('theirs'))),
    items,
    ...kind,
    ...weather?.(dice),
    valid,
    dice,
  });
  const simulation = new Simulation({
    market,
    ledger,
    concurrency: pick([1, 3, 8, 25], dice),
    spacingMs: pick([0, 100, 1_000, 1_000], dice),
    items,
    dice,
  }).run();
  const listed = ledger.rows.filter(({ position }) => position >= 0);
  const wrong = ledger.rows.filter(
    ({ code, verdict }) => verdict === (valid.has(code) ? 'invalid' : 'valid'),
  );
  return {
    simulation,
    ledger,
    codes: count,
    wrong: wrong.map(({ code }) => code),
    unproven: listed.filter(({ verdict }) => verdict === 'unproven').length,
    left: listed.filter(({ verdict }) => verdict === null).length,
  };
}
