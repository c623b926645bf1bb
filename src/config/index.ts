import { isLoopback, isSafeForKey, type ListenAddress } from '../domain/address.js';
import { Redactor } from '../domain/redact.js';
import type { Secret } from '../domain/secret.js';
import {
  ConfigError,
  type ConfigFiles,
  Findings,
  type RawValue,
  absolutePath,
  Reader,
  type ConfigOptions,
} from './reader.js';
import {
  HOW_TO_MAKE_A_SECRET,
  isMailAddress,
  UNENCRYPTED_REMEDY,
  DEFAULT_DASHBOARD,
  DEFAULT_HEALTH,
  zoneOfMachine,
} from './schemas.js';
import { readFeeds } from './feeds.js';
import type { ListEntry } from './list-file.js';
import { FALLBACK_SETTINGS, readSellers, type SellerEntry } from './sellers.js';
import { defaultOf, isSecretName, SETTINGS, type SettingName } from './settings.js';

export { ConfigError };
export type { FeedConfig } from './feeds.js';
export type { SellerConfig } from './sellers.js';
export { defaultOf, SETTINGS, type SettingName };
export type { ConfigFiles, ConfigOptions };

/** The environment of this process. Other folders must get it from here. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** The validated configuration. Safe to print: secrets mask themselves. */
export type Config = ReturnType<typeof read>['config'];

/**
 * Reads settings from the environment, `.env` and the files that they name. Checks every setting, even those
 * that this command does not need.
 * @throws {ConfigError} with all problems
 */
export function readConfig(env: NodeJS.ProcessEnv, options: ConfigOptions): Config {
  const { config, reader } = read(env, options);
  if (reader.findings.problems.length > 0) throw new ConfigError(reader.findings.problems);
  return config;
}

/**
 * Reads SELLERS_FILE again, and puts its sellers into `config`: whoever reads `config.sellers` later sees them. If
 * anything is wrong, the sellers stay as they are.
 * @returns the problems, and the names of sellers that are new or gone; null without SELLERS_FILE
 */
export function rereadSellers(config: Config, env: NodeJS.ProcessEnv, options: ConfigOptions) {
  const { config: fresh, reader } = read(env, options);
  if (reader.raw('SELLERS_FILE') === null) return null;
  const { problems } = reader.findings;
  if (problems.length > 0) return { problems, added: [], removed: [] };
  const namesOf = ({ sellers }: Pick<Config, 'sellers'>): string[] =>
    sellers.map(({ name }) => name);
  const [before, after] = [namesOf(config), namesOf(fresh)];
  const known = new Set(config.secrets.map((secret) => secret.reveal()));
  const secrets = fresh.secrets.filter((secret) => !known.has(secret.reveal()));
  // The log masks what it finds in this very list.
  for (const secret of secrets) (config.secrets as Secret[]).push(secret);
  Object.assign(config, { sellers: fresh.sellers });
  return {
    problems,
    added: after.filter((name) => !before.includes(name)),
    removed: before.filter((name) => !after.includes(name)),
  };
}

/** All settings with their sources, even if some are wrong. */
export function readConfigReport(env: NodeJS.ProcessEnv, options: ConfigOptions): ConfigReport {
  const { entries, reader } = read(env, options);
  const { findings } = reader;
  return {
    settings: (Object.keys(SETTINGS) as SettingName[]).map((name) => settingReport(name, reader)),
    sellers: entries.map((entry) => sellerReport(entry, reader)),
    problems: findings.problems,
    warnings: [...findings.warnings, ...findings.exposed],
  };
}

