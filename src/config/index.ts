import { statSync } from 'node:fs';
import { isLoopback, isSafeForKey } from '../domain/address.js';
import { Findings } from './findings.js';
import { absolutePath, Reader, type ConfigOptions } from './reader.js';
import {
  HOW_TO_MAKE_A_SECRET,
  isMailAddress,
  UNENCRYPTED_REMEDY,
  USUAL_DASHBOARD,
  USUAL_HEALTH,
  type ListenAddress,
  zoneOfMachine,
} from './schemas.js';
import { readFeeds } from './feeds.js';
import type { ListEntry } from './list-file.js';
import { readSellers, SETTING_OF_FIELD, type SellerEntry } from './sellers.js';
import { defaultOf, isSecretName, SETTINGS, type SettingName } from './settings.js';

export { ConfigError } from './findings.js';
export type { FeedConfig, FeedTarget } from './feeds.js';
export type { SellerConfig } from './sellers.js';
export { defaultOf, SETTINGS, type SettingName };
export type { ConfigOptions };

/** The environment of this process. All else of the product gets it from here. */
export function processEnvironment(): NodeJS.ProcessEnv {
  return process.env;
}

/** Everything the product can be told from outside, checked. It can be printed: secrets mask themselves. */
export type Config = ReturnType<typeof read>['config'];

/** @throws {ConfigError} with everything that is wrong with the configuration of this process */
export function loadConfig(
  needs: ConfigOptions['needs'],
  cronFault: ConfigOptions['cronFault'],
): Config {
  return readConfig(processEnvironment(), { cwd: process.cwd(), needs, cronFault });
}

/**
 * Reads settings from the environment, `.env` and the files they name, and checks every one that
 * is given, needed or not.
 * @throws {ConfigError} with everything that is wrong with them
 */
export function readConfig(env: NodeJS.ProcessEnv, options: ConfigOptions): Config {
  const { config, reader } = read(env, options);
  reader.findings.throwIfAny();
  return config;
}

/** What the settings are and where each comes from, wrong ones too. */
export function readConfigReport(env: NodeJS.ProcessEnv, options: ConfigOptions): ConfigReport {
  const { entries, reader } = read(env, options);
  const { findings } = reader;
  return {
    settings: (Object.keys(SETTINGS) as SettingName[]).map((name) => settingReport(name, reader)),
    sellers: (entries ?? []).map((one) => sellerReport(one, reader)),
    problems: findings.sentences('problem'),
    warnings: [...findings.sentences('warning'), ...findings.sentences('exposed')],
  };
}

function read(env: NodeJS.ProcessEnv, options: ConfigOptions) {
  const findings = new Findings();
  const reader = new Reader(env, options, findings);
  const allowPlainHttp = reader.value('ALLOW_PLAIN_HTTP');
  const { sellers, entries } = readSellers(reader);
  const settings = {
    sellers,
    /** null: the embedded server under `dataDir`. */
    databaseUrl: reader.value('DATABASE_URL'),
    /** Absolute. */
    dataDir: readDataDir(reader),
    allowPlainHttp,
    removalGuard: {
      items: reader.value('REMOVAL_GUARD_ITEMS'),
      percent: reader.value('REMOVAL_GUARD_PERCENT'),
    },
    lookupsPerRun: reader.value('LOOKUPS_PER_RUN'),
    /** null: the queue is in the database. */
    redis: reader.value('REDIS_URL'),
    queuePrefix: reader.value('QUEUE_PREFIX'),
    workerConcurrency: reader.value('WORKER_CONCURRENCY'),
    recheck: {
      /** Of the request budget, more than 0 and at most 1. */
      share: reader.value('AUDIT_SHARE') / 100,
      olderThanDays: reader.value('AUDIT_OLDER_THAN_DAYS'),
    },
    catchUp: reader.value('CATCH_UP'),
    shutdownTimeoutMs: reader.value('SHUTDOWN_TIMEOUT') * 1_000,
    keepJobsDays: reader.value('KEEP_JOBS_DAYS'),
    staleAfterHours: reader.value('STALE_AFTER_HOURS'),
    /** Days for which the store keeps what; null: for ever. */
    retention: {
      raw: reader.value('KEEP_RAW_DAYS'),
      runs: reader.value('KEEP_RUNS_DAYS'),
      versions: reader.value('KEEP_VERSIONS_DAYS'),
      audits: reader.value('KEEP_AUDITS_DAYS'),
    },
    /** null: no endpoints. */
    health: readHealth(reader),
    dashboard: readDashboard(reader),
    /** Where alerts are posted to; null: nowhere. */
    alertWebhook: readAlertWebhook(reader),
    /** Whom alerts are mailed to; null: nobody. */
    alertMail: readAlertMail(reader),
    feeds: readFeeds(reader),
    feedStaleAfterHours: reader.value('FEED_STALE_AFTER_HOURS'),
    logLevel: reader.value('LOG_LEVEL'),
    logFormat: reader.value('LOG_FORMAT'),
  } as const;
  const config = {
    ...settings,
    /** Keys, passwords and tokens, and the addresses that hold them: no log line may show one. */
    secrets: findings.secrets,
    /** Sentences for a person; they hold no secret. */
    warnings: findings.sentences('warning'),
    /** Sentences on secrets that other users of this machine can read; they hold no secret. */
    exposedSecrets: findings.sentences('exposed'),
  } as const;
  return { config, entries, reader };
}

