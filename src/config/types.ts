import type { Secret } from '../domain/secret.js';

export const PLACEMENTS = ['default', 'query', 'json'] as const;
export const LOG_LEVELS = ['info', 'trace', 'debug', 'warn', 'error', 'fatal', 'silent'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

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
  /** Sentences for a person; they hold no secret. */
  readonly warnings: readonly string[];
}