function read(env: NodeJS.ProcessEnv, options: ConfigOptions) {
  const findings = new Findings();
  const reader = new Reader(env, options, findings);
  const allowPlainHttp = reader.value('ALLOW_PLAIN_HTTP');
  const { sellers, entries } = readSellers(reader);
  checkPairs(reader);
  const settings = {
    sellers,
    /** Null: the embedded server in `dataDir`. */
    databaseUrl: reader.value('DATABASE_URL'),
    /** Absolute path. */
    dataDir: readDataDir(reader),
    allowPlainHttp,
    maxListBytes: reader.value('MAX_LIST_MB') * 1024 * 1024,
    removalGuard: {
      items: reader.value('REMOVAL_GUARD_ITEMS'),
      percent: reader.value('REMOVAL_GUARD_PERCENT'),
    },
    lookupsPerRun: reader.value('LOOKUPS_PER_RUN'),
    /** Null: the queue is in PostgreSQL. */
    redis: reader.value('REDIS_URL'),
    queuePrefix: reader.value('QUEUE_PREFIX'),
    workerConcurrency: reader.value('WORKER_CONCURRENCY'),
    recheck: {
      /** Part of the request budget, more than 0 and at most 1. */
      share: reader.value('AUDIT_SHARE') / 100,
      olderThanDays: reader.value('AUDIT_OLDER_THAN_DAYS'),
    },
    catchUp: reader.value('CATCH_UP'),
    shutdownTimeoutMs: reader.value('SHUTDOWN_TIMEOUT') * 1_000,
    keepJobsDays: reader.value('KEEP_JOBS_DAYS'),
    staleAfterHours: reader.value('STALE_AFTER_HOURS'),
    /** Days to keep data; null: forever. */
    retention: {
      raw: reader.value('KEEP_RAW_DAYS'),
      runs: reader.value('KEEP_RUNS_DAYS'),
      versions: reader.value('KEEP_VERSIONS_DAYS'),
      audits: reader.value('KEEP_AUDITS_DAYS'),
    },
    /** Null: no endpoints. */
    health: readHealth(reader),
    dashboard: readDashboard(reader),
    api: {
      /** Null: no look-up API. */
      listen: orOff(reader.value('API_LISTEN')),
      /** Part of the request budget, more than 0 and at most 1. */
      share: reader.value('API_SHARE') / 100,
    },
    /** Null: alerts are not posted. */
    alertWebhook: readAlertWebhook(reader),
    /** Null: alerts are not mailed. */
    alertMail: readAlertMail(reader),
    /** Types of alerts that nobody wants. */
    alertsOff: reader.value('ALERTS_OFF') ?? [],
    /** Null: no monitor is told of scheduled syncs. */
    pingUrl: readReceiver(reader, 'PING_URL'),
    /** Texts for customers, by what was found about their codes. */
    replies: {
      valid: reader.value('REPLY_VALID'),
      no_longer_valid: reader.value('REPLY_NO_LONGER_VALID'),
      invalid: reader.value('REPLY_INVALID'),
      unproven: reader.value('REPLY_UNPROVEN'),
      not_a_code: reader.value('REPLY_NOT_A_CODE'),
    },
    feeds: readFeeds(reader),
    feedStaleAfterHours: reader.value('FEED_STALE_AFTER_HOURS'),
    logLevel: reader.value('LOG_LEVEL'),
    logFormat: reader.value('LOG_FORMAT'),
  } as const;
  const config = {
    ...settings,
    /** Keys, passwords, tokens, and addresses that contain them. No log line may show them. */
    secrets: findings.secrets as readonly Secret[],
    /** Sentences without secrets. */
    warnings: findings.warnings as readonly string[],
    /** Sentences about secrets that other users of this machine can read. They don't contain the secrets. */
    exposedSecrets: findings.exposed as readonly string[],
  } as const;
  return { config, entries, reader };
}

function readDataDir(reader: Reader): string {
  const path = absolutePath(reader.options.cwd, reader.value('DATA_DIR'));
  if (reader.files.find(path)?.isFolder === false) {
    const message = 'is not a folder: name a folder; it is created if it does not exist';
    reader.findings.problem('DATA_DIR', message);
  }
  return path;
}

