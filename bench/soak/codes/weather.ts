import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type * as SimulatorModule from '../../../src/simulator/index.js';
import { between, pick, type Random } from '../random.js';

type Fault = SimulatorModule.Fault;

/**
 * Faults of single calls, in every form the simulator has, but for one: a single call answered as if
 * the key were unknown, with good calls around it, can't be told from a true denial by any rule. Keys
 * that are bad for a stretch of time are in `STRETCHES`.
 */
function faultsOfCalls(elsewhere: string): readonly Fault[] {
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
    { kind: 'challenge', status: 403 },
    { kind: 'challenge', status: 503 },
    ...[200, 400, 401, 403, 404, 422, 500].map((status): Fault => ({ kind: 'html', status })),
    ...[200, 404, 500].map((status): Fault => ({ kind: 'empty', status })),
    ...(['array', 'string', 'null', 'number'] as const).map((json): Fault => ({
      kind: 'wrong-type',
      json,
    })),
    { kind: 'reply', status: 404, body: '{"message":"Not found"}' },
    { kind: 'reply', status: 200, body: '{"status":"success","data":{"purchase":{}}}' },
    { kind: 'reply', status: 200, body: '{"status":"success"}' },
    { kind: 'redirect', to: 'trailing-slash' },
    { kind: 'redirect', to: 'trailing-slash', status: 308 },
    { kind: 'redirect', to: 'home' },
    { kind: 'redirect', to: 'origin', origin: elsewhere, status: 307 },
    { kind: 'redirect', to: 'https', port: 9 },
    ...(['EN', 'de', 'ja'] as const).map((language): Fault => ({ kind: 'translated', language })),
    ...(['bom', 'whitespace', 'php-warnings'] as const).map((text): Fault => ({
      kind: 'prefix',
      text,
    })),
    ...(['destroy', 'clean', 'short'] as const).map((how): Fault => ({
      kind: 'truncate',
      how,
      fraction: 0.6,
    })),
    { kind: 'slow', chunkBytes: 200, pauseMs: 30 },
    { kind: 'stall', ms: 1_500 },
    { kind: 'reset' },
    { kind: 'reset', afterBytes: 40 },
    ...(['gzip', 'br', 'deflate'] as const).map((encoding): Fault => ({
      kind: 'encoding',
      encoding,
    })),
  ];
}

/** They stop everything for a minute, so there are only a few. */
const RARE: readonly Fault[] = [
  { kind: 'challenge', status: 429 },
  { kind: 'rate-limited', body: 'html', retryAfter: null },
  { kind: 'reply', status: 429, body: '<h1>Too Many Requests</h1>' },
];

/** Something that is wrong for a while. */
export interface Stretch {
  readonly name: string;
  /** Begins when this share of the codes is settled. */
  readonly at: number;
  readonly seconds: number;
  readonly begin: () => void;
  readonly end: () => void;
}

/** Gives calls their faults, counts them, and has stretches of time in which all calls go wrong. */
export class Weather {
  readonly faults: Record<string, number> = {};
  /** Requests that came where a redirect led to; there must be none. */
  elsewhere = 0;
  readonly #simulator: SimulatorModule.Simulator;
  readonly #random: Random;
  readonly #trap: Server;
  readonly #faults: readonly Fault[];
  #rare = [...RARE];
  readonly #onRare: (what: string) => void;
  #gap: () => number = () => Infinity;

  private constructor(
    simulator: SimulatorModule.Simulator,
    random: Random,
    trap: Server,
    onRare: (what: string) => void,
  ) {
    this.#simulator = simulator;
    this.#random = random;
    this.#onRare = onRare;
    this.#trap = trap;
    const { port } = trap.address() as AddressInfo;
    this.#faults = faultsOfCalls(`http://127.0.0.1:${port}`);
  }

