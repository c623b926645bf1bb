import type { Findings } from './problems.js';
import type { Reader } from './reader.js';
import { readTimeZone } from './time-zone.js';
import type { ConfigOptions, SellerConfig } from './types.js';
import type { Given } from './values.js';

/** When a seller is mirrored. */
export type Schedule = Pick<SellerConfig, 'syncCron' | 'accountCron' | 'auditCron' | 'timeZone'>;

/** What a seller's entry in the sellers file may say about it. */
export interface ScheduleEntry {
  readonly syncCron?: string | undefined;
  readonly accountCron?: string | undefined;
  readonly auditCron?: string | undefined;
  readonly timeZone?: string | undefined;
}

type CronFault = ConfigOptions['cronFault'];

/** The schedule of every seller that has none of its own. */
export function readSchedule(reader: Reader): Schedule {
  const { findings, options } = reader;
  const besides = (name: 'ACCOUNT_CRON' | 'AUDIT_CRON'): string | null => {
    const given = reader.optional(name);
    return given === null ? null : readCron(given, options.cronFault, findings);
  };
  return {
    syncCron: readCron(reader.given('SYNC_CRON'), options.cronFault, findings),
    accountCron: besides('ACCOUNT_CRON'),
    auditCron: besides('AUDIT_CRON'),
    timeZone: readTimeZone(reader.optional('TZ'), findings),
  };
}

/** The schedule of one seller of the file. */
export function readOwnSchedule(
  entry: ScheduleEntry,
  at: (field: keyof ScheduleEntry, text: string) => Given,
  defaults: Schedule,
  cronFault: CronFault,
  findings: Findings,
): Schedule {
  const own = (field: 'syncCron' | 'accountCron' | 'auditCron'): string | null => {
    const text = entry[field];
    return text === undefined ? defaults[field] : readCron(at(field, text), cronFault, findings);
  };
  return {
    syncCron: own('syncCron'),
    accountCron: own('accountCron'),
    auditCron: own('auditCron'),
    timeZone:
      entry.timeZone === undefined
        ? defaults.timeZone
        : readTimeZone(at('timeZone', entry.timeZone), findings),
  };
}

/** A cron expression; null for the word `off`, and for a bad one, which has been reported. */
function readCron(given: Given, cronFault: CronFault, findings: Findings): string | null {
  const text = given.text.trim();
  if (text.toLowerCase() === 'off') return null;
  const fault = cronFault(text);
  if (fault === null) return text;
  findings.problem({
    where: given.where,
    value: text,
    what: fault,
    remedy: 'write minute, hour, day, month and day of the week, such as 0 2 * * *, or off',
  });
  return null;
}