function readHealth(reader: Reader): ListenAddress | null {
  const health = orOff(reader.value('HEALTH_LISTEN') ?? DEFAULT_HEALTH);
  if (health !== null && !isLoopback(health.host)) {
    reader.findings.warning(
      'HEALTH_LISTEN',
      'opens health and metrics to other machines without a login: use it only in a network you trust, or listen on 127.0.0.1',
    );
  }
  return health;
}

/** Settings that do nothing without another one. */
const PAIRS: readonly (readonly [
  name: SettingName,
  other: SettingName,
  kind: 'problem' | 'warning',
])[] = [
  ['DASHBOARD_TLS_CERT_FILE', 'DASHBOARD_TLS_KEY_FILE', 'problem'],
  ['DASHBOARD_TLS_KEY_FILE', 'DASHBOARD_TLS_CERT_FILE', 'problem'],
  ['ALERT_EMAIL', 'SMTP_URL', 'problem'],
  ['SMTP_URL', 'ALERT_EMAIL', 'warning'],
  ['ALERT_WEBHOOK_SECRET', 'ALERT_WEBHOOK_URL', 'warning'],
];

function checkPairs(reader: Reader): void {
  for (const [name, other, kind] of PAIRS) {
    if (!reader.isSet(name) || reader.isSet(other)) continue;
    reader.findings[kind](name, `does nothing without ${other}: set both, or neither`);
  }
}

function readDashboard(reader: Reader) {
  const pathOf = (name: 'DASHBOARD_TLS_CERT_FILE' | 'DASHBOARD_TLS_KEY_FILE'): string | null => {
    const path = reader.value(name);
    return path === null ? null : absolutePath(reader.options.cwd, path);
  };
  const certFile = pathOf('DASHBOARD_TLS_CERT_FILE');
  const keyFile = pathOf('DASHBOARD_TLS_KEY_FILE');
  return {
    /** Null: no dashboard. */
    listen: orOff(reader.value('DASHBOARD_LISTEN') ?? DEFAULT_DASHBOARD),
    hosts: reader.value('DASHBOARD_HOSTS') ?? [],
    /** Null: the address where it listens. */
    url: reader.value('DASHBOARD_URL'),
    /** Absolute paths; null: plain HTTP. */
    tls: certFile === null || keyFile === null ? null : { certFile, keyFile },
    isBehindProxy: reader.value('DASHBOARD_BEHIND_PROXY'),
  };
}

function orOff(listen: ListenAddress | 'off' | null): ListenAddress | null {
  return listen === 'off' ? null : listen;
}

/** An address that gets data, and that may contain a token. */
function readReceiver(reader: Reader, name: 'ALERT_WEBHOOK_URL' | 'PING_URL'): Secret | null {
  const url = reader.value(name);
  if (url !== null && !isSafeForKey(new URL(url.reveal()), reader.value('ALLOW_PLAIN_HTTP'))) {
    reader.findings.problem(name, `would be sent unencrypted: ${UNENCRYPTED_REMEDY}`);
  }
  return url;
}

function readAlertWebhook(reader: Reader) {
  const { findings } = reader;
  const url = readReceiver(reader, 'ALERT_WEBHOOK_URL');
  const secret = reader.value('ALERT_WEBHOOK_SECRET');
  const format = reader.value('ALERT_FORMAT');
  if (url !== null && format === 'ntfy' && /^\/?$/.test(new URL(url.reveal()).pathname)) {
    findings.problem(
      'ALERT_WEBHOOK_URL',
      'has no topic, which ALERT_FORMAT=ntfy needs: end it with a topic, such as https://ntfy.sh/my-topic',
    );
  }
  if (url !== null && format === 'telegram' && !isTelegram(new URL(url.reveal()))) {
    findings.problem(
      'ALERT_WEBHOOK_URL',
      'has no bot or no chat, which ALERT_FORMAT=telegram needs: write it as https://api.telegram.org/bot<token>/sendMessage?chat_id=<chat>',
    );
  }
  const isSigned = format === 'standard';
  if (isSigned && reader.isSet('ALERT_WEBHOOK_URL') && !reader.isSet('ALERT_WEBHOOK_SECRET')) {
    findings.problem(
      'ALERT_WEBHOOK_SECRET',
      `is not set, but ALERT_WEBHOOK_URL is, and standard alerts are always signed: set it to the secret with which the receiver checks signatures (${HOW_TO_MAKE_A_SECRET}), or set ALERT_FORMAT to slack, discord, ntfy or telegram`,
    );
  }
  if (url === null || (isSigned && secret === null)) return null;
  return { url, format, secret: isSigned ? secret : null };
}

