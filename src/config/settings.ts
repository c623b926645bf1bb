import { z } from 'zod';
import {
  apiKey,
  cron,
  databaseUrl,
  headerName,
  hostNames,
  listenAddress,
  mailAddresses,
  marketplaceUrl,
  oneOf,
  pageUrl,
  passwordsIn,
  plainName,
  redisUrl,
  smtpUrl,
  timeZone,
  tokensIn,
  webhookSecret,
  webhookUrl,
  wholeNumber,
  yesOrNo,
} from './schemas.js';

/** The settings that hold a secret. Each has a twin, `…_FILE`, that names a file with the secret in it. */
export const SECRETS = {
  MARKETPLACE_API_KEY: { what: 'the API key', parts: () => [] },
  DATABASE_URL: { what: 'the database’s address', parts: passwordsIn },
  REDIS_URL: {
    what: 'the address of Redis',
    // Of the query too, whatever the option in it is called.
    parts: (url) => [...passwordsIn(url), /\?[^=]*=(.*)$/s.exec(url)?.[1] ?? ''],
  },
  ALERT_WEBHOOK_URL: { what: 'the webhook’s address', parts: tokensIn },
  ALERT_WEBHOOK_SECRET: {
    what: 'the webhook’s secret',
    // It may also be pasted elsewhere without the prefix.
    parts: (secret) => [secret.replace(/^whsec_/, '')],
  },
  SMTP_URL: { what: 'the address of the mail server', parts: passwordsIn },
} as const satisfies Readonly<
  Record<string, { what: string; parts: (text: string) => readonly string[] }>
>;

export type SecretName = keyof typeof SECRETS;

export function isSecretName(name: string): name is SecretName {
  return name in SECRETS;
}

function fileOf(secret: SecretName) {
  return z.string().describe(`File that holds ${SECRETS[secret].what}, instead of ${secret}`);
}

/** Days for which something is kept; a hundred years at most. */
const DAYS_KEPT = wholeNumber(1, 36_500);
/** More than any catalogue has. */
const MOST_ITEMS = 1_000_000_000;

/**
 * Every setting: an environment variable with the schema of its text, its default as text, and one
 * line for `docs/settings.md` and `.env.example`, which are tested against this table.
 */
