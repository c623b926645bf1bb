/** The simulated marketplace with purchases, a process of its own. */
import { writeFileSync } from 'node:fs';
import type * as SimulatorModule from '../../src/simulator/index.js';
import { product } from '../product.js';
import { given } from '../tell.js';

export interface CodeMarketInput {
  readonly key: string;
  readonly codes: number;
  /** Of the codes in the list, percent that are not the seller's. */
  readonly invalidPercent: number;
  readonly requestsPerMinute: number;
  /** How long each reply is held back, milliseconds. */
  readonly latencyMs: number;
  /** Where the list is written, a code a line. */
  readonly file: string;
}

export interface CodeMarketReady {
  readonly url: string;
}

/** What it has seen of validations, asked for by any message. */
export interface Seen {
  readonly calls: number;
  readonly validations: number;
  readonly limited: number;
  /** From the first validation to the end of the last, milliseconds. */
  readonly ms: number;
}

const { seededCatalogue, seededPurchases, startSimulator } = (await product(
  'simulator/index.js',
)) as typeof SimulatorModule;

const { key, codes, invalidPercent, requestsPerMinute, latencyMs, file } =
  given() as CodeMarketInput;
const purchases = seededPurchases({ seed: 1, count: codes });
let [first, last] = [0, 0];
const seen = { calls: 0, validations: 0, limited: 0 };
const server = await startSimulator({
  sellers: [
    { key, username: 'bench', catalogue: seededCatalogue({ seed: 1, count: 200 }), purchases },
  ],
  requestsPerMinute,
  onAnswered: ({ operation, at, status }) => {
    seen.calls++;
    if (status === 429) seen.limited++;
    if (operation !== 'validate') return;
    seen.validations++;
    first ||= at;
    last = Date.now();
  },
});
if (latencyMs > 0) server.faults.always('any', { kind: 'stall', ms: latencyMs });
const other = seededPurchases({ seed: 2, count: codes });
const every = invalidPercent === 0 ? Infinity : Math.round(100 / invalidPercent);
const lines: string[] = [];
for (let index = 0; index < codes; index++) {
  lines.push(index % every === every - 1 ? other.codeAt(index) : purchases.codeAt(index));
}
writeFileSync(file, `${lines.join('\n')}\n`);

process.on('message', () => {
  process.send?.({ ...seen, ms: last - first } satisfies Seen);
  Object.assign(seen, { calls: 0, validations: 0, limited: 0 });
  [first, last] = [0, 0];
  server.log.length = 0;
});
process.on('SIGINT', () => undefined);
process.once('disconnect', () => void server.close());
process.send?.({ url: server.url } satisfies CodeMarketReady);
