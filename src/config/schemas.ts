import { z } from 'zod';
import {
  addressFault,
  headerNameFault,
  type AddressFault,
  type ListenAddress,
} from '../domain/address.js';
import { SSL_MODES } from '../domain/postgres-tls.js';
import { Fault } from '../domain/fault.js';
import { parseRedisUrl } from '../domain/redis-target.js';
import { Secret } from '../domain/secret.js';

/** The types of alerts, as webhooks name them and as ALERTS_OFF turns them off. */
const ALERT_TYPES = [
  ...(['run.failed', 'run.held', 'seller.parked', 'audit.finished', 'copy.stale'] as const),
  ...(['feed.stale', 'feed.recovered'] as const),
  ...(['codes.no_longer_valid', 'balance.changed', 'items.removed'] as const),
  ...(['fields.new', 'clock.ahead'] as const),
] as const;

export type AlertType = (typeof ALERT_TYPES)[number];

/** The schema of a setting's text. @param read may throw a `Fault` */
function readAs<T>(read: (text: string) => T) {
  return z.string().transform((text, context): T => {
    try {
      return read(text);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      context.addIssue(error.message);
      return z.NEVER;
    }
  });
}

export function wholeNumber(least: number, most: number) {
  return readAs((digits) => {
    if (/^\d{1,15}$/.test(digits) && Number(digits) >= least && Number(digits) <= most) {
      return Number(digits);
    }
    throw new Fault(`is not a whole number in range: give a number from ${least} to ${most}`);
  });
}

