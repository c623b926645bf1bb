import { once } from 'node:events';
import { appendFileSync, createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { to as copyTo } from 'pg-copy-streams';
import { seededPurchases } from '#product/simulator/index.js';
import { hasRedis } from '../test/support/redis.js';
import {
  interruption,
  measureJob,
  measureProgram,
  startProgram,
  type Measurement,
  type Settings,
} from './children.js';
import { BenchDatabase } from './database.js';
import { withMarketplace, type Marketplace, type MarketplaceOptions } from './marketplace.js';
import { emptyStore, startRedis, type Redis } from './servers.js';
import {
  atLeast,
  atMost,
  bounded,
  count,
  growthLines,
  information,
  median,
  megabytes,
  perSecond,
  progress,
  seconds,
  times,
  usage,
  type Line,
} from './table.js';

const CODES = 20_000;
const MILLION = 1_000_000;
/** How often a million codes are enqueued; the median counts. */
const LOADS = 3;
/** The tables that a list fills, besides a row of `mirror.audits`. */
const LIST_TABLES = ['purchase_codes', 'audit_codes', 'audit_entries'];
/** Audits of each kind; their median counts. */
const ROUNDS = 5;
const LIMITED_CODES = 600;
const PER_MINUTE = 600;
/** Delay of each reply (ms). A marketplace on another machine takes at least this long. */
const LATENCY_MS = 20;
const DISTANT_CODES = 10_000;
/** Parallel calls of one chunk without a request limit. */
const CONCURRENCY = 48;
const POLL_MS = 250;
/** How long a worker works on a large audit (ms). */
const WORK_MS = 60_000;
/** Lines of a list that are written at a time. */
const LINES_PER_WRITE = 100_000;

/** Measures audits of purchase codes, compared with simple ways of doing the same. */
export function auditLines(million: boolean): Promise<Line[]> {
  return withAuditRounds(async (rounds) => [
    ...(await rounds.unlimited()),
    ...(await rounds.distant()),
    ...(await rounds.limited()),
    ...(million ? await rounds.million() : []),
  ]);
}

/** Enqueues an audit of this many codes and one of a hundredth, and works on each for a minute. */
export function largeAuditLines(codes: number): Promise<Line[]> {
  return withAuditRounds(async (rounds) => {
    const small = await rounds.large(codes / 100);
    const large = await rounds.large(codes);
    const [few, many] = [`${count(codes / 100)} codes`, `${count(codes)} codes`];
    const hours = `${(codes / large.rate / 3600).toFixed(1)} h for all`;
    const perCode = `${Math.round(large.bytes / codes)} bytes a code`;
    const figure = perSecond(large.rate, 'codes');
    const ratio = large.rate / small.rate;
    return [
      ...growthLines(
        100,
        'a code',
        [`${few} enqueued`, small.own],
        [`${many} enqueued`, large.own],
      ),
      information(`${many}: tables`, megabytes(large.bytes), perCode),
      information(`${few}: the first minute of work`, perSecond(small.rate, 'codes')),
      atLeast(`${many}: the same (${hours})`, figure, ratio, 0.8, 'the small one'),
    ];
  });
}

async function withAuditRounds(work: (rounds: AuditRounds) => Promise<Line[]>): Promise<Line[]> {
  if (!hasRedis) progress('redis-server is not installed: its lines are left out');
  const database = await BenchDatabase.open();
  const redis = hasRedis ? await startRedis() : null;
  try {
    return await work(new AuditRounds(database, redis));
  } finally {
    await redis?.close();
    await database.close();
  }
}

/** The marketplace of one measurement, and the list of codes to check there. */
interface Market extends Pick<Marketplace, 'url' | 'key' | 'takeCalls'> {
  /** Path of the list, which has one code a line. */
  readonly file: string;
  readonly codes: number;
}

/** Without a request limit and delay unless given. */
type MarketOptions = Pick<MarketplaceOptions, 'requestsPerMinute' | 'latencyMs'> & {
  readonly codes: number;
};

/** Null: the queue is in PostgreSQL. */
type Queue = Redis | null;

class AuditRounds {
  constructor(
    readonly database: BenchDatabase,
    readonly redis: Queue,
  ) {}

  async unlimited(): Promise<Line[]> {
    const queues = this.redis === null ? [null] : [this.redis, null];
    const { bare, audits } = await this.#compare({ codes: CODES }, queues, ROUNDS);
    const lines = audits.map(({ name, rate, ratio }) => {
      const what = `Audit of ${count(CODES)} codes, queue in ${name}`;
      return atLeast(what, perSecond(rate, 'codes'), ratio, 0.8, 'the bare loop');
    });
    return [information('Baseline: bare undici loop', perSecond(bare, 'codes')), ...lines];
  }

  /** The same with slow replies, so that the network is the bottleneck instead of the processors. */
  async distant(): Promise<Line[]> {
    const market = { codes: DISTANT_CODES, latencyMs: LATENCY_MS };
    const { bare, audits } = await this.#compare(market, [this.redis], 1);
    const delay = `replies after ${LATENCY_MS} ms`;
    const what = `Audit of ${count(DISTANT_CODES)} codes, ${delay}`;
    const lines = audits.map(({ rate, ratio }) =>
      information(what, perSecond(rate, 'codes'), times(ratio)),
    );
    return [
      information(`Baseline: bare undici loop, ${delay}`, perSecond(bare, 'codes')),
      ...lines,
    ];
  }

  /** Runs audits without a request limit, each between two bare loops. Returns medians in codes/s. */
  async #compare(options: MarketOptions, queues: readonly Queue[], rounds: number) {
    return await this.#withMarket(options, 10, async (market) => {
      const bares = [await bareRate(market)];
      const audits = queues.map((queue) => {
        const name = queue?.name ?? 'PostgreSQL';
        return { queue, name, rates: [] as number[], ratios: [] as number[] };
      });
      for (let round = 0; round < rounds; round++) {
        for (const { queue, name, rates, ratios } of audits) {
          await this.#audit(market, queue, 0);
          const { ms, calls } = market.takeCalls();
          const rate = (market.codes * 1000) / ms;
          progress(`audit with its queue in ${name}: ${perSecond(rate, 'codes')}, ${calls} calls`);
          const [before, after] = [bares.at(-1) ?? 0, await bareRate(market)];
          bares.push(after);
          rates.push(rate);
          // The speed of machines varies, so an audit is compared with the loops just before and after it.
          ratios.push((2 * rate) / (before + after));
        }
      }
      const medians = audits.map(({ name, rates, ratios }) => {
        return { name, rate: median(rates), ratio: median(ratios) };
      });
      return { bare: median(bares), audits: medians };
    });
  }

  async limited(): Promise<Line[]> {
    const options = { codes: LIMITED_CODES, requestsPerMinute: PER_MINUTE };
    return await this.#withMarket(options, Infinity, async (market) => {
      await this.#audit(market, this.redis, PER_MINUTE);
      const { ms, calls, limited } = market.takeCalls();
      const least = ((LIMITED_CODES - 1) * 60_000) / PER_MINUTE;
      progress(`at ${PER_MINUTE} a minute: ${seconds(ms)}, ${calls} calls, ${limited} times 429`);
      const what = `${LIMITED_CODES} codes at ${PER_MINUTE} requests a minute`;
      const ratio = calls / LIMITED_CODES;
      return [
        atMost(what, seconds(ms), ms / least, 1.03, 'the least possible'),
        atMost('Calls of these, proofs included', String(calls), ratio, 1.03, 'the codes'),
        bounded('Replies 429', limited, 0),
      ];
    });
  }

  /** Enqueues a million codes, compared with COPY of the same rows into the same tables. */
  async million(): Promise<Line[]> {
    return await this.#withMarket({ codes: MILLION }, Infinity, async (market) => {
      const loads: { own: Measurement; copy: Measurement }[] = [];
      for (let round = 0; round < LOADS; round++) {
        loads.push({ own: await this.#enqueue(market, this.redis), copy: await this.#copyList() });
      }
      const middle = (figure: (load: (typeof loads)[number]) => number): number =>
        median(loads.map(figure));
      const took = seconds(middle(({ own }) => own.ms));
      const ratio = middle(({ own, copy }) => own.ms / copy.ms);
      const cpuRatio = middle(({ own, copy }) => own.cpuMs / copy.cpuMs);
      const copied = seconds(middle(({ copy }) => copy.ms));
      const peak = Math.max(...loads.map(({ own }) => own.peak));
      return [
        information('Baseline: COPY of the rows of 1,000,000 codes', copied),
        atMost('1,000,000 codes: read, stored and enqueued', took, ratio, 1.5, 'the COPY'),
        information('Processor time of that, PostgreSQL included', '', times(cpuRatio)),
        information('Peak memory of that', megabytes(peak)),
      ];
    });
  }

  /** Enqueues a list and works on it for a minute, or to its end. */
  async large(codes: number) {
    return await this.#withMarket({ codes }, 10, async (market) => {
      const own = await this.#enqueue(market, null);
      const { rows } = await this.database.admin.query<{ bytes: string }>(
        `SELECT sum(pg_total_relation_size('mirror.' || name)) AS bytes FROM unnest($1::text[]) AS name`,
        [LIST_TABLES],
      );
      await this.#work(this.#settings(market, null, 0), WORK_MS);
      const { ms, calls } = market.takeCalls();
      const rate = (calls * 1000) / ms;
      progress(`after ${seconds(ms)} of work: ${perSecond(rate, 'codes')}`);
      return { own, bytes: Number(rows[0]?.bytes), rate };
    });
  }

  /** Measures enqueuing the list in an empty store. */
  async #enqueue(market: Market, queue: Queue): Promise<Measurement> {
    await emptyStore(this.database.url);
    const settings = this.#settings(market, queue, 0);
    const what = `${count(market.codes)} codes enqueued`;
    return await this.#measure(what, () => measureProgram(enqueueCommand(market.file), settings));
  }

  /** Empties the tables of the list, and measures COPY of their rows, in the order of the list. */
  async #copyList(): Promise<Measurement> {
    const { admin, folder, url: databaseUrl } = this.database;
    const tables = LIST_TABLES.map((name) => `mirror.${name}`);
    const copies: { file: string; into: string }[] = [];
    for (const table of tables) {
      const file = join(folder, `${table}.rows`);
      const rows = admin.query(copyTo(`COPY ${table} TO STDOUT (FORMAT binary)`));
      await pipeline(rows, createWriteStream(file));
      copies.push({ file, into: `${table} FROM STDIN (FORMAT binary)` });
    }
    await admin.query(`TRUNCATE mirror.code_checks, mirror.code_transitions, ${tables.join()}`);
    const input = { listUrl: null, databaseUrl, copies };
    const measured = await this.#measure('COPY of their rows', () => measureJob('copy', input));
    for (const { file } of copies) rmSync(file);
    return measured;
  }

  /** Adds the processor time of PostgreSQL. Makes a checkpoint first, so that earlier writes don't count. */
  async #measure(what: string, work: () => Promise<Measurement>): Promise<Measurement> {
    const { admin, server } = this.database;
    await admin.query('CHECKPOINT');
    const before = await server.cpuMs();
    const measured = await work();
    const cpuMs = measured.cpuMs + (await server.cpuMs()) - before;
    progress(`${what}: ${usage({ ...measured, cpuMs })}`);
    return { ...measured, cpuMs };
  }

  #settings(market: Market, queue: Queue, perMinute: number): Settings {
    return {
      HOME: this.database.folder,
      DATABASE_URL: this.database.url,
      ...(queue === null ? {} : { REDIS_URL: queue.url }),
      MARKETPLACE_URL: market.url,
      MARKETPLACE_API_KEY: market.key,
      REQUESTS_PER_MINUTE: String(perMinute),
      WORKER_CONCURRENCY: '1',
      HEALTH_LISTEN: 'off',
    };
  }

  /** Audits the list with an empty store and one worker. */
  async #audit(market: Market, queue: Queue, perMinute: number): Promise<void> {
    await emptyStore(this.database.url);
    const settings = this.#settings(market, queue, perMinute);
    await measureProgram(enqueueCommand(market.file), settings);
    await this.#work(settings, Infinity);
  }

  /** Runs a worker until every code was checked, or for this long. */
  async #work(settings: Settings, maxMs: number): Promise<void> {
    const { admin } = this.database;
    const worker = startProgram(['worker'], settings);
    const ended = once(worker, 'exit');
    const end = performance.now() + maxMs;
    // Denied codes are confirmed a minute later, which is not measured.
    const running = "SELECT FROM mirror.audits WHERE state = 'running' AND pending > denied";
    try {
      while (performance.now() < end && (await admin.query(running)).rowCount) {
        await sleep(POLL_MS, undefined, { signal: interruption.signal });
      }
    } finally {
      worker.kill('SIGTERM');
      await ended;
    }
  }

  /** Runs `work` with a marketplace of its own and a list in which every `invalidEvery`th code is invalid. */
  async #withMarket<T>(
    options: MarketOptions,
    invalidEvery: number,
    work: (market: Market) => Promise<T>,
  ): Promise<T> {
    const { codes } = options;
    const file = join(this.database.folder, `codes-${codes}.txt`);
    const own = seededPurchases({ seed: 1, count: codes });
    const other = seededPurchases({ seed: 2, count: codes });
    rmSync(file, { force: true });
    for (let first = 0; first < codes; first += LINES_PER_WRITE) {
      const lines = Array.from({ length: Math.min(LINES_PER_WRITE, codes - first) }, (_, index) => {
        const place = first + index;
        return `${((place + 1) % invalidEvery === 0 ? other : own).codeAt(place)}\n`;
      });
      appendFileSync(file, lines.join(''));
    }
    return await withMarketplace({ items: 200, ...options }, ({ url, key, takeCalls }) =>
      work({ url, key, takeCalls, file, codes }),
    );
  }
}

async function bareRate({ url, key, file, codes, takeCalls }: Market): Promise<number> {
  const input = { url, key, file, concurrency: CONCURRENCY };
  const { ms } = await measureJob('validate', input);
  takeCalls();
  const rate = (codes * 1000) / ms;
  progress(`bare loop: ${perSecond(rate, 'codes')}`);
  return rate;
}

/** Enqueues an audit. */
function enqueueCommand(file: string): string[] {
  return ['codes', 'check', file, '--detach', '--json'];
}
