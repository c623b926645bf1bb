import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import {
  interruption,
  measure,
  measureProgram,
  startProgram,
  startScript,
  type Measured,
  type Settings,
} from '../children.js';
import { startPostgres, startRedis, type Victim } from '../soak/servers.js';
import { median, megabytes, seconds, times, type Line } from '../table.js';
import type { CodeMarketInput, CodeMarketReady, Seen } from './code-market.js';
import type { CopyLinesInput } from './copy-lines.js';
import { usedMemory } from './redis-memory.js';
import type { ValidateInput } from './validate-codes.js';

/** Measures audits of purchase codes against plain ways of doing the same. */
export async function auditLines(million: boolean): Promise<Line[]> {
  const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
  const postgres = await startPostgres();
  const redis = hasRedis ? await startRedis() : null;
  const say = (text: string): void => void process.stderr.write(`  ${text}\n`);
  try {
    if (!hasRedis) say('redis-server is not there: its lines are left out');
    return await new AuditRounds(postgres, redis, say).all(million);
  } finally {
    await redis?.close();
    await postgres.close();
  }
}

const KEY = 'bench-0123456789abcdef0123456789abcdef';
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

/** The audits' part of the bench, on servers that the caller opened. */
export class AuditRounds {
  readonly #folder = mkdtempSync(join(tmpdir(), 'seller-mirror-bench-codes-'));

  constructor(
    readonly postgres: Victim,
    readonly redis: Victim | null,
    readonly say: (what: string) => void,
  ) {}

  async all(million: boolean): Promise<Line[]> {
    try {
      const lines = [
        ...(await this.#unlimited()),
        ...(await this.#distant()),
        ...(await this.#limited()),
      ];
      return million ? [...lines, ...(await this.#million())] : lines;
    } finally {
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  async #unlimited(): Promise<Line[]> {
    const market = { codes: CODES, invalidPercent: 10 };
    const { bare, audits } = await this.#compare(market, this.#queues, ROUNDS);
    return [
      information('Baseline: bare undici loop', perSecond(bare)),
      ...audits.map(({ redis, rate, ratio }) => ({
        what: `Audit of ${CODES.toLocaleString('en')} codes, queue in ${nameOf(redis)}`,
        figure: perSecond(rate),
        ratio: times(ratio),
        target: '>= 0.6 × the bare loop',
        met: ratio >= 0.6,
      })),
    ];
  }

  /** The same where the network, and not the processors, is waited for. */
  async #distant(): Promise<Line[]> {
    const market = { codes: DISTANT_CODES, invalidPercent: 10, latencyMs: LATENCY_MS };
    const { bare, audits } = await this.#compare(market, this.#queues.slice(0, 1), 1);
    const late = `replies after ${LATENCY_MS} ms`;
    return [
      information(`Baseline: bare undici loop, ${late}`, perSecond(bare)),
      ...audits.map(({ rate, ratio }) => ({
        ...information(
          `Audit of ${DISTANT_CODES.toLocaleString('en')} codes, ${late}`,
          perSecond(rate),
        ),
        ratio: times(ratio),
      })),
    ];
  }

  /** Redis first, where it is there; null stands for PostgreSQL. */
  get #queues(): readonly (Victim | null)[] {
    return this.redis === null ? [null] : [this.redis, null];
  }

  /** Audits without a budget, each between two bare loops; codes a second, medians. */
  async #compare(
    input: MarketInput,
    queues: readonly (Victim | null)[],
    rounds: number,
  ): Promise<Comparison> {
    return await this.#withMarket(input, async (market) => {
      const bares = [await this.#bare(market)];
      const audits = queues.map((redis) => ({
        redis,
        rates: [] as number[],
        ratios: [] as number[],
      }));
      for (let round = 0; round < rounds; round++) {
        for (const { redis, rates, ratios } of audits) {
          await this.#audit(market, redis, 0);
          const { ms, calls } = await market.seen();
          const rate = (market.codes * 1000) / ms;
          this.say(`audit on ${nameOf(redis)}: ${perSecond(rate)}, ${calls} calls`);
          const before = bares.at(-1) ?? 0;
          bares.push(await this.#bare(market));
          rates.push(rate);
          // Machines are not equally fast at all times: the loops just before and after count.
          ratios.push((2 * rate) / (before + (bares.at(-1) ?? 0)));
        }
      }
      const medians = audits.map(({ redis, rates, ratios }) => {
        return { redis, rate: median(rates), ratio: median(ratios) };
      });
      return { bare: median(bares), audits: medians };
    });
  }

  async #bare(market: Market): Promise<number> {
    const { url, file, codes } = market;
    const input: ValidateInput = { url, key: KEY, file, concurrency: CONCURRENCY };
    const { ms } = await measure('audits/validate-codes', input);
    await market.seen();
    const rate = (codes * 1000) / ms;
    this.say(`bare loop: ${perSecond(rate)}`);
    return rate;
  }

  async #limited(): Promise<Line[]> {
    return await this.#withMarket(
      { codes: LIMITED_CODES, invalidPercent: 0, requestsPerMinute: PER_MINUTE },
      async (market) => {
        await this.#audit(market, this.redis, PER_MINUTE);
        const { ms, calls, limited } = await market.seen();
        const least = ((LIMITED_CODES - 1) * 60_000) / PER_MINUTE;
        this.say(`at ${PER_MINUTE} a minute: ${seconds(ms)}, ${calls} calls, ${limited} times 429`);
        return [
          {
            what: `${LIMITED_CODES} codes at ${PER_MINUTE} requests a minute`,
            figure: seconds(ms),
            ratio: times(ms / least),
            target: '<= 1.03 × the least possible',
            met: ms <= 1.03 * least,
          },
          {
            what: 'Calls of these, proofs included',
            figure: String(calls),
            ratio: times(calls / LIMITED_CODES),
            target: '<= 1.03 × the codes',
            met: calls <= 1.03 * LIMITED_CODES,
          },
          {
            what: 'Replies 429',
            figure: String(limited),
            ratio: '',
            target: '0',
            met: limited === 0,
          },
        ];
      },
    );
  }

