import { diceOf } from '../dice.js';
import { ModelLedger } from './ledger.js';
import { Market, type MarketOptions } from './market.js';
import { BEGAN_AT, Simulation, type SimulationOptions } from './simulation.js';

export interface CheckOptions extends Partial<Omit<MarketOptions, 'valid' | 'dice'>> {
  /** Listed codes. Those that begin with `sold` are valid. */
  readonly codes: readonly string[];
  /** Forms of each, if there are several. */
  readonly forms?: readonly (readonly string[])[];
  /** Known-valid codes, the one found longest ago first. Those that begin with `gone` were refunded. */
  readonly known?: readonly string[];
  readonly foundEver?: number;
  readonly pace?: Partial<
    Pick<SimulationOptions, 'concurrency' | 'spacingMs' | 'waitMs' | 'callMs' | 'setBackAt'>
  >;
  readonly seed?: number;
}

/** Names of so many codes. */
export function named(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${name}-${n}`);
}

export interface Checked extends Simulated {
  /** Verdicts of the listed codes, by code. */
  readonly verdicts: ReadonlyMap<string, string | null>;
  /** Calls that asked no listed code in its turn: control, looks at the account, proofs. */
  readonly proofs: number;
  /** Asks in windows. */
  readonly asks: number;
}

interface Simulated {
  readonly market: Market;
  readonly ledger: ModelLedger;
  readonly simulation: Simulation;
}

/** Runs a whole check. @param codes forms of each @param known the one found longest ago first */
export async function simulate(
  codes: readonly (readonly string[])[],
  known: readonly string[],
  options: MarketOptions,
  pace: Pick<SimulationOptions, 'concurrency' | 'spacingMs' | 'waitMs' | 'callMs' | 'setBackAt'>,
  foundEver?: number,
): Promise<Simulated> {
  const { dice, items } = options;
  const market = new Market(options);
  const ledger = new ModelLedger(
    codes,
    known.map((code, n) => ({
      code,
      foundAt: BEGAN_AT - (known.length - n) * 86_400_000,
      isLive: true,
      isValid: true,
    })),
    BEGAN_AT,
    foundEver === undefined ? {} : { foundEver },
  );
  const simulation = new Simulation({ market, ledger, ...pace, ...(items && { items }), dice });
  return { market, ledger, simulation: await simulation.run() };
}

/** Runs a whole check of a list on a simulated marketplace, at 60 requests a minute unless said otherwise. */
export async function check(options: CheckOptions): Promise<Checked> {
  const { codes, forms, known = [], foundEver, pace, seed = 1, ...rest } = options;
  const valid = [...codes, ...known].filter((code) => /^(?:sold|known)/.test(code));
  const { market, ledger, simulation } = await simulate(
    forms ?? codes.map((code) => [code]),
    known,
    { items: [5, 6, 7], ...rest, valid: new Set(valid), dice: diceOf(seed) },
    { concurrency: 3, spacingMs: 1_000, ...pace },
    foundEver,
  );
  const listed = ledger.rows.filter(({ position }) => position >= 0);
  const asks = ledger.rows.reduce((sum, { denied }) => sum + (denied?.counted ?? 0), 0);
  return {
    simulation,
    ledger,
    market,
    verdicts: new Map(listed.map(({ code, verdict }) => [code, verdict])),
    proofs: market.calls - codes.length - asks,
    asks,
  };
}
