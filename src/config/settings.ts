/** One environment variable the product reads. */
export interface Setting {
  readonly name: string;
  /** Text that means the same as not setting it; null when there is none. */
  readonly default: string | null;
  /** One line for README, `.env.example` and help texts. */
  readonly description: string;
  /** The value must never be shown. */
  readonly secret?: true;
}

/** Every setting, declared once; README and `.env.example` are tested against it. */
export const SETTINGS = [
  {
    name: 'MARKETPLACE_URL',
    default: null,
    description: 'Base address of the marketplace, such as https://market.example',
  },
  {
    name: 'MARKETPLACE_API_KEY',
    default: null,
    description: 'API key of the seller’s workspace',
    secret: true,
  },
  {
    name: 'MARKETPLACE_API_KEY_FILE',
    default: null,
    description: 'File that holds the API key, instead of MARKETPLACE_API_KEY',
  },
  {
    name: 'SELLER_NAME',
    default: 'main',
    description: 'Name of the seller in the database: 1 to 63 letters, digits and . _ -',
  },
  {
    name: 'SELLERS_FILE',
    default: null,
    description: 'JSON file with several sellers, instead of MARKETPLACE_URL and its key',
  },
  {
    name: 'DATABASE_URL',
    default: null,
    description: 'PostgreSQL to keep the mirror in; not set: an embedded server under DATA_DIR',
    secret: true,
  },
  {
    name: 'DATABASE_URL_FILE',
    default: null,
    description: 'File that holds the database’s address, instead of DATABASE_URL',
  },
  {
    name: 'DATA_DIR',
    default: './data',
    description: 'Folder of the embedded PostgreSQL server',
  },
  {
    name: 'REQUESTS_PER_MINUTE',
    default: '60',
    description:
      'Most requests a minute to one marketplace host; 0 means no limit: 48 calls of an audit at a time',
  },
  {
    name: 'MARKETPLACE_PARAMETERS',
    default: 'default',
    description:
      'Where request parameters travel: default (query on GET, form on POST), query or json',
  },
  {
    name: 'MARKETPLACE_KEY_HEADER',
    default: null,
    description: 'Name of a request header that carries the API key instead of a parameter',
  },
  {
    name: 'ALLOW_PLAIN_HTTP',
    default: 'false',
    description: 'true sends the API key unencrypted to an http:// address of another machine',
  },
  {
    name: 'REMOVAL_GUARD_ITEMS',
    default: '10',
    description: 'A run that would remove more items than this and than the percentage is held',
  },
  {
    name: 'REMOVAL_GUARD_PERCENT',
    default: '20',
    description: 'Percentage of the seller’s items that belongs to REMOVAL_GUARD_ITEMS',
  },
  {
    name: 'LOOKUPS_PER_RUN',
    default: '100',
    description:
      'Most unlisted items looked up in one run, twice if denied; 0 means none, so nothing is removed',
  },
  {
    name: 'SYNC_CRON',
    default: '0 2 * * *',
    description: 'Cron expression: when account and items are mirrored; off: not by itself',
  },
  {
    name: 'ACCOUNT_CRON',
    default: null,
    description:
      'Cron expression: when the account is mirrored besides; off means the same as not set',
  },
  {
    name: 'AUDIT_CRON',
    default: null,
    description:
      'Cron expression: when known purchase codes are asked for again; off means the same as not set',
  },
  {
    name: 'AUDIT_SHARE',
    default: '25',
    description: 'Percentage of the request budget that asking again by AUDIT_CRON may take',
  },
  {
    name: 'AUDIT_OLDER_THAN_DAYS',
    default: '30',
    description: 'Codes checked within this many days are left alone by AUDIT_CRON',
  },
  {
    name: 'TZ',
    default: null,
    description:
      'IANA time zone of the three, such as Europe/Berlin; not set: that of this machine',
  },
  {
    name: 'CATCH_UP',
    default: 'true',
    description: 'true does once at start what was due while nothing ran',
  },
  {
    name: 'REDIS_URL',
    default: null,
    description:
      'Redis or Valkey for the queue: redis[s]://, redis-sentinel:// or redis-cluster://; not set: the database',
    secret: true,
  },
  {
    name: 'REDIS_URL_FILE',
    default: null,
    description: 'File that holds the address of Redis, instead of REDIS_URL',
  },
  {
    name: 'QUEUE_PREFIX',
    default: 'seller-mirror',
    description: 'Keeps installations apart that share one Redis: letters, digits and . _ -',
  },
  {
    name: 'WORKER_CONCURRENCY',
    default: '4',
    description: 'Jobs that one worker process does at a time, 1 to 100',
  },
  {
    name: 'SHUTDOWN_TIMEOUT',
    default: '30',
    description: 'Seconds that running work may take to end when the process is told to stop',
  },
  {
    name: 'KEEP_JOBS_DAYS',
    default: '7',
    description: 'Days for which finished jobs are kept in the queue, 1 to 365',
  },
  {
    name: 'KEEP_RAW_DAYS',
    default: null,
    description:
      'Days for which records are kept as received, beside what was read of them; not set: for ever',
  },
  {
    name: 'KEEP_RUNS_DAYS',
    default: null,
    description: 'Days for which runs are kept that no kept row names; not set: for ever',
  },
  {
    name: 'KEEP_VERSIONS_DAYS',
    default: null,
    description:
      'Days for which superseded states of items and accounts are kept; not set: for ever',
  },
  {
    name: 'KEEP_AUDITS_DAYS',
    default: null,
    description: 'Days for which the lists of finished audits are kept; not set: for ever',
  },
  {
    name: 'STALE_AFTER_HOURS',
    default: '26',
    description: 'Hours after the last success from which on a copy counts as stale',
  },
  {
    name: 'HEALTH_LISTEN',
    default: null,
    description:
      'Host and port of health and metrics; off: none; not set: 127.0.0.1:8790, or a free port when that is taken',
  },
  {
    name: 'ALERT_WEBHOOK_URL',
    default: null,
    description: 'Address that alerts are posted to, signed as Standard Webhooks',
    secret: true,
  },
  {
    name: 'ALERT_WEBHOOK_URL_FILE',
    default: null,
    description: 'File that holds the webhook’s address, instead of ALERT_WEBHOOK_URL',
  },
  {
    name: 'ALERT_WEBHOOK_SECRET',
    default: null,
    description: 'What alerts are signed with: whsec_ and base64 of 24 to 64 bytes',
    secret: true,
  },
  {
    name: 'ALERT_WEBHOOK_SECRET_FILE',
    default: null,
    description: 'File that holds the webhook’s secret, instead of ALERT_WEBHOOK_SECRET',
  },
  {
    name: 'LOG_LEVEL',
    default: 'info',
    description: 'trace, debug, info, warn, error, fatal or silent',
  },
  {
    name: 'LOG_FORMAT',
    default: 'auto',
    description: 'json, pretty, or auto: pretty on a terminal and JSON elsewhere',
  },
] as const satisfies readonly Setting[];

export type SettingName = (typeof SETTINGS)[number]['name'];

const DEFAULTS = new Map<string, string | null>(
  SETTINGS.map((setting) => [setting.name, setting.default]),
);

/** The default of a setting that has one. */
export function defaultOf(name: SettingName): string {
  const text = DEFAULTS.get(name);
  if (text === null || text === undefined) throw new Error(`${name} has no default`);
  return text;
}