export function parseUrl(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

/** One of several words, in any letter case. */
export function oneOf<const T extends readonly [string, ...string[]]>(words: T) {
  const error = `is not known: choose one of ${words.join(', ')}`;
  return z.string().toLowerCase().pipe(z.enum(words, { error }));
}

export const yesOrNo = z.stringbool({
  truthy: ['true', '1', 'yes', 'on'],
  falsy: ['false', '0', 'no', 'off'],
  error: 'is neither true nor false: give true or false',
});

/** A name that is safe in commands, locks, tables and Redis keys. @param fault message for other texts */
export function plainName(fault: string) {
  const remedy = 'use 1 to 63 letters, digits, dots, underscores and hyphens';
  return z.string().regex(/^[A-Za-z0-9._-]{1,63}$/, `${fault}: ${remedy}`);
}

export const headerName = readAs((name) => {
  const fault = headerNameFault(name);
  if (fault === null) return name;
  const isTaken = fault === 'taken';
  const what = isTaken
    ? 'is a header that every request already uses'
    : 'is not the name of a header';
  throw new Fault(`${what}: give a name such as X-Api-Key`);
});

/** Keys have no fixed format (servers: requests), so only control characters are refused. */
export const apiKey = readAs((key) => {
  if (!/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(key)) return new Secret(key);
  throw new Fault('has line breaks or control characters inside: copy only the key, completely');
});

export const UNENCRYPTED_REMEDY =
  'use https://, or set ALLOW_PLAIN_HTTP=true if you trust every network in between';

const ADDRESS_FAULTS: Readonly<Record<AddressFault, string>> = {
  scheme: 'is not a web address: give the marketplace’s address, such as https://market.example',
  user: 'contains a user name or password: remove them; the API key has its own setting',
  query:
    'contains a query or fragment: end the address before any ? or #; the API key has its own setting',
  'plain-http': `would get the API key unencrypted: ${UNENCRYPTED_REMEDY}`,
};

/** The fault of a marketplace address, in words; null if requests may go there. */
export function marketplaceFault(url: URL, allowPlainHttp: boolean): string | null {
  const fault = addressFault(url, allowPlainHttp);
  return fault === null ? null : ADDRESS_FAULTS[fault];
}

/** Allows plain http: ALLOW_PLAIN_HTTP is checked elsewhere. */
export const marketplaceUrl = readAs((address) => {
  const url = parseUrl(address);
  if (url === null) throw new Fault(ADDRESS_FAULTS.scheme);
  const fault = marketplaceFault(url, true);
  if (fault !== null) throw new Fault(fault);
  return url;
});

export const databaseUrl = readAs((address) => {
  if (!/^postgres(?:ql)?:\/\//.test(address)) {
    const form = 'postgresql://user:password@host:5432/database';
    throw new Fault(
      `is not the address of a PostgreSQL server: begin it with postgresql://, such as ${form}`,
    );
  }
  // An empty host means a socket to PostgreSQL, but is an error to URL.
  const web = address.replace(/^(postgres(?:ql)?:\/\/(?:[^/]*@)?)(?=[/?]|$)/, '$1localhost');
  if (!URL.canParse(web)) {
    throw new Fault(
      'can’t be read as an address: check host and port, and percent-encode special characters in the password (@ is %40, / is %2F, # is %23)',
    );
  }
  const { hash, searchParams } = new URL(web);
  if (hash !== '') {
    throw new Fault('contains a #, which ends an address: write # in the password as %23');
  }
  const mode = searchParams.get('sslmode') ?? 'disable';
  if (SSL_MODES.includes(mode)) return new Secret(address);
  throw new Fault('has an unknown sslmode: write disable, require, verify-ca or verify-full');
});

export const redisUrl = readAs(parseRedisUrl);

/** The passwords in an address, as written and decoded. Works even if the address can't be read. */
export function passwordsIn(url: string): readonly string[] {
  const places = [
    // Up to the host and, for an address that can't be read, up to any @.
    /:\/\/[^:]*:([^/?#]*)@/,
    /:\/\/[^:]*:(.*)@/s,
    /[?&]\w*pass\w*=(.*)$/is,
  ];
  return places
    .flatMap((place) => place.exec(url)?.[1] ?? [])
    .flatMap((written) => [written, percentDecoded(written) ?? written]);
}

/** Null if a % is not part of a percent-encoded character. */
export function percentDecoded(written: string): string | null {
  try {
    return decodeURIComponent(written);
  } catch {
    return null;
  }
}

export const webhookUrl = readAs((address) => {
  const url = parseUrl(address);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Fault(
      'is not a web address: give the receiver’s address, such as https://hooks.example/mirror',
    );
  }
  if (url.username === '' && url.password === '') return new Secret(address);
  throw new Fault(
    'contains a user name or password, which are not sent: remove them; the signature proves the sender',
  );
});

/** The parts of an address that may be tokens: all but the host, as written and normalized. */
export function tokensIn(address: string): readonly string[] {
  const url = parseUrl(address);
  const parts = [address, url?.href ?? ''].flatMap((whole) => whole.split(/[/?&=#:@]+/));
  return parts.filter((part) => part.length >= 8 && part.toLowerCase() !== url?.hostname);
}

/** Types of alerts, comma-separated. */
export const alertTypes = readAs((text): readonly AlertType[] => {
  const names = text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !ALERT_TYPES.some((type) => type === name));
  if (unknown === undefined) return ALERT_TYPES.filter((type) => names.includes(type));
  throw new Fault(`has an unknown type of alert: choose from ${ALERT_TYPES.join(', ')}`);
});

const MAIL_ADDRESS = /^[\w!#$%&'*+/=?^`{|}~.-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?$/i;

/** True for a plain mail address, without name or comment. */
export function isMailAddress(text: string): boolean {
  return MAIL_ADDRESS.test(text);
}

/** Comma-separated. */
export const mailAddresses = readAs((text) => {
  const addresses = text.split(',').map((address) => address.trim());
  if (addresses.every(isMailAddress)) return addresses;
  throw new Fault(
    'is not a list of mail addresses: write them as me@shop.example, you@shop.example',
  );
});

const SMTP_FORM =
  'write it as smtps://user:password@mail.example:465 or smtp://user:password@mail.example:587, with special characters percent-encoded (@ is %40)';

/** The address of a mail server; `?from=` sets the sender. */
export const smtpUrl = readAs((text) => {
  const url = parseUrl(text);
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '') {
    throw new Fault(`is not the address of a mail server: ${SMTP_FORM}`);
  }
  const { from, ...others } = Object.fromEntries(url.searchParams);
  if (!/^\/?$/.test(url.pathname) || url.hash !== '' || Object.keys(others).length > 0) {
    throw new Fault(`contains more than a server, a login and ?from=: ${SMTP_FORM}`);
  }
  if (from !== undefined && !isMailAddress(from)) {
    throw new Fault('has no mail address after ?from=: write it as ?from=me@shop.example');
  }
  const isTls = url.protocol === 'smtps:';
  const [user, password] = [url.username, url.password].map((text) => percentDecoded(text) ?? text);
  return {
    host: url.hostname.replaceAll(/[[\]]/g, ''),
    port: url.port === '' ? (isTls ? 465 : 587) : Number(url.port),
    /** TLS from the first byte, not after STARTTLS. */
    isTls,
    user: user || null,
    password: password ? new Secret(password) : null,
    /** Null: the user, if that is a mail address. */
    from: from ?? null,
  };
});

export const HOW_TO_MAKE_A_SECRET = 'printf \'whsec_%s\' "$(openssl rand -base64 32)" makes one';

/** In the format of Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes. */
export const webhookSecret = readAs((secret) => {
  const [, base64 = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
  const bytes = Buffer.from(base64, 'base64');
  // Node ignores characters that are not base64, so encode it again to find them.
  const isBase64 = bytes.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
  if (isBase64 && bytes.length >= 24 && bytes.length <= 64) return new Secret(secret);
  throw new Fault(
    `is not a Standard Webhooks secret (whsec_ and the base64 of 24 to 64 bytes): copy it again from the receiver; ${HOW_TO_MAKE_A_SECRET}`,
  );
});

/** A cron expression or `off`. The reader checks the expression. */
export const cron = z
  .string()
  .trim()
  .transform((expression) => (expression.toLowerCase() === 'off' ? 'off' : expression));

export const DEFAULT_HEALTH: ListenAddress = { host: '127.0.0.1', port: 8790, chosen: false };

export const DEFAULT_DASHBOARD: ListenAddress = { host: '127.0.0.1', port: 8791, chosen: false };

/** `host:port`, `[::1]:port`, a port on loopback, or `off`. */
export const listenAddress = readAs((address): ListenAddress | 'off' => {
  if (address.toLowerCase() === 'off') return 'off';
  const [, name, digits = ''] =
    /^(?:(\[[\da-f:.]+\]|[\p{L}\p{N}._-]*):)?(\d{1,5})$/iu.exec(address) ?? [];
  const host = name === undefined || name === '' ? DEFAULT_HEALTH.host : name.toLowerCase();
  const port = digits === '' ? NaN : Number(digits);
  if (port <= 65_535 && URL.canParse(`http://${host}`)) {
    return { host: host.replaceAll(/[[\]]/g, ''), port, chosen: true };
  }
  throw new Fault('is not a host and port: write it as 127.0.0.1:8790, [::1]:8790 or 8790, or off');
});

export const timeZone = readAs((text) => {
  const lower = text.toLowerCase();
  const found = zones().get(lower);
  if (found !== undefined || isZone(text)) return found ?? text;
  const names = [...zones().values()];
  // People also write a city without its continent.
  const city = names.find((zone) => zone.toLowerCase().endsWith(`/${lower}`));
  const similar = city ?? nearest(text, names);
  const remedy =
    similar === null ? 'give an IANA name such as Europe/Berlin' : `did you mean ${similar}?`;
  throw new Fault(`is not a time zone: ${remedy}`);
});

/** The machine's zone; UTC if it is unknown. */
export function zoneOfMachine(): string {
  // Node can't name the zone if TZ is empty or names a file.
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone as string | undefined;
  return name !== undefined && name !== 'Etc/Unknown' && isZone(name) ? name : 'UTC';
}

/** True for a name. Newer versions of Node also accept offsets such as +02:00, which have no summer time. */
function isZone(name: string): boolean {
  if (!/^[A-Za-z]/.test(name)) return false;
  try {
    Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/**
 * Names by their lower case, for the usual capitals: Intl itself may return an older name, such as Asia/Calcutta. Kept:
 * each of a thousand sellers has a zone.
 */
function zones(): ReadonlyMap<string, string> {
  return (zoneNames ??= new Map(
    [...Intl.supportedValuesOf('timeZone'), 'UTC'].map((name) => [name.toLowerCase(), name]),
  ));
}

let zoneNames: ReadonlyMap<string, string> | undefined;

export const hostNames = readAs((text) => {
  const names = text.split(',').map((name) => name.trim().toLowerCase());
  const isName = (name: string): boolean => /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name);
  if (names.every(isName)) return names;
  throw new Fault('is not a list of host names: write them as reports.example, mirror.example');
});

export const pageUrl = readAs((text) => {
  const url = parseUrl(text);
  const isPage = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (isPage && url.pathname === '/' && !/[?#@]/.test(text)) return url.origin;
  if (isPage && url.pathname !== '/') {
    const fault = 'has a path, and the dashboard’s links and cookies are for a whole host';
    throw new Fault(`${fault}: give it a host name of its own, such as https://mirror.example`);
  }
  throw new Fault('is not the address of a dashboard: write it as https://mirror.example');
});

/** The least number of insertions, deletions and substitutions that make one word of another. */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [i, letter] of Array.from(one).entries()) {
    const next = [i + 1];
    for (const [j, wanted] of Array.from(other).entries()) {
      const replaced = (row[j] ?? 0) + (letter === wanted ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Letter case and separators don't count: people get them wrong most often. */
function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** The known name that `name` probably means, of which a quarter of the letters may be wrong; null if none is similar. */
export function nearest(name: string, known: readonly string[]): string | null {
  const one = plain(name);
  const isNear = (wrong: number, other: string): boolean =>
    wrong * 4 <= Math.min(one.length, other.length);
  const similar = known.flatMap((candidate) => {
    const other = plain(candidate);
    // At least as many letters are wrong.
    if (!isNear(Math.abs(one.length - other.length), other)) return [];
    const wrong = distance(one, other);
    return isNear(wrong, other) ? [{ candidate, wrong }] : [];
  });
  return similar.sort((a, b) => a.wrong - b.wrong)[0]?.candidate ?? null;
}
