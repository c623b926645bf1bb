import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { seededPurchases, startSimulator } from '#product/simulator/index.js';
import { startProgram } from './children.js';
import { sellerSpec } from './marketplace.js';
import { startPostgres } from './servers.js';
import { bounded, information, median, milliseconds, type Line } from './table.js';

const ROUNDS = 7;
/** Maximum time from the start of a command to its first request to the marketplace (ms). */
const REQUEST_MS = 500;

/** Measures how long commands take, compared with Node itself. The server of their `DATA_DIR` is running. */
export async function startLines(): Promise<Line[]> {
  const postgres = await startPostgres();
  const purchases = seededPurchases({ seed: 1, count: 1 });
  const seller = { ...sellerSpec(0, 20), purchases };
  const market = await startSimulator({ sellers: [seller] });
  const env = {
    DATA_DIR: postgres.folder,
    MARKETPLACE_URL: market.url,
    MARKETPLACE_API_KEY: seller.key,
    REQUESTS_PER_MINUTE: '0',
  };
  const nodeTimes: number[] = [];
  const commands = COMMANDS.map(([what, limit]) => {
    const args = what.replace('CODE', purchases.codeAt(0)).split(' ');
    return { what, limit, args, times: [] as number[], requestTimes: [] as number[] };
  });
  try {
    // The first round creates the tables and does not count.
    for (let round = 0; round <= ROUNDS; round++) {
      const counts = round > 0;
      const started = performance.now();
      await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
      if (counts) nodeTimes.push(performance.now() - started);
      for (const { what, args, times, requestTimes } of commands) {
        market.log.length = 0;
        const [from, startedAt] = [performance.now(), Date.now()];
        const [code] = (await once(startProgram(args, env), 'exit')) as [number | null];
        if (code !== 0) throw new Error(`${what} ended with ${code}`);
        if (counts) times.push(performance.now() - from);
        const [first] = market.log;
        if (counts && first !== undefined) requestTimes.push(first.at - startedAt);
      }
    }
  } finally {
    await market.close();
    await postgres.close();
  }
  const node = median(nodeTimes);
  const line = (what: string, value: number, limit: number | null): Line => ({
    ...bounded(what, value, limit, milliseconds),
    ratio: `${(value / node).toFixed(1)} ×`,
  });
  return [
    information('node -e 0', milliseconds(node)),
    ...commands.flatMap(({ what, limit, times, requestTimes }) => [
      line(what, median(times), typeof limit === 'string' ? Number(limit) * node : limit),
      ...(requestTimes.length > 0
        ? [line(`${what}: first request`, median(requestTimes), REQUEST_MS)]
        : []),
    ]),
  ];
}

/** Commands with their maximum time: a number in milliseconds, a text as a multiple of Node's own time. */
const COMMANDS: readonly (readonly [what: string, limit: number | string | null])[] = [
  ['sync', null],
  ['codes check CODE', null],
  ['--version', '2'],
  ['--help', '3'],
  ['codes check --help', '3'],
  ['sql values(1)', 400],
  ['items --limit 5', 400],
  ['status', 400],
];
