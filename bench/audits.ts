import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { to as copyTo } from 'pg-copy-streams';
import { seededPurchases } from '#product/simulator/index.js';
import {
  interruption,
  KEY,
  measureBaseline,
  measureProgram,
  startProgram,
  withMarketplace,
  type Measured,
  type Settings,
} from './children.js';
import type { MarketplaceInput, MarketplaceState } from './marketplace.js';
import {
  forget,
  startPostgres,
  startRedis,
  withClient,
  type Postgres,
  type Redis,
} from './soak/servers.js';
import {
  atLeast,
  atMost,
  bounded,
  count,
  information,
  median,
  megabytes,
  say,
  seconds,
  times,
  type Line,
} from './table.js';

const CODES = 20_000;
const MILLION = 1_000_000;
/** Times that a million codes are taken in, of which the median counts. */
const LOADS = 3;
/** What a list is taken into, besides a row of `mirror.audits`. */
const LIST_TABLES = ['purchase_codes', 'audit_codes', 'audit_chunks', 'audit_entries'];
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
/** How long a large audit is worked on, milliseconds. */
const WORKED_MS = 60_000;
/** Lines that are written at a time. */
const AT_ONCE = 100_000;

/** Measures audits of purchase codes against plain ways of doing the same. */
export function auditLines(million: boolean): Promise<Line[]> {
  return withAuditRounds(async (rounds) => [
    ...(await rounds.unlimited()),
    ...(await rounds.distant()),
    ...(await rounds.limited()),
    ...(million ? await rounds.million() : []),
  ]);
}

/** One audit of so many codes beside one of a hundredth: all taken in, and worked on for a minute. */
export function largeAuditLines(codes: number): Promise<Line[]> {
  return withAuditRounds(async (rounds) => {
    const few = await rounds.large(codes / 100);
    const { own, bytes, rate } = await rounds.large(codes);
    const slower = own.cpuMs / (100 * few.own.cpuMs);
    const [name, small] = [count(codes), 'the small one'];
    const hours = `${(codes / rate / 3600).toFixed(1)} h for all`;
    return [
      information(
        `${count(codes / 100)} codes taken in`,
        inWords(few.own),
        megabytes(few.own.peak),
      ),
      atMost(
        `${name} codes taken in`,
        inWords(own),
        slower,
        1.25,
        `the CPU time of a code of ${small}`,
      ),
      atMost(
        `${name} codes: peak memory`,
        megabytes(own.peak),
        own.peak / few.own.peak,
        1.25,
        small,
      ),
      information(
        `${name} codes: tables`,
        megabytes(bytes),
        `${Math.round(bytes / codes)} bytes a code`,
      ),
      information(`${count(codes / 100)} codes: the first minute of work`, perSecond(few.rate)),
      atLeast(`${name} codes: the same (${hours})`, perSecond(rate), rate / few.rate, 0.8, small),
    ];
  });
}