/** What can't even be looked at, the store explains. */
function readDataDir(reader: Reader): string {
  const text = reader.value('DATA_DIR');
  const path = absolutePath(reader.options.cwd, text);
  if (isNoFolder(path)) {
    const given = { where: 'DATA_DIR', text };
    reader.findings.problem(
      given,
      'is not a folder: name a folder; it is made when it is not there',
    );
  }
  return path;
}

function isNoFolder(path: string): boolean {
  try {
    return !statSync(path).isDirectory();
  } catch {
    return false;
  }
}

function readHealth(reader: Reader): ListenAddress | null {
  const health = reader.value('HEALTH_LISTEN') ?? USUAL_HEALTH;
  if (health === 'off') return null;
  if (!isLoopback(health.host)) {
    reader.findings.warning(
      reader.given('HEALTH_LISTEN') ?? 'HEALTH_LISTEN',
      'opens health and metrics to other machines, without a login: keep it within a network you trust, or listen on 127.0.0.1',
    );
  }
  return health;
}

function readDashboard(reader: Reader) {
  const listen = reader.value('DASHBOARD_LISTEN') ?? USUAL_DASHBOARD;
  const pathIn = (name: 'DASHBOARD_TLS_CERT_FILE' | 'DASHBOARD_TLS_KEY_FILE'): string | null => {
    const path = reader.value(name);
    return path === null ? null : absolutePath(reader.options.cwd, path);
  };
  const certFile = pathIn('DASHBOARD_TLS_CERT_FILE');
  const keyFile = pathIn('DASHBOARD_TLS_KEY_FILE');
  if ((certFile === null) !== (keyFile === null)) {
    const missing = certFile === null ? 'DASHBOARD_TLS_CERT_FILE' : 'DASHBOARD_TLS_KEY_FILE';
    reader.findings.problem(missing, 'is not set, but its other half is: TLS needs both');
  }
  return {
    /** null: no dashboard. */
    listen: listen === 'off' ? null : listen,
    hosts: reader.value('DASHBOARD_HOSTS') ?? [],
    /** null: where it listens. */
    url: reader.value('DASHBOARD_URL'),
    /** Absolute paths; null: no TLS of its own. */
    tls: certFile === null || keyFile === null ? null : { certFile, keyFile },
    isBehindProxy: reader.value('DASHBOARD_BEHIND_PROXY'),
  };
}

/** The address and the secret are secrets both: addresses of webhooks often contain a token. */
function readAlertWebhook(reader: Reader) {
  const { findings } = reader;
  const [url, secret] = [reader.value('ALERT_WEBHOOK_URL'), reader.value('ALERT_WEBHOOK_SECRET')];
  const format = reader.value('ALERT_FORMAT');
  const urlPlace = givenAt(reader, 'ALERT_WEBHOOK_URL');
  const secretPlace = givenAt(reader, 'ALERT_WEBHOOK_SECRET');
  if (url !== null && !isSafeForKey(new URL(url.reveal()), reader.value('ALLOW_PLAIN_HTTP'))) {
    findings.problem(urlPlace ?? '', `would get alerts unencrypted: ${UNENCRYPTED_REMEDY}`);
  }
  if (url !== null && format === 'ntfy' && /^\/?$/.test(new URL(url.reveal()).pathname)) {
    findings.problem(
      urlPlace ?? '',
      'names no topic, which ALERT_FORMAT=ntfy needs: end it in one, such as https://ntfy.sh/my-topic',
    );
  }
  if (urlPlace !== undefined && secretPlace === undefined && format === 'standard') {
    findings.problem(
      'ALERT_WEBHOOK_SECRET',
      `is not set, but ALERT_WEBHOOK_URL is, and standard alerts are never sent unsigned: set it to what the receiver checks signatures with (${HOW_TO_MAKE_A_SECRET}), or set ALERT_FORMAT to slack, discord or ntfy`,
    );
  }
  if (secretPlace !== undefined && urlPlace === undefined) {
    findings.warning(
      secretPlace,
      'is set without ALERT_WEBHOOK_URL, so no alerts are posted: set ALERT_WEBHOOK_URL, or take the secret away',
    );
  }
  if (format !== 'standard' && urlPlace === undefined) {
    findings.warning(
      'ALERT_FORMAT',
      'is set without ALERT_WEBHOOK_URL and does nothing: set ALERT_WEBHOOK_URL too',
    );
  }
  if (url === null) return null;
  const isSigned = format === 'standard';
  if (isSigned && secret === null) return null;
  return { url, format, secret: isSigned ? secret : null };
}

