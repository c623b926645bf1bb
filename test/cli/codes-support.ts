import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { seededCatalogue, seededPurchases, type Simulator } from '../../src/simulator/index.js';
import { KEY, type Mirror } from '../support/mirror.js';
import { folder } from './support.js';

/** A marketplace with purchases, some of which were refunded. */
export async function codesMarket(
  mirror: Mirror,
  { purchases = 200, requestsPerMinute = 0 } = {},
): Promise<Simulator> {
  const simulator = await mirror.simulate({
    requestsPerMinute,
    sellers: [
      {
        key: KEY,
        username: 'ada',
        catalogue: seededCatalogue({ seed: 3, count: 20 }),
        purchases: seededPurchases({ seed: 5, count: purchases }),
      },
    ],
  });
  const own = simulator.seller(KEY).purchases;
  for (let n = 0; n < purchases; n += 10) own.setState(own.codeAt(n), 'refunded');
  return simulator;
}

/** The first codes that the marketplace ever gave out. */
export function codesOf(simulator: Simulator, count: number): string[] {
  const { purchases } = simulator.seller(KEY);
  return Array.from({ length: count }, (_, n) => purchases.codeAt(n));
}

/** What the marketplace holds of a code: the truth that verdicts are measured by. */
export function isValid(simulator: Simulator, code: string): boolean {
  const { purchases, catalogue } = simulator.seller(KEY);
  return purchases.find(code, catalogue)?.state === 'valid';
}

/** Codes that were asked for, as often as they were. */
export function askedFor(simulator: Simulator): string[] {
  return simulator.log
    .filter(({ operation }) => operation === 'validate')
    .map(({ parameters }) => parameters['purchase_code'] ?? '');
}

let files = 0;

/** A file of its own in the folder of the test. */
export function fileWith(text: string, ending = 'csv'): string {
  const path = join(folder(), `list-${++files}.${ending}`);
  writeFileSync(path, text);
  return path;
}

/** A path in the folder of the test where nothing is yet. */
export function freePath(ending: string): string {
  return join(folder(), `result-${++files}.${ending}`);
}

/** Rows of simple CSV without quotes. */
export function cellsOf(csv: string): string[][] {
  return csv
    .trimEnd()
    .split('\r\n')
    .map((line) => line.split(','));
}