export const SETTINGS = {
  MARKETPLACE_URL: marketplaceUrl.describe(
    'Base address of the marketplace, such as https://market.example',
  ),
  MARKETPLACE_API_KEY: apiKey.describe('API key of the seller’s workspace'),
  MARKETPLACE_API_KEY_FILE: fileOf('MARKETPLACE_API_KEY'),
  SELLER_NAME: plainName('is not a seller name')
    .prefault('main')
    .describe('Name of the seller in the database: 1 to 63 letters, digits and . _ -'),
  SELLERS_FILE: z
    .string()
    .describe('JSON file with several sellers, instead of MARKETPLACE_URL and its key'),
  DATABASE_URL: databaseUrl.describe(
    'PostgreSQL to keep the mirror in; not set: an embedded server under DATA_DIR',
  ),
  DATABASE_URL_FILE: fileOf('DATABASE_URL'),
  DATA_DIR: z.string().prefault('./data').describe('Folder of the embedded PostgreSQL server'),
  REQUESTS_PER_MINUTE: wholeNumber(0, 1_000_000)
    .prefault('60')
    .describe(
      'Most requests a minute to one marketplace host; 0: no limit, and 48 calls of an audit at a time',
    ),
  MARKETPLACE_PARAMETERS: oneOf(['default', 'query', 'json'])
    .prefault('default')
    .describe(
      'How request parameters are sent: default (query on GET, form on POST), query or json',
    ),
  MARKETPLACE_KEY_HEADER: headerName.describe(
    'Name of a request header that carries the API key instead of a parameter',
  ),
  ALLOW_PLAIN_HTTP: yesOrNo
    .prefault('false')
    .describe('true: the API key may be sent unencrypted to an http:// address of another machine'),
  REMOVAL_GUARD_ITEMS: wholeNumber(0, MOST_ITEMS)
    .prefault('10')
    .describe(
      'A run that would remove more items than this, and more than REMOVAL_GUARD_PERCENT, is held',
    ),
  REMOVAL_GUARD_PERCENT: wholeNumber(0, 100)
    .prefault('20')
    .describe(
      'Percentage of the seller’s items; a run is held when it would remove more than both limits',
    ),
  LOOKUPS_PER_RUN: wholeNumber(0, MOST_ITEMS)
    .prefault('100')
    .describe(
      'Most unlisted items looked up in one run, twice if denied; 0: none, so nothing is removed',
    ),
  SYNC_CRON: cron
    .prefault('0 2 * * *')
    .describe('Cron expression: when account and items are mirrored; off: not on a schedule'),
  ACCOUNT_CRON: cron.describe(
    'Cron expression: when the account alone is mirrored, in addition; off means the same as not set',
  ),
  AUDIT_CRON: cron.describe(
    'Cron expression: when known purchase codes are asked for again; off means the same as not set',
  ),
  AUDIT_SHARE: wholeNumber(1, 100)
    .prefault('25')
    .describe('Percentage of the request budget that audits by AUDIT_CRON may use'),
  AUDIT_OLDER_THAN_DAYS: wholeNumber(1, 3_650)
    .prefault('30')
    .describe('AUDIT_CRON leaves codes alone that were checked within this many days'),
  TZ: timeZone.describe(
    'IANA time zone of the cron expressions, such as Europe/Berlin; not set: that of this machine',
  ),
  CATCH_UP: yesOrNo
    .prefault('true')
    .describe('true: at its start, a process does once what was due while nothing ran'),
  REDIS_URL: redisUrl.describe(
    'Redis or Valkey for the queue: redis[s]://, redis-sentinel:// or redis-cluster://; not set: the database',
  ),
  REDIS_URL_FILE: fileOf('REDIS_URL'),
  QUEUE_PREFIX: plainName('can’t begin the names in Redis')
    .prefault('seller-mirror')
    .describe('Keeps installations apart that share one Redis: letters, digits and . _ -'),
  WORKER_CONCURRENCY: wholeNumber(1, 100)
    .prefault('4')
    .describe('Jobs that one worker process does at a time, 1 to 100'),
  SHUTDOWN_TIMEOUT: wholeNumber(0, 3_600)
    .prefault('30')
    .describe('Seconds that running work gets to finish when the process is told to stop'),
  KEEP_JOBS_DAYS: wholeNumber(1, 365)
    .prefault('7')
    .describe('Days to keep finished jobs in the queue, 1 to 365'),
  KEEP_RAW_DAYS: DAYS_KEPT.describe(
    'Days to keep records as received, beside what was read from them; not set: for ever',
  ),
  KEEP_RUNS_DAYS: DAYS_KEPT.describe(
    'Days to keep runs that no kept row refers to; not set: for ever',
  ),
  KEEP_VERSIONS_DAYS: DAYS_KEPT.describe(
    'Days to keep superseded states of items and accounts; not set: for ever',
  ),
  KEEP_AUDITS_DAYS: DAYS_KEPT.describe(
    'Days to keep the lists of finished audits; not set: for ever',
  ),
  STALE_AFTER_HOURS: wholeNumber(1, 8_760)
    .prefault('26')
    .describe('Hours after its last success when a copy becomes stale'),
  HEALTH_LISTEN: listenAddress.describe(
    'Host and port of health and metrics; off: none; not set: 127.0.0.1:8790, or a free port when that is taken',
  ),
  DASHBOARD_LISTEN: listenAddress.describe(
    'Host and port of the dashboard; off: none; not set: 127.0.0.1:8791, or a free port when that is taken',
  ),
  DASHBOARD_HOSTS: hostNames.describe(
    'Names by which browsers may call the dashboard, with commas; its address and localhost always may',
  ),
  DASHBOARD_URL: pageUrl.describe(
    'Address under which people reach the dashboard; alerts carry links into it',
  ),
  DASHBOARD_TLS_CERT_FILE: z.string().describe('File with the dashboard’s certificate, PEM'),
  DASHBOARD_TLS_KEY_FILE: z.string().describe('File with the key of that certificate, PEM'),
  DASHBOARD_BEHIND_PROXY: yesOrNo
    .prefault('false')
    .describe('true: a reverse proxy with TLS is before the dashboard and passes on Host'),
  ALERT_WEBHOOK_URL: webhookUrl.describe(
    'Address that alerts are posted to; for ntfy it ends in the topic',
  ),
  ALERT_WEBHOOK_URL_FILE: fileOf('ALERT_WEBHOOK_URL'),
  ALERT_FORMAT: oneOf(['standard', 'slack', 'discord', 'ntfy'])
    .prefault('standard')
    .describe(
      'What is posted there: standard (signed as Standard Webhooks), slack, discord or ntfy',
    ),
  ALERT_WEBHOOK_SECRET: webhookSecret.describe(
    'Secret that standard alerts are signed with: whsec_ and the base64 of 24 to 64 bytes',
  ),
  ALERT_WEBHOOK_SECRET_FILE: fileOf('ALERT_WEBHOOK_SECRET'),
  ALERT_EMAIL: mailAddresses.describe(
    'Mail addresses that alerts are sent to, with commas; needs SMTP_URL',
  ),
  SMTP_URL: smtpUrl.describe(
    'Mail server of alerts: smtps://user:password@host or smtp:// (STARTTLS), ?from= the sender',
  ),
  SMTP_URL_FILE: fileOf('SMTP_URL'),
  FEEDS_FILE: z
    .string()
    .describe('JSON file with feeds: reporting databases and folders to keep up to date'),
  FEED_STALE_AFTER_HOURS: wholeNumber(1, 8_760)
    .prefault('3')
    .describe('Hours that a feed’s target may lack what it should have before people are told'),
  LOG_LEVEL: oneOf(['info', 'trace', 'debug', 'warn', 'error', 'fatal', 'silent'])
    .prefault('info')
    .describe('trace, debug, info, warn, error, fatal or silent'),
  LOG_FORMAT: oneOf(['auto', 'json', 'pretty'])
    .prefault('auto')
    .describe('json, pretty, or auto: pretty on a terminal and JSON elsewhere'),
} as const;

type Settings = typeof SETTINGS;
export type SettingName = keyof Settings;

/** The value of a setting once it is read; null only when it is not set and has no default. */
export type ValueOf<N extends SettingName> =
  z.output<Settings[N]> | (Settings[N] extends z.ZodPrefault ? never : null);

/** The text that means the same as not setting it; null when there is none. */
export function defaultOf(name: SettingName): string | null {
  const schema: z.ZodType = SETTINGS[name];
  return schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : null;
}