  /** @param onRare told of faults that stop everything for a while */
  static async over(
    simulator: SimulatorModule.Simulator,
    random: Random,
    onRare: (what: string) => void,
  ): Promise<Weather> {
    const trap = createServer((_, response) => {
      weather.elsewhere++;
      response.end('{"status":"success"}');
    }).listen(0, '127.0.0.1');
    await once(trap, 'listening');
    const weather = new Weather(simulator, random, trap, onRare);
    return weather;
  }

  get total(): number {
    return Object.values(this.faults).reduce((sum, one) => sum + one, 0);
  }

  /** From now on so many of a hundred calls meet a fault. */
  begin(percent: number): void {
    this.#gap = () => Math.ceil(Math.log(1 - this.#random()) / Math.log(1 - percent / 100)) - 1;
    this.#next();
  }

  #next(): void {
    this.#simulator.afterRequests(this.#gap(), () => {
      const rare = this.#random() < 0.004 ? this.#rare.pop() : undefined;
      const fault = rare ?? pick(this.#random, this.#faults);
      if (rare !== undefined) this.#onRare(`for a minute: ${nameOf(rare)}`);
      this.faults[nameOf(fault)] = (this.faults[nameOf(fault)] ?? 0) + 1;
      this.#simulator.faults.next('any', fault);
      this.#next();
    });
  }

  /** How long, milliseconds. */
  between(least: number, most: number): number {
    return between(this.#random, least, most);
  }

  async close(): Promise<void> {
    this.#trap.closeAllConnections();
    this.#trap.close();
    await once(this.#trap, 'close');
  }
}

function nameOf(fault: Fault): string {
  switch (fault.kind) {
    case 'rate-limited':
      return `429 ${fault.body}, Retry-After ${fault.retryAfter === null ? 'none' : (fault.form ?? 'seconds')}`;
    case 'server-error':
      return `${fault.status} ${fault.body}`;
    case 'html':
    case 'empty':
    case 'challenge':
      return `${fault.kind} ${fault.status}`;
    case 'reply':
      return `${fault.status} ${fault.body.slice(0, 30)}`;
    case 'redirect':
      return `redirect to ${fault.to}`;
    case 'translated':
      return `translated ${fault.language}`;
    case 'truncate':
      return `cut off, ${fault.how}`;
    case 'encoding':
      return fault.encoding;
    case 'prefix':
      return `${typeof fault.text === 'string' ? fault.text : 'text'} before the body`;
    default:
      return fault.kind;
  }
}

/** @param seller as it is to be when the key works again */
export function stretchesOf(
  simulator: SimulatorModule.Simulator,
  seller: SimulatorModule.SellerSpec,
): readonly Stretch[] {
  const { faults } = simulator;
  const all = (fault: Fault) => () => faults.always('any', fault);
  const end = (): void => faults.clear();
  const key = {
    begin: () => simulator.revoke(seller.key),
    end: () => void simulator.addSeller(seller),
  };
  const refused = all({ kind: 'key-refused' });
  return [
    { name: 'the key sells nothing', at: 0.12, seconds: 8, ...sellsNothing(simulator, seller.key) },
    { name: '500 for all', at: 0.25, seconds: 10, begin: all({ kind: 'server-error' }), end },
    { name: 'answers as to a wrong key', at: 0.35, seconds: 8, begin: refused, end },
    { name: 'key revoked', at: 0.5, seconds: 40, ...key },
    {
      name: 'maintenance for all',
      at: 0.62,
      seconds: 10,
      begin: all({ kind: 'maintenance', retryAfter: 5 }),
      end,
    },
    {
      name: 'API switched off',
      at: 0.7,
      seconds: 8,
      begin: all({ kind: 'switched-off', body: 'html' }),
      end,
    },
    { name: 'key revoked', at: 0.8, seconds: 8, ...key },
    { name: 'bot challenge for all', at: 0.9, seconds: 3, begin: all({ kind: 'challenge' }), end },
  ];
}

function sellsNothing(
  simulator: SimulatorModule.Simulator,
  key: string,
): Pick<Stretch, 'begin' | 'end'> {
  const set = (sells: boolean) => () => {
    simulator.seller(key).sells = sells;
  };
  return { begin: set(false), end: set(true) };
}