/** Whom alerts are mailed to, and by which server. */
function readAlertMail(reader: Reader) {
  const { findings } = reader;
  const [to, server] = [reader.value('ALERT_EMAIL'), reader.value('SMTP_URL')];
  const [toPlace, serverPlace] = [givenAt(reader, 'ALERT_EMAIL'), givenAt(reader, 'SMTP_URL')];
  if (toPlace !== undefined && serverPlace === undefined) {
    findings.problem(
      'SMTP_URL',
      'is not set, but ALERT_EMAIL is: name the mail server that takes your mail, such as smtps://user:password@mail.example',
    );
  }
  if (toPlace === undefined && serverPlace !== undefined) {
    findings.warning(
      serverPlace,
      'is set without ALERT_EMAIL, so no alerts are mailed: set ALERT_EMAIL, or take the server away',
    );
  }
  const [first] = to ?? [];
  if (to === null || first === undefined || server === null) return null;
  const { host, user } = server;
  return {
    ...server,
    to,
    from: server.from ?? (user !== null && isMailAddress(user) ? user : first),
    /** The server may be spoken to without TLS: it is this machine, or the setting says so. */
    mayBePlain: isLoopback(host) || reader.value('ALLOW_PLAIN_HTTP'),
  };
}

/** Where a setting is given, itself or as a file; also of one that could not be read, which was reported. */
function givenAt(
  reader: Reader,
  name: 'ALERT_WEBHOOK_URL' | 'ALERT_WEBHOOK_SECRET' | 'ALERT_EMAIL' | 'SMTP_URL',
): string | undefined {
  const file = name === 'ALERT_EMAIL' ? null : reader.given(`${name}_FILE`);
  return (reader.given(name) ?? file)?.where;
}

export interface SettingReport {
  readonly name: string;
  /** Null when it is not set and has no default, and of a secret. */
  readonly value: string | null;
  /** Null when it is not set and has no default. */
  readonly from: 'environment' | '.env' | 'sellers file' | 'default' | 'this machine' | null;
  readonly isSecret: boolean;
}

/** What the settings are, where each comes from, and what is wrong with them. No secret is in it. */
export interface ConfigReport {
  readonly settings: readonly SettingReport[];
  /** Those of the sellers file, each with its fields; for fields it leaves out, the settings hold. */
  readonly sellers: readonly {
    readonly name: string;
    readonly settings: readonly SettingReport[];
  }[];
  /** Sentences, each with a remedy behind its last colon. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

function settingReport(name: SettingName, reader: Reader): SettingReport {
  const isSecret = isSecretName(name);
  const given = reader.given(name);
  if (given !== null) {
    const value = isSecret ? null : reader.findings.shownValue(name, given.text);
    return { name, value, from: reader.sourceOf(name), isSecret };
  }
  if (name === 'TZ') return { name, value: zoneOfMachine(), from: 'this machine', isSecret };
  const usual = defaultOf(name);
  return { name, value: usual, from: usual === null ? null : 'default', isSecret };
}

function sellerReport(
  { where, entry: { name: seller, ...entry } }: ListEntry<SellerEntry>,
  reader: Reader,
): ConfigReport['sellers'][number] {
  const shown = (field: string, value: unknown): string =>
    reader.findings.shownValue(`${where}.${field}`, String(value));
  const own = Object.entries(entry).map(([name, value]): SettingReport => {
    return { name, value: shown(name, value), from: 'sellers file', isSecret: false };
  });
  const others = Object.entries(SETTING_OF_FIELD)
    .filter(([field]) => !(field in entry))
    .map(([field, setting]) => ({ ...settingReport(setting, reader), name: field }));
  return { name: shown('name', seller), settings: [...own, ...others] };
}
