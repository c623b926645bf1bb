import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { seededCatalogue, seededPurchases, startSimulator } from '#product/simulator/index.js';
import { KEY, startProgram } from './children.js';
import { startPostgres } from './soak/servers.js';
import { bounded, information, median, type Line } from './table.js';

const ROUNDS = 7;
/** A command has made its first request to the marketplace within this, from its start (ms). */
const REQUEST_MS = 500;

/** How long commands take to start, beside Node itself; the server of their `DATA_DIR` is up. */
export async function startLines(): Promise<Line[]> {
  const postgres = await startPostgres();
  const purchases = seededPurchases({ seed: 1, count: 1 });
  const catalogue = seededCatalogue({ seed: 1, count: 20 });
  const sellers = [{ key: KEY, username: 'bench', catalogue, purchases }];
  const market = await startSimulator({ sellers });
  const env = { MARKETPLACE_URL: market.url, MARKETPLACE_API_KEY: KEY, REQUESTS_PER_MINUTE: '0' };
  const bare = [] as number[];
  const took = COMMANDS.map(times);
  const asked = COMMANDS.map(times);
  try {
    // The first round, which makes the tables, does not count.
    for (let round = 0; round <= ROUNDS; round++) {
      if (round === 1) for (const list of [bare, ...took, ...asked]) list.length = 0;
      const started = performance.now();
      await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
      bare.push(performance.now() - started);
      for (const [n, [what]] of COMMANDS.entries()) {
        const args = what.replace('CODE', purchases.codeAt(0)).split(' ');
        market.log.length = 0;
        const [from, begun] = [performance.now(), Date.now()];
        const child = startProgram(args, { DATA_DIR: postgres.folder, ...env });
        const [code] = (await once(child, 'exit')) as [number | null];
        if (code !== 0) throw new Error(`${what} ended with ${code}`);
        took[n]?.push(performance.now() - from);
        const [first] = market.log;
        if (first !== undefined) asked[n]?.push(first.at - begun);
      }
    }
  } finally {
    await market.close();
    await postgres.close();
  }
  const node = median(bare);
  const ms = (value: number): string => `${Math.round(value)} ms`;
  const line = (what: string, value: number, limit: number | null): Line => ({
    ...(limit === null ? information(what, ms(value)) : bounded(what, value, limit, ms)),
    ratio: `${(value / node).toFixed(1)} ×`,
  });
  return [
    information('node -e 0', ms(node)),
    ...COMMANDS.flatMap(([what, limit], n) => [
      line(what, median(took[n] ?? []), typeof limit === 'string' ? Number(limit) * node : limit),
      ...(asked[n]?.length ? [line(`${what}: first request`, median(asked[n]), REQUEST_MS)] : []),
    ]),
  ];
}

const times = (): number[] => [];

/** Each ends within so many milliseconds, or, as text, times of bare Node. */
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