/** The address of a bot’s method, with the chat that it writes to. */
function isTelegram({ pathname, searchParams }: URL): boolean {
  return /\/bot[^/]+\/sendMessage$/.test(pathname) && (searchParams.get('chat_id') ?? '') !== '';
}

function readAlertMail(reader: Reader) {
  const [to, server] = [reader.value('ALERT_EMAIL'), reader.value('SMTP_URL')];
  const [first] = to ?? [];
  if (to === null || first === undefined || server === null) return null;
  const { host, user } = server;
  return {
    ...server,
    to,
    from: server.from ?? (user !== null && isMailAddress(user) ? user : first),
    /** Mail may be sent without TLS: the server is this machine, or ALLOW_PLAIN_HTTP is set. */
    mayBePlain: isLoopback(host) || reader.value('ALLOW_PLAIN_HTTP'),
  };
}

export interface SettingReport {
  readonly name: string;
  /** Null for secrets and wrong values, and if it is not set and has no default. */
  readonly value: string | null;
  /** Null if it is not set and has no default. */
  readonly from: 'environment' | '.env' | 'sellers file' | 'default' | 'this machine' | null;
  readonly isSecret: boolean;
}

/** The settings, where each comes from, and their problems. Contains no secrets. */
export interface ConfigReport {
  readonly settings: readonly SettingReport[];
  /** The sellers of the sellers file. Fields that an entry leaves out come from the settings. */
  readonly sellers: readonly {
    readonly name: string;
    readonly settings: readonly SettingReport[];
  }[];
  /** Sentences, each with a remedy after its last colon. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

function settingReport(name: SettingName, reader: Reader): SettingReport {
  const isSecret = isSecretName(name);
  const raw = reader.raw(name);
  if (raw !== null) {
    const value = isSecret ? null : shownValue(raw, reader.findings);
    return { name, value, from: reader.sourceOf(name), isSecret };
  }
  if (name === 'TZ') return { name, value: zoneOfMachine(), from: 'this machine', isSecret };
  const value = defaultOf(name);
  return { name, value, from: value === null ? null : 'default', isSecret };
}

/** Null if the value is wrong: it may be a secret in the wrong place. A right one may be so, too. */
function shownValue({ where, text }: RawValue, { wrong, secrets }: Findings): string | null {
  return wrong.has(where) ? null : new Redactor(secrets).text(text);
}

function sellerReport(
  { where, entry: { name: seller, ...entry } }: ListEntry<SellerEntry>,
  reader: Reader,
): ConfigReport['sellers'][number] {
  const shown = (field: string, value: unknown): string | null =>
    shownValue({ where: `${where}.${field}`, text: String(value) }, reader.findings);
  const own = Object.entries(entry).map(([name, value]): SettingReport => {
    return { name, value: shown(name, value), from: 'sellers file', isSecret: false };
  });
  const others = Object.entries(FALLBACK_SETTINGS)
    .filter(([field]) => !(field in entry))
    .map(([field, setting]) => ({ ...settingReport(setting, reader), name: field }));
  return { name: shown('name', seller) ?? where, settings: [...own, ...others] };
}

/** Calls a minute that look-ups of a seller may make. Infinity: no limit, or the seller is not configured here. */
export function callsAllowed({ sellers, api }: Config): (seller: string) => number {
  const budgets = new Map(sellers.map((one) => [one.name, one.requestsPerMinute]));
  return (seller) => (budgets.get(seller) || Infinity) * api.share;
}
