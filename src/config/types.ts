import type { RedisTarget } from '../domain/redis-target.js';
import type { RetentionDays } from '../domain/retention.js';
import type { Secret } from '../domain/secret.js';

export const PLACEMENTS = ['default', 'query', 'json'] as const;
export const LOG_LEVELS = ['info', 'trace', 'debug', 'warn', 'error', 'fatal', 'silent'] as const;
export const LOG_FORMATS = ['auto', 'json', 'pretty'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];
export type LogFormat = (typeof LOG_FORMATS)[number];

/** How a configuration is to be read. */
export interface ConfigOptions {
  /** Folder of `.env`, and the one that relative paths are relative to. */
  readonly cwd: string;
  /** `sellers`: at least one must be configured. `store`: there may be none. */
  readonly needs: 'store' | 'sellers';
  /**
   * What is wrong with a cron expression, continuing a sentence that begins with it; null when
   * nothing is. Whoever runs the schedules knows.
   */
  readonly cronFault: (expression: string) => string | null;
}

/** One seller to mirror. */
export interface SellerConfig {
  readonly name: string;
  /** Base address of its marketplace. */
  readonly url: URL;
  readonly key: Secret;
  /** The same for all sellers of one host, since they share its budget; 0 means no limit. */
  readonly requestsPerMinute: number;
  readonly carriage: {
    readonly placement: (typeof PLACEMENTS)[number];
    readonly keyHeader: string | null;
  };
  /** Cron expression of account and items; null: not on a schedule. */
  readonly syncCron: string | null;
  /** Cron expression of the account alone, besides; null: only with the items. */
  readonly accountCron: string | null;
  /** Cron expression of asking for known purchase codes again; null: not by itself. */
  readonly auditCron: string | null;
  /** IANA name of the zone in which all of them are meant. */
  readonly timeZone: string;
}

/** Where the health endpoints listen. */
export interface HealthListen {
  readonly host: string;
  readonly port: number;
  /** False: nobody chose the port, so another will do when it is taken. */
  readonly chosen: boolean;
}

/** Everything the product can be told from outside, checked. It can be printed: secrets mask themselves. */
export interface Config {
  readonly sellers: readonly SellerConfig[];
  /** null: the embedded server under `dataDir`. */
  readonly databaseUrl: Secret | null;
  /** Absolute. */
  readonly dataDir: string;
  readonly allowPlainHttp: boolean;
  readonly removalGuard: { readonly items: number; readonly percent: number };
  readonly lookupsPerRun: number;
  readonly logLevel: LogLevel;
  /** `auto`: pretty on a terminal, JSON elsewhere. */
  readonly logFormat: LogFormat;
  /** null: the queue is in the database. */
  readonly redis: RedisTarget | null;
  /** Keeps installations apart that share one Redis. */
  readonly queuePrefix: string;
  /** Jobs a worker process does at a time. */
  readonly workerConcurrency: number;
  /** What a scheduled re-audit may take and asks for. */
  readonly recheck: {
    /** Of the request budget, more than 0 and at most 1. */
    readonly share: number;
    /** Codes checked more recently are left alone. */
    readonly olderThanDays: number;
  };
  /** Do at start what was due while nothing ran. */
  readonly catchUp: boolean;
  readonly shutdownTimeoutMs: number;
  /** Days for which finished jobs are kept, to be looked at. */
  readonly keepJobsDays: number;
  /** For how long the store keeps what; nothing goes by itself. */
  readonly retention: RetentionDays;
  /** A copy older than this is stale. */
  readonly staleAfterHours: number;
  /** null: no endpoints. */
  readonly health: HealthListen | null;
  /** Both are secrets: addresses of webhooks often contain a token. null: no alerts. */
  readonly alerts: { readonly url: Secret; readonly secret: Secret } | null;
  /** Sentences for a person; they hold no secret. */
  readonly warnings: readonly string[];
  /** Sentences on secrets that other users of this machine can read; they hold no secret. */
  readonly exposedSecrets: readonly string[];
}
