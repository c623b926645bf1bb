import type { z } from 'zod';
import {
  apiKey,
  cron,
  databaseUrl,
  headerName,
  healthListen,
  marketplaceUrl,
  oneOf,
  passwordsIn,
  plainName,
  redisUrl,
  text,
  timeZone,
  tokensIn,
  webhookSecret,
  webhookUrl,
  wholeNumber,
  yesOrNo,
} from './schemas.js';

/** One environment variable that the product reads. */
export interface Setting {
  /** Text that means the same as not setting it; null when there is none. */
  readonly default: string | null;
  /** One line for `docs/settings.md` and `.env.example`. */
  readonly description: string;
  /** Checks the text and turns it into the value. */
  readonly schema: z.ZodType<unknown, string>;
  /** The text must never be shown; the function gives the parts of it that must not be shown either. */
  readonly secret?: (text: string) => readonly string[];
  /** What a file named by the setting holds, for messages. */
  readonly holds?: string;
}

/** A setting that names a file which holds a secret, instead of the setting for the secret itself. */
function fileOf<const W extends string>(secret: string, what: W) {
  const description = `File that holds ${what}, instead of ${secret}`;
  return { default: null, description, schema: text, holds: what };
}

/** Days for which something is kept; a hundred years at most. */
const DAYS_KEPT = wholeNumber(1, 36_500);
/** More than any catalogue has. */
const MOST_ITEMS = 1_000_000_000;

