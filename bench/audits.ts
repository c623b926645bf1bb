import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededPurchases } from '#product/simulator/index.js';
import {
  interruption,
  KEY,
  measureBaseline,
  measureProgram,
  startProgram,
  withMarketplace,
  type Settings,
} from './children.js';
import type { MarketplaceInput, MarketplaceState } from './marketplace.js';
import { forget, startPostgres, startRedis, withClient, type Redis } from './soak/servers.js';
import {
  atLeast,
  atMost,
  bounded,
  count,
  information,
  median,
  megabytes,
  seconds,
  times,
  type Line,
} from './table.js';

const CODES = 20_000;
const MILLION = 1_000_000;
/** Audits of each kind, whose median counts. */
const ROUNDS = 5;
const LIMITED_CODES = 600;
const PER_MINUTE = 600;
/** What a marketplace takes to reply at the very least that is not on the same machine, milliseconds. */
const LATENCY_MS = 20;
const DISTANT_CODES = 10_000;
/** Calls that one chunk keeps under way with an unlimited budget. */
const CONCURRENCY = 48;
const LOOK_MS = 250;

/** Measures audits of purchase codes against plain ways of doing the same. */
export async function auditLines(million: boolean): Promise<Line[]> {
  const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
  if (!hasRedis) say('redis-server is not there: its lines are left out');
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-bench-codes-'));
  const postgres = await startPostgres();
  const redis = hasRedis ? await startRedis() : null;
  try {
    const rounds = new AuditRounds(folder, postgres.url, redis);
    return [
      ...(await rounds.unlimited()),
      ...(await rounds.distant()),
      ...(await rounds.limited()),
      ...(million ? await rounds.million() : []),
    ];
  } finally {
    await redis?.close();
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function say(text: string): void {
  process.stderr.write(`  ${text}\n`);
}

/** The marketplace of one measurement, with the list of codes to check there. */
interface Market {
  readonly url: string;
  /** The list, a code a line. */
  readonly file: string;
  readonly codes: number;
  /** What it has seen since the last time this was asked. */
  readonly seen: () => Promise<MarketplaceState>;
}

class AuditRounds {
  constructor(
    readonly folder: string,
    readonly databaseUrl: string,
    readonly redis: Redis | null,
  ) {}

  async unlimited(): Promise<Line[]> {
    const { bare, audits } = await this.#compare({ codes: CODES }, this.#queues, ROUNDS);
    const lines = audits.map(({ queue, rate, ratio }) => {
      const what = `Audit of ${count(CODES)} codes, queue in ${queue}`;
      return atLeast(what, perSecond(rate), ratio, 0.6, 'the bare loop');
    });
    return [information('Baseline: bare undici loop', perSecond(bare)), ...lines];
  }

  /** The same where the network, and not the processors, is waited for. */
  async distant(): Promise<Line[]> {
    const market = { codes: DISTANT_CODES, latencyMs: LATENCY_MS };
    const { bare, audits } = await this.#compare(market, this.#queues.slice(0, 1), 1);
    const late = `replies after ${LATENCY_MS} ms`;
    const what = `Audit of ${count(DISTANT_CODES)} codes, ${late}`;
    const lines = audits.map(({ rate, ratio }) => information(what, perSecond(rate), times(ratio)));
    return [information(`Baseline: bare undici loop, ${late}`, perSecond(bare)), ...lines];
  }

  /** Redis first, where it is there; null stands for PostgreSQL. */
  get #queues(): readonly (Redis | null)[] {
    return this.redis === null ? [null] : [this.redis, null];
  }

  /** Audits without a budget, each between two bare loops; codes a second, medians. */
  async #compare(input: MarketInput, queues: readonly (Redis | null)[], rounds: number) {
    return await this.#withMarket(input, 10, async (market) => {
      const bares = [await bareRate(market)];
      const audits = queues.map((redis) => {
        const queue = redis === null ? 'PostgreSQL' : 'Redis';
        return { redis, queue, rates: [] as number[], ratios: [] as number[] };
      });
      for (let round = 0; round < rounds; round++) {
        for (const { redis, queue, rates, ratios } of audits) {
          await this.#audit(market, redis, 0);
          const { ms, calls } = await market.seen();
          const rate = (market.codes * 1000) / ms;
          say(`audit on ${queue}: ${perSecond(rate)}, ${calls} calls`);
          const [before, after] = [bares.at(-1) ?? 0, await bareRate(market)];
          bares.push(after);
          rates.push(rate);
          // Machines are not equally fast at all times: the loops just before and after count.
          ratios.push((2 * rate) / (before + after));
        }
      }
      const medians = audits.map(({ queue, rates, ratios }) => {
        return { queue, rate: median(rates), ratio: median(ratios) };
      });
      return { bare: median(bares), audits: medians };
    });
  }

  async limited(): Promise<Line[]> {
    const input = { codes: LIMITED_CODES, requestsPerMinute: PER_MINUTE };
    return await this.#withMarket(input, Infinity, async (market) => {
      await this.#audit(market, this.redis, PER_MINUTE);
      const { ms, calls, limited } = await market.seen();
      const least = ((LIMITED_CODES - 1) * 60_000) / PER_MINUTE;
      say(`at ${PER_MINUTE} a minute: ${seconds(ms)}, ${calls} calls, ${limited} times 429`);
      const what = `${LIMITED_CODES} codes at ${PER_MINUTE} requests a minute`;
      const ratio = calls / LIMITED_CODES;
      return [
        atMost(what, seconds(ms), ms / least, 1.03, 'the least possible'),
        atMost('Calls of these, proofs included', String(calls), ratio, 1.03, 'the codes'),
        bounded('Replies 429', limited, 0),
      ];
    });
  }

  /** What it takes to enqueue a million codes, beside a bare COPY of their lines. */
  async million(): Promise<Line[]> {
    const { databaseUrl, redis } = this;
    return await this.#withMarket({ codes: MILLION }, Infinity, async (market) => {
      const { file } = market;
      await withClient(databaseUrl, (client) =>
        client.query('CREATE TABLE bench_lines (code text)'),
      );
      const into = 'bench_lines FROM STDIN';
      const bare = await measureBaseline('copy', { listUrl: null, databaseUrl, file, into });
      await withClient(databaseUrl, (client) => client.query('DROP TABLE bench_lines'));
      const before = await redis?.usedMemory();
      const check = ['codes', 'check', file, '--detach', '--json'];
      const { ms, peak } = await measureProgram(check, this.#settings(market, redis, 0));
      const after = await redis?.usedMemory();
      say(`a million codes enqueued: ${seconds(ms)}, ${megabytes(peak)}`);
      const ratio = `${times(ms / bare.ms)} a bare COPY (${seconds(bare.ms)})`;
      const lines = [
        information('1,000,000 codes: read, stored and enqueued', seconds(ms), ratio),
        bounded('Peak memory of that', peak, 200e6, megabytes),
      ];
      if (before === undefined || after === undefined) return lines;
      const inRedis = bounded('What they take in Redis', after - before, 20e6, megabytes);
      return [...lines, inRedis];
    });
  }

  #settings(market: Market, redis: Redis | null, perMinute: number): Settings {
    return {
      HOME: this.folder,
      DATABASE_URL: this.databaseUrl,
      ...(redis === null ? {} : { REDIS_URL: redis.url }),
      MARKETPLACE_URL: market.url,
      MARKETPLACE_API_KEY: KEY,
      REQUESTS_PER_MINUTE: String(perMinute),
      WORKER_CONCURRENCY: '1',
      HEALTH_LISTEN: 'off',
    };
  }

  /**
   * From nothing known of any code to the end of the audit, worked on by a worker. Each code is asked
   * for once: a second look would begin a minute later.
   */
  async #audit(market: Market, redis: Redis | null, perMinute: number): Promise<void> {
    await forget(this.databaseUrl);
    const settings = this.#settings(market, redis, perMinute);
    const check = ['codes', 'check', market.file, '--confirm', 'none', '--detach', '--json'];
    await measureProgram(check, settings);
    const worker = startProgram(['worker'], settings);
    const gone = once(worker, 'exit');
    const running = "SELECT FROM mirror.audits WHERE state = 'running'";
    try {
      await withClient(this.databaseUrl, async (client) => {
        while (((await client.query(running)).rowCount ?? 0) > 0) {
          await sleep(LOOK_MS, undefined, { signal: interruption.signal });
        }
      });
    } finally {
      worker.kill('SIGTERM');
      await gone;
    }
  }

  /** Runs `work` with a marketplace of its own; every so many codes in its list, one is invalid. */
  async #withMarket<T>(
    input: MarketInput,
    invalidEvery: number,
    work: (market: Market) => Promise<T>,
  ): Promise<T> {
    const { codes } = input;
    const file = join(this.folder, `codes-${codes}.txt`);
    const [own, other] = [1, 2].map((seed) => seededPurchases({ seed, count: codes }));
    const list = Array.from({ length: codes }, (_, index) =>
      ((index + 1) % invalidEvery === 0 ? other : own)?.codeAt(index),
    );
    writeFileSync(file, `${list.join('\n')}\n`);
    return await withMarketplace({ items: 200, ...input }, ({ state, tell }) =>
      work({ url: state.url, file, codes, seen: () => tell({ kind: 'look' }) }),
    );
  }
}

/** No limit and no latency unless given. */
type MarketInput = Pick<MarketplaceInput, 'requestsPerMinute' | 'latencyMs'> & {
  readonly codes: number;
};

async function bareRate({ url, file, codes, seen }: Market): Promise<number> {
  const input = { url, key: KEY, file, concurrency: CONCURRENCY };
  const { ms } = await measureBaseline('validate', input);
  await seen();
  const rate = (codes * 1000) / ms;
  say(`bare loop: ${perSecond(rate)}`);
  return rate;
}

function perSecond(rate: number): string {
  return `${Math.round(rate)} codes/s`;
}