  async #million(): Promise<Line[]> {
    return await this.#withMarket({ codes: MILLION, invalidPercent: 0 }, async (market) => {
      const { file } = market;
      const copyInput: CopyLinesInput = { databaseUrl: this.postgres.url, file };
      const bare = await measure('audits/copy-lines', copyInput);
      const before = this.redis === null ? 0 : await usedMemory(this.redis);
      const settings = this.#settings(market, this.redis, 0);
      const enqueued = await measureProgram(
        ['codes', 'check', file, '--detach', '--json'],
        settings,
      );
      const kept = this.redis === null ? null : (await usedMemory(this.redis)) - before;
      this.say(`a million codes enqueued: ${seconds(enqueued.ms)}, ${megabytes(enqueued.peak)}`);
      return [...millionLines(bare, enqueued), ...(kept === null ? [] : [redisLine(kept)])];
    });
  }

  #settings(market: Market, redis: Victim | null, perMinute: number): Settings {
    return {
      HOME: this.#folder,
      DATABASE_URL: this.postgres.url,
      ...(redis === null ? {} : { REDIS_URL: redis.url }),
      MARKETPLACE_URL: market.url,
      MARKETPLACE_API_KEY: KEY,
      REQUESTS_PER_MINUTE: String(perMinute),
      WORKER_CONCURRENCY: '1',
    };
  }

  /**
   * From nothing known of any code to the end of the audit, worked on by a worker. Each code is asked
   * for once: a second look would begin a minute later.
   */
  async #audit(market: Market, redis: Victim | null, perMinute: number): Promise<void> {
    await forgetCodes(this.postgres.url);
    const settings = this.#settings(market, redis, perMinute);
    const check = ['codes', 'check', market.file, '--confirm', 'none', '--detach', '--json'];
    await measureProgram(check, settings);
    const worker = startProgram(['worker'], { ...settings, HEALTH_LISTEN: 'off' });
    const gone = once(worker, 'exit');
    try {
      await auditEnded(this.postgres.url);
    } finally {
      worker.kill('SIGTERM');
      await gone;
    }
  }

  #withMarket<T>(input: MarketInput, work: (market: Market) => Promise<T>): Promise<T> {
    const whole = { requestsPerMinute: 0, latencyMs: 0, ...input, key: KEY };
    return withMarket(this.#folder, whole, work);
  }
}

