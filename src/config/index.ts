import { statSync } from 'node:fs';
import { isLoopback, mayCarryKey } from '../domain/address.js';
import type { Secret } from '../domain/secret.js';
import { Findings } from './findings.js';
import { absolutePath, processEnvironment, Reader } from './reader.js';
import { reportOf, type ConfigReport } from './report.js';
import {
  HOW_TO_MAKE_A_SECRET,
  UNENCRYPTED_REMEDY,
  USUAL_HEALTH,
  type HealthListen,
} from './schemas.js';
import { readSellers } from './sellers.js';

export { ConfigError } from './findings.js';
export { processEnvironment } from './reader.js';
export type { ConfigReport, SettingReport } from './report.js';
export type { SellerConfig } from './sellers.js';
export { SETTINGS } from './settings.js';

/** Where a configuration is read from. */
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

/** Everything the product can be told from outside, checked. It can be printed: secrets mask themselves. */
export type Config = ReturnType<typeof read>['config'];

/**
 * The configuration of this process.
 * @throws {ConfigError} with everything that is wrong with it
 */
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

/** What the settings of this process are and where each comes from, wrong ones too. */
export function loadConfigReport(cronFault: ConfigOptions['cronFault']): ConfigReport {
  return readConfigReport(processEnvironment(), { cwd: process.cwd(), needs: 'store', cronFault });
}

export function readConfigReport(env: NodeJS.ProcessEnv, options: ConfigOptions): ConfigReport {
  const { entries, reader } = read(env, options);
  return reportOf(entries, reader);
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
    /** Keeps installations apart that share one Redis. */
    queuePrefix: reader.value('QUEUE_PREFIX'),
    /** Jobs a worker process does at a time. */
    workerConcurrency: reader.value('WORKER_CONCURRENCY'),
    /** What a scheduled re-audit may take and asks for. */
    recheck: {
      /** Of the request budget, more than 0 and at most 1. */
      share: reader.value('AUDIT_SHARE') / 100,
      /** Codes checked more recently are left alone. */
      olderThanDays: reader.value('AUDIT_OLDER_THAN_DAYS'),
    },
    /** Do at start what was due while nothing ran. */
    catchUp: reader.value('CATCH_UP'),
    shutdownTimeoutMs: reader.value('SHUTDOWN_TIMEOUT') * 1_000,
    /** Days for which finished jobs are kept, to be looked at. */
    keepJobsDays: reader.value('KEEP_JOBS_DAYS'),
    /** A copy older than this is stale. */
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
    /** Both are secrets: addresses of webhooks often contain a token. null: no alerts. */
    alerts: readAlerts(reader),
    logLevel: reader.value('LOG_LEVEL'),
    /** `auto`: pretty on a terminal, JSON elsewhere. */
    logFormat: reader.value('LOG_FORMAT'),
  } as const;
  const config = {
    ...settings,
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
    reader.findings.add(
      'problem',
      given,
      'is no folder: name a folder; it is made when it is not there',
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

function readHealth(reader: Reader): HealthListen | null {
  const health = reader.value('HEALTH_LISTEN') ?? USUAL_HEALTH;
  if (health === 'off') return null;
  const { host } = health;
  if (!isLoopback(host.includes(':') ? `[${host}]` : host)) {
    reader.findings.add(
      'warning',
      reader.given('HEALTH_LISTEN') ?? 'HEALTH_LISTEN',
      'opens health and metrics to other machines, without a login: keep it within a network you trust, or listen on 127.0.0.1',
    );
  }
  return health;
}

/** Where alerts go, and what they are signed with; null when nobody wants any. */
function readAlerts(reader: Reader): { readonly url: Secret; readonly secret: Secret } | null {
  const { findings } = reader;
  const [url, secret] = [reader.value('ALERT_WEBHOOK_URL'), reader.value('ALERT_WEBHOOK_SECRET')];
  // Also of one that could not be read, which has been reported.
  const [urlPlace, secretPlace] = (['ALERT_WEBHOOK_URL', 'ALERT_WEBHOOK_SECRET'] as const).map(
    (name) => (reader.given(name) ?? reader.given(`${name}_FILE`))?.where,
  );
  if (url !== null && !mayCarryKey(new URL(url.reveal()), reader.value('ALLOW_PLAIN_HTTP'))) {
    findings.add('problem', urlPlace ?? '', `would get alerts unencrypted: ${UNENCRYPTED_REMEDY}`);
  }
  if (urlPlace !== undefined && secretPlace === undefined) {
    findings.add(
      'problem',
      'ALERT_WEBHOOK_SECRET',
      `is not set, but ALERT_WEBHOOK_URL is, and alerts are never sent unsigned: set it to what the receiver checks signatures with; ${HOW_TO_MAKE_A_SECRET}`,
    );
  }
  if (secretPlace !== undefined && urlPlace === undefined) {
    findings.add(
      'warning',
      secretPlace,
      'is set without ALERT_WEBHOOK_URL, so no alerts are sent: set ALERT_WEBHOOK_URL, or take the secret away',
    );
  }
  return url === null || secret === null ? null : { url, secret };
}
