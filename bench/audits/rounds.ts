import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { measure, measureProgram, startScript, type Measured, type Settings } from '../children.js';
import type { Victim } from '../soak/servers.js';
import { median, megabytes, seconds, times, type Line } from '../table.js';
import type { CodeMarketInput, CodeMarketReady, Seen } from './code-market.js';
import type { CopyLinesInput } from './copy-lines.js';
import { usedMemory } from './redis-memory.js';
import type { ValidateInput } from './validate-codes.js';

const KEY = 'bench-0123456789abcdef0123456789abcdef';
const CODES = 20_000;
const MILLION = 1_000_000;
/** Audits of each kind, whose median counts. */
const ROUNDS = 3;
const LIMITED_CODES = 600;
const PER_MINUTE = 600;
/** Calls that one chunk keeps under way with an unlimited budget. */
const CONCURRENCY = 16;

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
      const lines = [...(await this.#unlimited()), ...(await this.#limited())];
      return million ? [...lines, ...(await this.#million())] : lines;
    } finally {
      rmSync(this.#folder, { recursive: true, force: true });
    }
  }

  async #unlimited(): Promise<Line[]> {
    return await this.#withMarket(
      { codes: CODES, invalidPercent: 10, requestsPerMinute: 0 },
      async (market, file) => {
        const input: ValidateInput = { url: market.url, key: KEY, file, concurrency: CONCURRENCY };
        const bare = async (): Promise<number> => {
          const { ms } = await measure('audits/validate-codes', input);
          await market.seen();
          this.say(`bare loop: ${Math.round((CODES * 1000) / ms)} codes/s`);
          return (CODES * 1000) / ms;
        };
        const audits = (this.redis === null ? [null] : [this.redis, null]).map((redis) => ({
          redis,
          rates: [] as number[],
          ratios: [] as number[],
        }));
        const bares = [await bare()];
        for (let round = 0; round < ROUNDS; round++) {
          for (const { redis, rates, ratios } of audits) {
            await this.#audit(market, file, redis, 0);
            const { ms, calls } = await market.seen();
            const rate = (CODES * 1000) / ms;
            this.say(`audit on ${nameOf(redis)}: ${Math.round(rate)} codes/s, ${calls} calls`);
            const before = bares.at(-1) ?? 0;
            bares.push(await bare());
            rates.push(rate);
            // Machines are not equally fast at all times: the loops just before and after count.
            ratios.push((2 * rate) / (before + (bares.at(-1) ?? 0)));
          }
        }
        return [
          information('Baseline: bare undici loop', `${Math.round(median(bares))} codes/s`),
          ...audits.map(({ redis, rates, ratios }) => ({
            what: `Audit of ${CODES.toLocaleString('en')} codes, queue in ${nameOf(redis)}`,
            figure: `${Math.round(median(rates))} codes/s`,
            ratio: times(median(ratios)),
            target: '>= 0.6 × the bare loop',
            met: median(ratios) >= 0.6,
          })),
        ];
      },
    );
  }

  async #limited(): Promise<Line[]> {
    return await this.#withMarket(
      { codes: LIMITED_CODES, invalidPercent: 0, requestsPerMinute: PER_MINUTE },
      async (market, file) => {
        await this.#audit(market, file, this.redis, PER_MINUTE);
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
    return await this.#withMarket(
      { codes: MILLION, invalidPercent: 0, requestsPerMinute: 0 },
      async (market, file) => {
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
      },
    );
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

  /** From nothing known of any code to the end of the audit. */
  async #audit(
    market: Market,
    file: string,
    redis: Victim | null,
    perMinute: number,
  ): Promise<void> {
    await forgetCodes(this.postgres.url);
    const settings = this.#settings(market, redis, perMinute);
    await measureProgram(['codes', 'check', file, '--json'], settings);
  }

  async #withMarket<T>(
    input: Omit<CodeMarketInput, 'key' | 'file'>,
    work: (market: Market, file: string) => Promise<T>,
  ): Promise<T> {
    const file = join(this.#folder, `codes-${input.codes}.txt`);
    const child = startScript('audits/code-market', { ...input, key: KEY, file });
    const { url } = await answer<CodeMarketReady>(child);
    const seen = async (): Promise<Seen> => {
      child.send('seen');
      return await answer<Seen>(child);
    };
    try {
      return await work({ url, seen }, file);
    } finally {
      const gone = once(child, 'exit');
      child.disconnect();
      await gone;
    }
  }
}

interface Market {
  readonly url: string;
  /** What it has seen since the last time this was asked. */
  readonly seen: () => Promise<Seen>;
}

function nameOf(redis: Victim | null): string {
  return redis === null ? 'PostgreSQL' : 'Redis';
}

async function answer<T>(child: ChildProcess): Promise<T> {
  const [message] = (await once(child, 'message')) as [T];
  return message;
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

function information(what: string, figure: string): Line {
  return { what, figure, ratio: '', target: '', met: null };
}

function millionLines(bare: Measured, enqueued: Measured): Line[] {
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

function redisLine(bytes: number): Line {
  return {
    what: 'What they take in Redis',
    figure: `${(bytes / 1e6).toFixed(2)} MB`,
    ratio: '',
    target: '<= 20 MB',
    met: bytes <= 20e6,
  };
}