/** Returns once no audit is running any more. */
async function auditEnded(url: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    for (;;) {
      const { rows } = await client.query(
        "SELECT 1 FROM mirror.audits WHERE state = 'running' LIMIT 1",
      );
      if (rows.length === 0) return;
      await sleep(LOOK_MS, undefined, { signal: interruption.signal });
    }
  } finally {
    await client.end();
  }
}

const LOOK_MS = 250;

/** No limit and no latency but where they are given. */
type MarketInput = Pick<CodeMarketInput, 'codes' | 'invalidPercent'> &
  Partial<Pick<CodeMarketInput, 'requestsPerMinute' | 'latencyMs'>>;

/** Codes a second, and their ratio to the bare loop. */
interface Comparison {
  readonly bare: number;
  readonly audits: readonly {
    readonly redis: Victim | null;
    readonly rate: number;
    readonly ratio: number;
  }[];
}

function nameOf(redis: Victim | null): string {
  return redis === null ? 'PostgreSQL' : 'Redis';
}

async function forgetCodes(url: string): Promise<void> {
  const client = new Client(url);
  await client.connect();
  await client.query(
    `DO $$ BEGIN IF to_regclass('mirror.sellers') IS NOT NULL
       THEN TRUNCATE mirror.sellers, mirror.request_budgets, mirror.purchase_codes, mirror.code_checks,
                     mirror.code_transitions, mirror.audit_codes, mirror.audit_entries CASCADE;
       END IF; END $$`,
  );
  await client.end();
}

export function perSecond(rate: number): string {
  return `${Math.round(rate)} codes/s`;
}

/** A line that has no target. */
export function information(what: string, figure: string): Line {
  return { what, figure, ratio: '', target: '', met: null };
}

/** What it took to enqueue a million codes, beside a bare COPY of their lines. */
export function millionLines(bare: Measured, enqueued: Measured): Line[] {
  return [
    {
      what: '1,000,000 codes: read, stored and enqueued',
      figure: seconds(enqueued.ms),
      ratio: `${times(enqueued.ms / bare.ms)} a bare COPY (${seconds(bare.ms)})`,
      target: '',
      met: null,
    },
    {
      what: 'Peak memory of that',
      figure: megabytes(enqueued.peak),
      ratio: '',
      target: '<= 200 MB',
      met: enqueued.peak <= 200e6,
    },
  ];
}

export function redisLine(bytes: number): Line {
  return {
    what: 'What they take in Redis',
    figure: `${(bytes / 1e6).toFixed(2)} MB`,
    ratio: '',
    target: '<= 20 MB',
    met: bytes <= 20e6,
  };
}

/** The marketplace of one measurement, with the list of codes that is to be checked there. */
export interface Market {
  readonly url: string;
  /** The list, a code a line. */
  readonly file: string;
  /** How many codes it holds. */
  readonly codes: number;
  /** What it has seen since the last time this was asked. */
  readonly seen: () => Promise<Seen>;
}

/** Runs `work` with a marketplace of its own, whose list is written into `folder`. */
export async function withMarket<T>(
  folder: string,
  input: Omit<CodeMarketInput, 'file'>,
  work: (market: Market) => Promise<T>,
): Promise<T> {
  const { codes } = input;
  const file = join(folder, `codes-${codes}.txt`);
  const child = startScript('audits/code-market', { ...input, file });
  const answer = async <A>(): Promise<A> => ((await once(child, 'message')) as [A])[0];
  const { url } = await answer<CodeMarketReady>();
  const seen = async (): Promise<Seen> => {
    child.send('seen');
    return await answer<Seen>();
  };
  try {
    return await work({ url, file, codes, seen });
  } finally {
    const gone = once(child, 'exit');
    child.disconnect();
    await gone;
  }
}
