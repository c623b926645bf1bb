import { realpathSync } from 'node:fs';
import { nearest } from './nearest.js';
import type { Findings } from './problems.js';
import type { Given } from './values.js';

/**
 * The IANA name of the zone that schedules are meant in; that of this machine when none is given,
 * and UTC when the machine does not say.
 */
export function readTimeZone(given: Given | null, findings: Findings): string {
  if (given === null) return zoneOfMachine();
  const name = nameIn(given.text);
  if (isZone(name)) return spelling(name);
  const meant = nearestZone(name);
  findings.problem({
    where: given.where,
    value: given.text,
    what: 'is no time zone',
    remedy: meant === null ? 'give an IANA name such as Europe/Berlin' : `did you mean ${meant}?`,
  });
  return 'UTC';
}

function zoneOfMachine(): string {
  // Node can't name the zone when TZ is empty or names a file.
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone as string | undefined;
  return name !== undefined && name !== 'Etc/Unknown' && isZone(name) ? name : 'UTC';
}

/** What POSIX allows in TZ besides a name: a colon before it, and the path of a zone's file. */
function nameIn(text: string): string {
  const name = text.replace(/^:/, '');
  if (!name.startsWith('/')) return name;
  try {
    return realpathSync(name).replace(/^.*\/zoneinfo\//, '');
  } catch {
    return name;
  }
}

/** By name only: newer versions of Node take offsets such as +02:00, which know no summer time. */
function isZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** The usual capitals. Intl would also replace a name by an older one, such as Asia/Calcutta. */
function spelling(name: string): string {
  const known = [...Intl.supportedValuesOf('timeZone'), 'UTC'];
  return known.find((zone) => zone.toLowerCase() === name.toLowerCase()) ?? name;
}

/** The zone a person may have meant; people also give a city without its continent. */
function nearestZone(name: string): string | null {
  const zones = [...Intl.supportedValuesOf('timeZone'), 'UTC'];
  const cities = new Map(zones.map((zone) => [zone.split('/').at(-1) ?? zone, zone]));
  const whole = nearest(name, zones);
  if (whole !== null) return whole;
  const city = nearest(name.split('/').at(-1) ?? name, [...cities.keys()]);
  return city === null ? null : (cities.get(city) ?? null);
}
