import type { Reader } from './reader.js';
import type { SellerEntry } from './sellers-file.js';
import { SETTINGS, type SettingName } from './settings.js';
import { readTimeZone } from './time-zone.js';
import type { Config } from './types.js';

/** A setting as it is in effect. */
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
  /** Those of the sellers file, each with its fields; what it does not say holds from the settings. */
  readonly sellers: readonly {
    readonly name: string;
    readonly settings: readonly SettingReport[];
  }[];
  /** Sentences, each with a remedy behind its last colon. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** @param entries of the sellers file; null: there is none */
export function reportOf(
  config: Config,
  entries: readonly SellerEntry[] | null,
  reader: Reader,
): ConfigReport {
  const settings = SETTINGS.map((setting) => settingReport(setting, reader));
  return {
    settings,
    sellers: (entries ?? []).map((entry, n) => sellerReport(entry, n, settings, reader)),
    problems: reader.findings.problems(),
    warnings: [...config.warnings, ...config.exposedSecrets],
  };
}

function settingReport(
  setting: (typeof SETTINGS)[number],
  { environment, findings }: Reader,
): SettingReport {
  const { name, default: usual } = setting;
  const isSecret = 'secret' in setting;
  const given = environment.get(name);
  if (given !== null) {
    const value = isSecret ? null : findings.shownValue(name, given);
    return { name, value, from: environment.sourceOf(name), isSecret };
  }
  if (name === 'TZ') {
    return { name, value: readTimeZone(null, findings), from: 'this machine', isSecret };
  }
  return { name, value: usual, from: usual === null ? null : 'default', isSecret };
}

/** The settings that hold for a seller whose entry does not say. */
const OF_ALL = {
  requestsPerMinute: 'REQUESTS_PER_MINUTE',
  parameters: 'MARKETPLACE_PARAMETERS',
  keyHeader: 'MARKETPLACE_KEY_HEADER',
  syncCron: 'SYNC_CRON',
  accountCron: 'ACCOUNT_CRON',
  auditCron: 'AUDIT_CRON',
  timeZone: 'TZ',
} as const satisfies Readonly<Record<string, SettingName>>;

function sellerReport(
  { name: seller, ...entry }: SellerEntry,
  index: number,
  settings: readonly SettingReport[],
  { findings }: Reader,
): ConfigReport['sellers'][number] {
  const own = Object.entries(entry).map(([name, value]): SettingReport => {
    const where = `SELLERS_FILE sellers[${index}].${name}`;
    const shown = findings.shownValue(where, String(value));
    return { name, value: shown, from: 'sellers file', isSecret: false };
  });
  const others = Object.entries(OF_ALL).flatMap(([name, setting]) => {
    const found = settings.find((one) => one.name === setting);
    return name in entry || found === undefined ? [] : [{ ...found, name }];
  });
  const name = findings.shownValue(`SELLERS_FILE sellers[${index}].name`, seller);
  return { name, settings: [...own, ...others] };
}