async function withAuditRounds(work: (rounds: AuditRounds) => Promise<Line[]>): Promise<Line[]> {
  const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
  if (!hasRedis) say('redis-server is not there: its lines are left out');
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-bench-codes-'));
  const postgres = await startPostgres();
  const redis = hasRedis ? await startRedis() : null;
  try {
    return await work(new AuditRounds(folder, postgres, redis));
  } finally {
    await redis?.close();
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  }
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
    readonly postgres: Postgres,
    readonly redis: Redis | null,
  ) {}

  async unlimited(): Promise<Line[]> {
    const { bare, audits } = await this.#compare({ codes: CODES }, this.#queues, ROUNDS);
    const lines = audits.map(({ queue, rate, ratio }) => {
      const what = `Audit of ${count(CODES)} codes, queue in ${queue}`;
      return atLeast(what, perSecond(rate), ratio, 0.8, 'the bare loop');
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

  /** What it takes to enqueue a million codes, beside a COPY of the same rows into the same tables. */
  async million(): Promise<Line[]> {
    return await this.#withMarket({ codes: MILLION }, Infinity, async (market) => {
      const loads: Awaited<ReturnType<AuditRounds['loaded']>>[] = [];
      for (let round = 0; round < LOADS; round++) {
        const load = await this.loaded(market);
        say(`a million codes taken in: ${inWords(load.own)}, ${megabytes(load.own.peak)}`);
        say(`COPY of their rows: ${inWords(load.copy)}`);
        loads.push(load);
      }
      const middle = (of: (load: (typeof loads)[number]) => number): number =>
        median(loads.map(of));
      const took = seconds(middle(({ own }) => own.ms));
      const ratio = middle(({ own, copy }) => own.ms / copy.ms);
      const ofProcessors = middle(({ own, copy }) => own.cpuMs / copy.cpuMs);
      const copied = seconds(middle(({ copy }) => copy.ms));
      const peak = Math.max(...loads.map(({ own }) => own.peak));
      return [
        information('Baseline: COPY of the rows of 1,000,000 codes', copied),
        atMost('1,000,000 codes: read, stored and enqueued', took, ratio, 1.5, 'the COPY'),
        information('Processor time of that, PostgreSQL included', '', times(ofProcessors)),
        bounded('Peak memory of that', peak, 160e6, megabytes),
      ];
    });
  }

  /** Takes a list in and works on it for a minute, or to its end. */
  async large(codes: number) {
    return await this.#withMarket({ codes }, 10, async (market) => {
      await forget(this.postgres.url);
      const own = await this.#measure(
        measureProgram(checkOf(market.file), this.#settings(market, null, 0)),
      );
      return await withClient(this.postgres.url, async (client) => {
        const { rows } = await client.query<{ bytes: string }>(
          `SELECT sum(pg_total_relation_size('mirror.' || name)) AS bytes FROM unnest($1::text[]) AS name`,
          [LIST_TABLES],
        );
        const bytes = Number(rows[0]?.bytes);
        say(
          `${count(codes)} codes taken in: ${inWords(own)}, ${megabytes(own.peak)}, ${megabytes(bytes)} of tables`,
        );
        await this.#work(this.#settings(market, null, 0), WORKED_MS);
        const { ms, calls } = await market.seen();
        const rate = (calls * 1000) / ms;
        say(`worked on for ${seconds(ms)}: ${perSecond(rate)}`);
        return { own, bytes, rate };
      });
    });
  }

  /** Takes the list in, then does a COPY of the rows it made, in the order of the list. */
  async loaded(market: Market) {
    const { postgres, redis } = this;
    await forget(postgres.url);
    await this.#checkpoint();
    const own = await this.#measure(
      measureProgram(checkOf(market.file), this.#settings(market, redis, 0)),
    );
    const copies = LIST_TABLES.map((table) => {
      return {
        file: join(this.folder, `${table}.rows`),
        into: `mirror.${table} FROM STDIN (FORMAT binary)`,
      };
    });
    await withClient(postgres.url, async (client) => {
      for (const [index, { file }] of copies.entries()) {
        const rows = client.query(
          copyTo(`COPY mirror.${LIST_TABLES[index]} TO STDOUT (FORMAT binary)`),
        );
        await pipeline(rows, createWriteStream(file));
      }
      await client.query(
        `TRUNCATE mirror.code_checks, mirror.code_transitions, ${LIST_TABLES.map((table) => `mirror.${table}`).join()}`,
      );
    });
    await this.#checkpoint();
    const input = { listUrl: null, databaseUrl: postgres.url, copies };
    const copy = await this.#measure(measureBaseline('copy', input));
    for (const { file } of copies) rmSync(file);
    return { own, copy };
  }

  /** So that nothing measured pays for what was written before. */
  async #checkpoint(): Promise<void> {
    const adminUrl = await this.postgres.adminUrl();
    await withClient(adminUrl, (client) => client.query('CHECKPOINT'));
  }

  /** With the processor time of PostgreSQL added. */
  async #measure(work: Promise<Measured>): Promise<Measured> {
    const before = await this.postgres.cpuMs();
    const measured = await work;
    const cpuMs = measured.cpuMs + (await this.postgres.cpuMs()) - before;
    return { ...measured, cpuMs };
  }

  #settings(market: Market, redis: Redis | null, perMinute: number): Settings {
    return {
      HOME: this.folder,
      DATABASE_URL: this.postgres.url,
      ...(redis === null ? {} : { REDIS_URL: redis.url }),
      MARKETPLACE_URL: market.url,
      MARKETPLACE_API_KEY: KEY,
      REQUESTS_PER_MINUTE: String(perMinute),
      WORKER_CONCURRENCY: '1',
      HEALTH_LISTEN: 'off',
    };
  }

  /** From nothing known of any code to the end of the audit, worked on by a worker. */
  async #audit(market: Market, redis: Redis | null, perMinute: number): Promise<void> {
    await forget(this.postgres.url);
    const settings = this.#settings(market, redis, perMinute);
    await measureProgram(checkOf(market.file), settings);
    await this.#work(settings, Infinity);
  }

  /** Has a worker work until no audit is left, or for so long. */
  async #work(settings: Settings, mostMs: number): Promise<void> {
    const worker = startProgram(['worker'], settings);
    const gone = once(worker, 'exit');
    const end = performance.now() + mostMs;
    const running = "SELECT FROM mirror.audits WHERE state = 'running'";
    try {
      await withClient(this.postgres.url, async (client) => {
        while (performance.now() < end && ((await client.query(running)).rowCount ?? 0) > 0) {
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
    rmSync(file, { force: true });
    for (let first = 0; first < codes; first += AT_ONCE) {
      const lines = Array.from({ length: Math.min(AT_ONCE, codes - first) }, (_, index) => {
        const place = first + index;
        return `${((place + 1) % invalidEvery === 0 ? other : own)?.codeAt(place)}\n`;
      });
      appendFileSync(file, lines.join(''));
    }
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

/** The command that takes a list in. Its codes are asked for once: a second look would begin a minute later. */
function checkOf(file: string): string[] {
  return ['codes', 'check', file, '--confirm', 'none', '--detach', '--json'];
}

function inWords({ ms, cpuMs }: Measured): string {
  return `${seconds(ms)}, CPU ${seconds(cpuMs)}`;
}

function perSecond(rate: number): string {
  return `${Math.round(rate)} codes/s`;
}