/** Every setting, described once: `docs/settings.md` and `.env.example` are tested against this table. */
export const SETTINGS = {
  MARKETPLACE_URL: {
    default: null,
    description: 'Base address of the marketplace, such as https://market.example',
    schema: marketplaceUrl,
  },
  MARKETPLACE_API_KEY: {
    default: null,
    description: 'API key of the seller’s workspace',
    schema: apiKey,
    secret: () => [],
  },
  MARKETPLACE_API_KEY_FILE: fileOf('MARKETPLACE_API_KEY', 'the API key'),
  SELLER_NAME: {
    default: 'main',
    description: 'Name of the seller in the database: 1 to 63 letters, digits and . _ -',
    schema: plainName('is no seller name'),
  },
  SELLERS_FILE: {
    default: null,
    description: 'JSON file with several sellers, instead of MARKETPLACE_URL and its key',
    schema: text,
  },
  DATABASE_URL: {
    default: null,
    description: 'PostgreSQL to keep the mirror in; not set: an embedded server under DATA_DIR',
    schema: databaseUrl,
    secret: passwordsIn,
  },
  DATABASE_URL_FILE: fileOf('DATABASE_URL', 'the database’s address'),
  DATA_DIR: {
    default: './data',
    description: 'Folder of the embedded PostgreSQL server',
    schema: text,
  },
  REQUESTS_PER_MINUTE: {
    default: '60',
    description:
      'Most requests a minute to one marketplace host; 0: no limit, and 48 calls of an audit at a time',
    schema: wholeNumber(0, 1_000_000),
  },
  MARKETPLACE_PARAMETERS: {
    default: 'default',
    description:
      'How request parameters are sent: default (query on GET, form on POST), query or json',
    schema: oneOf(['default', 'query', 'json']),
  },
  MARKETPLACE_KEY_HEADER: {
    default: null,
    description: 'Name of a request header that carries the API key instead of a parameter',
    schema: headerName,
  },
  ALLOW_PLAIN_HTTP: {
    default: 'false',
    description:
      'true: the API key may be sent unencrypted to an http:// address of another machine',
    schema: yesOrNo,
  },
  REMOVAL_GUARD_ITEMS: {
    default: '10',
    description:
      'A run that would remove more items than this, and more than REMOVAL_GUARD_PERCENT, is held',
    schema: wholeNumber(0, MOST_ITEMS),
  },
  REMOVAL_GUARD_PERCENT: {
    default: '20',
    description:
      'Percentage of the seller’s items; a run is held when it would remove more than both limits',
    schema: wholeNumber(0, 100),
  },
  LOOKUPS_PER_RUN: {
    default: '100',
    description:
      'Most unlisted items looked up in one run, twice if denied; 0: none, so nothing is removed',
    schema: wholeNumber(0, MOST_ITEMS),
  },
  SYNC_CRON: {
    default: '0 2 * * *',
    description: 'Cron expression: when account and items are mirrored; off: not on a schedule',
    schema: cron,
  },
  ACCOUNT_CRON: {
    default: null,
    description:
      'Cron expression: when the account alone is mirrored, in addition; off means the same as not set',
    schema: cron,
  },
  AUDIT_CRON: {
    default: null,
    description:
      'Cron expression: when known purchase codes are asked for again; off means the same as not set',
    schema: cron,
  },
  AUDIT_SHARE: {
    default: '25',
    description: 'Percentage of the request budget that audits by AUDIT_CRON may use',
    schema: wholeNumber(1, 100),
  },
  AUDIT_OLDER_THAN_DAYS: {
    default: '30',
    description: 'AUDIT_CRON leaves codes alone that were checked within this many days',
    schema: wholeNumber(1, 3_650),
  },
  TZ: {
    default: null,
    description:
      'IANA time zone of the cron expressions, such as Europe/Berlin; not set: that of this machine',
    schema: timeZone,
  },
  CATCH_UP: {
    default: 'true',
    description: 'true: at its start, a process does once what was due while nothing ran',
    schema: yesOrNo,
  },
  REDIS_URL: {
    default: null,
    description:
      'Redis or Valkey for the queue: redis[s]://, redis-sentinel:// or redis-cluster://; not set: the database',
    schema: redisUrl,
    // Of the query too, whatever the option in it is called.
    secret: (url) => [...passwordsIn(url), /\?[^=]*=(.*)$/s.exec(url)?.[1] ?? ''],
  },
  REDIS_URL_FILE: fileOf('REDIS_URL', 'the address of Redis'),
  QUEUE_PREFIX: {
    default: 'seller-mirror',
    description: 'Keeps installations apart that share one Redis: letters, digits and . _ -',
    schema: plainName('can’t begin the names in Redis'),
  },
  WORKER_CONCURRENCY: {
    default: '4',
    description: 'Jobs that one worker process does at a time, 1 to 100',
    schema: wholeNumber(1, 100),
  },
  SHUTDOWN_TIMEOUT: {
    default: '30',
    description: 'Seconds that running work gets to finish when the process is told to stop',
    schema: wholeNumber(0, 3_600),
  },
  KEEP_JOBS_DAYS: {
    default: '7',
    description: 'Days to keep finished jobs in the queue, 1 to 365',
    schema: wholeNumber(1, 365),
  },
  KEEP_RAW_DAYS: {
    default: null,
    description:
      'Days to keep records as received, beside what was read from them; not set: for ever',
    schema: DAYS_KEPT,
  },
  KEEP_RUNS_DAYS: {
    default: null,
    description: 'Days to keep runs that no kept row refers to; not set: for ever',
    schema: DAYS_KEPT,
  },
  KEEP_VERSIONS_DAYS: {
    default: null,
    description: 'Days to keep superseded states of items and accounts; not set: for ever',
    schema: DAYS_KEPT,
  },
  KEEP_AUDITS_DAYS: {
    default: null,
    description: 'Days to keep the lists of finished audits; not set: for ever',
    schema: DAYS_KEPT,
  },
  STALE_AFTER_HOURS: {
    default: '26',
    description: 'Hours after its last success when a copy becomes stale',
    schema: wholeNumber(1, 8_760),
  },
  HEALTH_LISTEN: {
    default: null,
    description:
      'Host and port of health and metrics; off: none; not set: 127.0.0.1:8790, or a free port when that is taken',
    schema: healthListen,
  },
  ALERT_WEBHOOK_URL: {
    default: null,
    description: 'Address that alerts are posted to, signed as Standard Webhooks',
    schema: webhookUrl,
    secret: tokensIn,
  },
  ALERT_WEBHOOK_URL_FILE: fileOf('ALERT_WEBHOOK_URL', 'the webhook’s address'),
  ALERT_WEBHOOK_SECRET: {
    default: null,
    description: 'Secret that alerts are signed with: whsec_ and the base64 of 24 to 64 bytes',
    schema: webhookSecret,
    // It may also be pasted elsewhere without the prefix.
    secret: (secret) => [secret.replace(/^whsec_/, '')],
  },
  ALERT_WEBHOOK_SECRET_FILE: fileOf('ALERT_WEBHOOK_SECRET', 'the webhook’s secret'),
  LOG_LEVEL: {
    default: 'info',
    description: 'trace, debug, info, warn, error, fatal or silent',
    schema: oneOf(['info', 'trace', 'debug', 'warn', 'error', 'fatal', 'silent']),
  },
  LOG_FORMAT: {
    default: 'auto',
    description: 'json, pretty, or auto: pretty on a terminal and JSON elsewhere',
    schema: oneOf(['auto', 'json', 'pretty']),
  },
} as const satisfies Readonly<Record<string, Setting>>;

type Settings = typeof SETTINGS;
export type SettingName = keyof Settings;

/** Settings that hold a secret; each has a twin, `…_FILE`, for a file that holds it. */
export type SecretName = {
  [N in SettingName]: Settings[N] extends { secret: unknown } ? N : never;
}[SettingName];

/** The value of a setting once it is read; null only when it is not set and has no default. */
export type ValueOf<N extends SettingName> =
  z.output<Settings[N]['schema']> | (Settings[N]['default'] extends string ? never : null);
