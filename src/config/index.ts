import { readAlerts } from './alerts.js';
import { processEnvironment, readEnvironment } from './environment.js';
import { readHealth } from './health.js';
import { Findings } from './problems.js';
import { readQueue } from './queue.js';
import { Reader } from './reader.js';
import { reportOf, type ConfigReport } from './report.js';
import { readRetention } from './retention.js';
import { readSellers } from './sellers.js';
import { readStore } from './store.js';
import { LOG_FORMATS, LOG_LEVELS, type Config, type ConfigOptions } from './types.js';
import { readChoice } from './values.js';

export { processEnvironment } from './environment.js';
export { ConfigError } from './problems.js';
export type { ConfigReport, SettingReport } from './report.js';
export { SETTINGS, type Setting } from './settings.js';
export type {
  Config,
  ConfigOptions,
  HealthListen,
  LogFormat,
  LogLevel,
  SellerConfig,
} from './types.js';

/** More than any catalogue has. */
const MOST_ITEMS = 1_000_000_000;

/**
 * The configuration of this process.
 * @throws ConfigError with everything that is wrong with it
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
 * @throws ConfigError with everything that is wrong with them
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
  const { config, entries, reader } = read(env, options);
  return reportOf(config, entries, reader);
}

function read(env: NodeJS.ProcessEnv, options: ConfigOptions) {
  const findings = new Findings();
  const reader = new Reader(readEnvironment(env, options.cwd, findings), options, findings);
  const { sellers, entries } = readSellers(reader);
  const settings = {
    sellers,
    ...readStore(reader),
    allowPlainHttp: reader.allowPlainHttp,
    removalGuard: {
      items: reader.integer('REMOVAL_GUARD_ITEMS', 0, MOST_ITEMS),
      percent: reader.integer('REMOVAL_GUARD_PERCENT', 0, 100),
    },
    lookupsPerRun: reader.integer('LOOKUPS_PER_RUN', 0, MOST_ITEMS),
    ...readQueue(reader),
    retention: readRetention(reader),
    health: readHealth(reader),
    alerts: readAlerts(reader),
    logLevel: readChoice(reader.given('LOG_LEVEL'), LOG_LEVELS, findings),
    logFormat: readChoice(reader.given('LOG_FORMAT'), LOG_FORMATS, findings),
  };
  const exposedSecrets = findings.exposedSecrets();
  const config: Config = { ...settings, warnings: findings.warnings(), exposedSecrets };
  return { config, entries, reader };
}
