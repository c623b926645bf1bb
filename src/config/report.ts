import type { Reader } from './reader.js';
import { zoneOfMachine } from './schemas.js';
import { placeOf, SETTING_OF_FIELD, type SellerEntry } from './sellers.js';
import { defaultOf, isSecretName, SETTINGS, type SettingName } from './settings.js';

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

/** @param entries of the sellers file; null: there is none */
export function reportOf(entries: readonly SellerEntry[] | null, reader: Reader): ConfigReport {
  const { findings } = reader;
  const names = Object.keys(SETTINGS) as SettingName[];
  return {
    settings: names.map((name) => settingReport(name, reader)),
    sellers: (entries ?? []).map((entry, index) => sellerReport(entry, placeOf(index), reader)),
    problems: findings.sentences('problem'),
    warnings: [...findings.sentences('warning'), ...findings.sentences('exposed')],
  };
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
  { name: seller, ...entry }: SellerEntry,
  where: string,
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
