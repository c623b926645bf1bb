import type { RetentionDays } from '../domain/retention.js';
import type { Reader } from './reader.js';
import type { SettingName } from './settings.js';
import { readInteger } from './values.js';

/** A hundred years. */
const MOST_DAYS = 36_500;

/** For how long what is kept. */
export function readRetention(reader: Reader): RetentionDays {
  const days = (name: SettingName): number | null => {
    const given = reader.optional(name);
    return given === null ? null : readInteger(given, 1, MOST_DAYS, reader.findings);
  };
  return {
    raw: days('KEEP_RAW_DAYS'),
    runs: days('KEEP_RUNS_DAYS'),
    versions: days('KEEP_VERSIONS_DAYS'),
    audits: days('KEEP_AUDITS_DAYS'),
  };
}
