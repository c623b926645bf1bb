import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Fault, SellerSpec, Simulator } from '#product/simulator/index.js';
import { pick, type Random } from '../setup.js';

/**
 * Faults of single calls, in every form of the simulator except two. No rule can distinguish a single `key-refused` answer
 * between good calls from a true denial: longer failures of the key are in `outagesOf`. And a bot challenge stops all calls
 * for ten minutes, so it comes once, if there is time for it.
 */
function singleFaults(elsewhere: string): readonly Fault[] {
  return [
    { kind: 'rate-limited', body: 'json', retryAfter: 1 },
    { kind: 'rate-limited', body: 'html', retryAfter: 2, form: 'date' },
    ...[500, 502, 503, 504].flatMap((status): Fault[] => [
      { kind: 'server-error', status, body: 'json', echo: true },
      { kind: 'server-error', status, body: 'html', echo: true },
    ]),
    { kind: 'maintenance', body: 'html', retryAfter: 1 },
    { kind: 'maintenance', body: 'json', retryAfter: 2, form: 'date' },
    { kind: 'maintenance', body: 'json', retryAfter: null },
    { kind: 'maintenance-redirect' },
    { kind: 'switched-off', body: 'json' },
    { kind: 'switched-off', body: 'html' },
    ...[200, 400, 401, 403, 404, 422, 500].map((status): Fault => ({ kind: 'html', status })),
    ...[200, 404, 500].map((status): Fault => ({ kind: 'empty', status })),
    ...each('array', 'string', 'null', 'number').map(
      (json) => ({ kind: 'wrong-type', json }) as const,
    ),
    { kind: 'reply', status: 404, body: '{"message":"Not found"}' },
    { kind: 'reply', status: 200, body: '{"status":"success","data":{"purchase":{}}}' },
    { kind: 'reply', status: 200, body: '{"status":"success"}' },
    { kind: 'redirect', to: 'trailing-slash' },
    { kind: 'redirect', to: 'trailing-slash', status: 308 },
    { kind: 'redirect', to: 'home' },
    { kind: 'redirect', to: 'origin', origin: elsewhere, status: 307 },
    { kind: 'redirect', to: 'https', port: 9 },
    ...each('EN', 'de', 'ja').map((language) => ({ kind: 'translated', language }) as const),
    ...each('bom', 'whitespace', 'php-warnings').map((text) => ({ kind: 'prefix', text }) as const),
    ...each('destroy', 'clean', 'short').map(
      (how) => ({ kind: 'truncate', how, fraction: 0.6 }) as const,
    ),
    { kind: 'slow', chunkBytes: 200, pauseMs: 30 },
    { kind: 'stall', ms: 1_500 },
    { kind: 'reset' },
    { kind: 'reset', afterBytes: 40 },
    ...each('gzip', 'br', 'deflate').map((encoding) => ({ kind: 'encoding', encoding }) as const),
  ];
}

function each<T extends string>(...words: T[]): T[] {
  return words;
}

/** Each of these stops all calls for a minute, so each is used once. */
const RARE: readonly Fault[] = [
  { kind: 'rate-limited', body: 'html', retryAfter: null },
  { kind: 'reply', status: 429, body: '<h1>Too Many Requests</h1>' },
];

/** Makes random calls fail, and counts the faults. */
export class FaultInjector {
  /** Number of faults by their name. */
  readonly faults: Record<string, number> = {};
  /** Requests that followed a redirect to another origin; there must be none. */
  elsewhere = 0;
  readonly #trap: Server;
  readonly #rare = [...RARE];

  /** @param onRare called with the name of a fault that stops all calls for a while */
  constructor(
    readonly simulator: Simulator,
    readonly random: Random,
    readonly onRare: (what: string) => void,
  ) {
    this.#trap = createServer((_, response) => {
      this.elsewhere++;
      response.end('{"status":"success"}');
    });
  }

  /** Makes this share of the calls fail from now on. */
  async start(percent: number): Promise<void> {
    await once(this.#trap.listen(0, '127.0.0.1'), 'listening');
    const { port } = this.#trap.address() as AddressInfo;
    const faults = singleFaults(`http://127.0.0.1:${port}`);
    const { simulator, random } = this;
    const next = (): void => {
      const gap = Math.ceil(Math.log(1 - random()) / Math.log(1 - percent / 100)) - 1;
      simulator.afterRequests(gap, () => {
        const rare = random() < 0.004 ? this.#rare.pop() : undefined;
        const fault = rare ?? pick(random, faults);
        const name = nameOf(fault);
        if (rare !== undefined) this.onRare(`all calls stop for a minute: ${name}`);
        this.faults[name] = (this.faults[name] ?? 0) + 1;
        simulator.faults.next('any', fault);
        next();
      });
    };
    next();
  }

  async close(): Promise<void> {
    this.#trap.closeAllConnections();
    this.#trap.close();
    await once(this.#trap, 'close');
  }
}

/** `rate-limited, body json, retryAfter 1` */
function nameOf({ kind, ...rest }: Fault): string {
  const { origin: _, ...shown } = rest as Record<string, string | number | boolean | null>;
  const parts = Object.entries(shown).map(
    ([name, value]) => `${name} ${String(value).slice(0, 30)}`,
  );
  return [kind, ...parts].join(', ');
}

/** A time in which all calls fail. */
interface Outage {
  readonly name: string;
  /** The outage begins when this share of the codes has been checked. */
  readonly at: number;
  readonly seconds: number;
  readonly begin: () => void;
  readonly end: () => void;
}

/** Minutes that a bot challenge stops all calls, and twice that: one may come before it is over. */
const CHALLENGE_MINUTES = 25;

/**
 * @param seller the seller to restore after its key was revoked
 * @param minutes that the soak may take
 */
export function outagesOf(
  simulator: Simulator,
  seller: SellerSpec,
  minutes: number,
): readonly Outage[] {
  const all = (fault: Fault): Pick<Outage, 'begin' | 'end'> => ({
    begin: () => simulator.faults.always('any', fault),
    end: () => simulator.faults.clear(),
  });
  const setSells = (sells: boolean) => () => {
    simulator.seller(seller.key).sells = sells;
  };
  const revoked = {
    name: 'key revoked',
    begin: () => simulator.revoke(seller.key),
    end: () => void simulator.addSeller(seller),
  };
  const maintenance = all({ kind: 'maintenance', retryAfter: 5 });
  const switchedOff = all({ kind: 'switched-off', body: 'html' });
  const challenged = {
    name: 'bot challenge for all',
    at: 0.9,
    seconds: 3,
    ...all({ kind: 'challenge' }),
  };
  return [
    {
      name: 'the key sells nothing',
      at: 0.12,
      seconds: 8,
      begin: setSells(false),
      end: setSells(true),
    },
    { name: '500 for all', at: 0.25, seconds: 10, ...all({ kind: 'server-error' }) },
    { name: 'key refused', at: 0.35, seconds: 8, ...all({ kind: 'key-refused' }) },
    { at: 0.5, seconds: 40, ...revoked },
    { name: 'maintenance for all', at: 0.62, seconds: 10, ...maintenance },
    { name: 'API switched off', at: 0.7, seconds: 8, ...switchedOff },
    { at: 0.8, seconds: 8, ...revoked },
    ...(minutes < CHALLENGE_MINUTES ? [] : [challenged]),
  ];
}
