import { z } from 'zod';
import {
  alertTypes,
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

/**
 * The settings that hold a secret. For each there is a setting `…_FILE` that names a file with the secret.
 * `parts` finds the parts of a value that must be masked too.
 */
export const SECRETS = {
  MARKETPLACE_API_KEY: { what: 'the API key', parts: () => [] },
  DATABASE_URL: { what: 'the database’s address', parts: passwordsIn },
  REDIS_URL: {
    what: 'the address of Redis',
    // The query may contain a password under any option name.
    parts: (url) => [...passwordsIn(url), /\?[^=]*=(.*)$/s.exec(url)?.[1] ?? ''],
  },
  ALERT_WEBHOOK_URL: { what: 'the webhook’s address', parts: tokensIn },
  ALERT_WEBHOOK_SECRET: {
    what: 'the webhook’s secret',
    // It may appear elsewhere without the prefix.
    parts: (secret) => [secret.replace(/^whsec_/, '')],
  },
  SMTP_URL: { what: 'the address of the mail server', parts: passwordsIn },
  PING_URL: { what: 'the address of the monitor', parts: tokensIn },
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

/** A text for customers. Names in braces are filled in; `\n` begins a new line. */
function reply(text: string, about: string) {
  return z.string().prefault(text).describe(about);
}

const DAYS_KEPT = wholeNumber(1, 36_500);
/** More than any catalogue has. */
const MAX_ITEMS = 1_000_000_000;

/**
 * Every setting: an environment variable with a schema, a default, and a description. Tests compare
 * `docs/settings.md` and `.env.example` with this table.
 */
export const SETTINGS = {
  // What everybody sets
  MARKETPLACE_URL: marketplaceUrl.describe(
    'Base address of the marketplace, such as https://market.example',
  ),
  MARKETPLACE_API_KEY: apiKey.describe('API key of the seller’s workspace'),
  MARKETPLACE_API_KEY_FILE: fileOf('MARKETPLACE_API_KEY'),
  REQUESTS_PER_MINUTE: wholeNumber(0, 1_000_000)
    .prefault('60')
    .describe(
      'Maximum requests per minute to one marketplace host; 0: no limit, and checks of codes make 48 calls at a time',
    ),
  SYNC_CRON: cron
    .prefault('0 2 * * *')
    .describe('Cron expression for mirroring account and items; off: no schedule'),
  TZ: timeZone.describe(
    'IANA time zone of the cron expressions, such as Europe/Berlin; not set: the machine’s zone',
  ),

  // Marketplace and sellers
  SELLER_NAME: plainName('is not a seller name')
    .prefault('main')
    .describe('Name of the seller in the database: 1 to 63 letters, digits and . _ -'),
  SELLERS_FILE: z
    .string()
    .describe('JSON file with several sellers, instead of MARKETPLACE_URL and its key'),
  MARKETPLACE_PARAMETERS: oneOf(['default', 'query', 'json'])
    .prefault('default')
    .describe(
      'How request parameters are sent: default (query on GET, form on POST), query or json',
    ),
  MARKETPLACE_KEY_HEADER: headerName.describe(
    'Request header that carries the API key, instead of a parameter',
  ),
  LIST_MARKS: oneOf(['check', 'ignore'])
    .prefault('check')
    .describe(
      'How a list is read that says it is one page of several: check (it is refused) or ignore (it is taken for whole)',
    ),
  MAX_LIST_MB: wholeNumber(1, 4_096)
    .prefault('512')
    .describe('Largest list of items that is read, in MB; it is held in memory'),
  ALLOW_PLAIN_HTTP: yesOrNo
    .prefault('false')
    .describe('true: allow sending the API key unencrypted to http:// on another machine'),

  // Database and queue
  DATABASE_URL: databaseUrl.describe(
    'PostgreSQL database for the mirror; not set: an embedded server in DATA_DIR',
  ),
  DATABASE_URL_FILE: fileOf('DATABASE_URL'),
  DATA_DIR: z.string().prefault('./data').describe('Folder of the embedded PostgreSQL server'),
  REDIS_URL: redisUrl.describe(
    'Redis or Valkey for the queue, redis:// or rediss://; not set: PostgreSQL',
  ),
  REDIS_URL_FILE: fileOf('REDIS_URL'),
  QUEUE_PREFIX: plainName('is not a prefix for keys in Redis')
    .prefault('seller-mirror')
    .describe(
      'Prefix of keys in a Redis that several installations share: letters, digits and . _ -',
    ),
  WORKER_CONCURRENCY: wholeNumber(1, 100)
    .prefault('4')
    .describe('Jobs that one worker process runs at the same time, 1 to 100'),
  SHUTDOWN_TIMEOUT: wholeNumber(0, 3_600)
    .prefault('30')
    .describe('Seconds that running work gets to finish when the process stops'),
  CATCH_UP: yesOrNo
    .prefault('true')
    .describe('true: at its start, a process runs each missed schedule once'),

  // What is mirrored, checked and kept
  ACCOUNT_CRON: cron.describe(
    'Cron expression for mirroring only the account, in addition; off or not set: no schedule',
  ),
  REMOVAL_GUARD_ITEMS: wholeNumber(0, MAX_ITEMS)
    .prefault('10')
    .describe(
      'A run holds its removals, for you to accept, if they are more items than this and more than REMOVAL_GUARD_PERCENT',
    ),
  REMOVAL_GUARD_PERCENT: wholeNumber(0, 100)
    .prefault('20')
    .describe(
      'Percentage of the seller’s items; a run holds its removals if they are more than both limits',
    ),
  LOOKUPS_PER_RUN: wholeNumber(0, MAX_ITEMS)
    .prefault('100')
    .describe('Maximum unlisted items asked for by id in one run; 0: none, so nothing is removed'),
  AUDIT_CRON: cron.describe(
    'Cron expression for checking known purchase codes again; off or not set: no schedule',
  ),
  AUDIT_SHARE: wholeNumber(1, 100)
    .prefault('25')
    .describe('Percentage of the request budget that rechecks by AUDIT_CRON may use'),
  AUDIT_OLDER_THAN_DAYS: wholeNumber(1, 3_650)
    .prefault('30')
    .describe('AUDIT_CRON skips codes that were checked within this many days'),
  KEEP_JOBS_DAYS: wholeNumber(1, 365)
    .prefault('7')
    .describe('Days to keep finished jobs in the queue, 1 to 365'),
  KEEP_RAW_DAYS: DAYS_KEPT.describe(
    'Days to keep records as received, beside their decoded fields; not set: forever',
  ),
  KEEP_RUNS_DAYS: DAYS_KEPT.describe(
    'Days to keep runs that no kept row refers to; not set: forever',
  ),
  KEEP_VERSIONS_DAYS: DAYS_KEPT.describe(
    'Days to keep superseded states of items and accounts; not set: forever',
  ),
  KEEP_AUDITS_DAYS: DAYS_KEPT.describe(
    'Days to keep the lists of finished checks; not set: forever',
  ),

  // Alerts and feeds
  STALE_AFTER_HOURS: wholeNumber(1, 8_760)
    .prefault('26')
    .describe('Hours after its last successful run when a copy counts as stale'),
  ALERT_WEBHOOK_URL: webhookUrl.describe(
    'Address to which alerts are posted; ntfy: with the topic; telegram: with token and chat_id',
  ),
  ALERT_WEBHOOK_URL_FILE: fileOf('ALERT_WEBHOOK_URL'),
  ALERT_FORMAT: oneOf(['standard', 'slack', 'discord', 'ntfy', 'telegram'])
    .prefault('standard')
    .describe(
      'Format of posted alerts: standard (signed as Standard Webhooks), slack, discord, ntfy or telegram',
    ),
  ALERT_WEBHOOK_SECRET: webhookSecret.describe(
    'Secret that signs standard alerts: whsec_ and the base64 of 24 to 64 bytes',
  ),
  ALERT_WEBHOOK_SECRET_FILE: fileOf('ALERT_WEBHOOK_SECRET'),
  ALERT_EMAIL: mailAddresses.describe(
    'Mail addresses that get alerts, comma-separated; needs SMTP_URL',
  ),
  SMTP_URL: smtpUrl.describe(
    'Mail server for alerts: smtps://user:password@host or smtp:// (STARTTLS); ?from= sets the sender',
  ),
  SMTP_URL_FILE: fileOf('SMTP_URL'),
  ALERTS_OFF: alertTypes.describe(
    'Types of alerts that are not sent, comma-separated, such as balance.changed,items.removed',
  ),
  PING_URL: webhookUrl.describe(
    'Address of a monitor that is told of each scheduled sync; {seller} becomes the seller’s name',
  ),
  PING_URL_FILE: fileOf('PING_URL'),
  FEEDS_FILE: z
    .string()
    .describe('JSON file with feeds: reporting databases and folders to keep up to date'),
  FEED_STALE_AFTER_HOURS: wholeNumber(1, 8_760)
    .prefault('3')
    .describe('Hours that rows may wait for a feed’s target before an alert'),

  // Replies to customers
  REPLY_VALID: reply(
    'Hello {name},\\n\\nyour purchase code is valid: {licence} for {item}, {support}.',
    'Reply about a valid code',
  ),
  REPLY_NO_LONGER_VALID: reply(
    'Hello {name},\\n\\nyour purchase code for {item} was valid until {last_valid} and is no longer valid. This happens after a refund or when a payment is reversed. Please look at your orders on the marketplace. If the purchase is still there, send us the order number and we will look again.',
    'Reply about a code that was valid before',
  ),
  REPLY_INVALID: reply(
    'Hello {name},\\n\\nthe marketplace does not know the code {code}. Please copy it again from your downloads there; it may have lost a character. If you bought through another shop, tell us which.',
    'Reply about a code that the marketplace does not know',
  ),
  REPLY_UNPROVEN: reply(
    'Hello {name},\\n\\nwe could not check your code yet, because the marketplace does not answer. We will look again and write to you.',
    'Reply about a code without a verdict',
  ),
  REPLY_NOT_A_CODE: reply(
    'Hello {name},\\n\\nwe have no purchase code from you. You find it on the marketplace, beside the purchase in your downloads.',
    'Reply about a line without a code',
  ),

  // Addresses that the program listens on, and logs
  HEALTH_LISTEN: listenAddress.describe(
    'Host and port of health and metrics; off: none; not set: 127.0.0.1:8790, or a free port if that is taken',
  ),
  DASHBOARD_LISTEN: listenAddress.describe(
    'Host and port of the dashboard; off: none; not set: 127.0.0.1:8791, or a free port if that is taken',
  ),
  API_LISTEN: listenAddress.describe(
    'Host and port of the look-up API for your own programs, such as 127.0.0.1:8792; not set: off',
  ),
  API_SHARE: wholeNumber(1, 100)
    .prefault('25')
    .describe('Percent of the request budget that look-ups may use'),
  DASHBOARD_HOSTS: hostNames.describe(
    'Host names by which browsers may reach the dashboard, comma-separated; its address and localhost always work',
  ),
  DASHBOARD_URL: pageUrl.describe('Address at which people reach the dashboard; alerts link to it'),
  DASHBOARD_TLS_CERT_FILE: z.string().describe('PEM file with the dashboard’s certificate'),
  DASHBOARD_TLS_KEY_FILE: z.string().describe('PEM file with the key of that certificate'),
  DASHBOARD_BEHIND_PROXY: yesOrNo
    .prefault('false')
    .describe('true: a reverse proxy with TLS is in front of the dashboard and forwards Host'),
  LOG_LEVEL: oneOf(['info', 'trace', 'debug', 'warn', 'error', 'fatal', 'silent'])
    .prefault('info')
    .describe('trace, debug, info, warn, error, fatal or silent'),
  LOG_FORMAT: oneOf(['auto', 'json', 'pretty'])
    .prefault('auto')
    .describe('json, pretty, or auto: pretty on a terminal and JSON elsewhere'),
} as const;

type Settings = typeof SETTINGS;
export type SettingName = keyof Settings;

/** The value of a setting; null only if it is not set and has no default. */
export type ValueOf<N extends SettingName> =
  z.output<Settings[N]> | (Settings[N] extends z.ZodPrefault ? never : null);

/** The default of a setting as text; null if it has none. */
export function defaultOf(name: SettingName): string | null {
  const schema: z.ZodType = SETTINGS[name];
  return schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : null;
}
