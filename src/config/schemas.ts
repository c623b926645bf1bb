import { realpathSync } from 'node:fs';
import { z } from 'zod';
import { addressFault, headerNameFault, type AddressFault } from '../domain/address.js';
import { parseRedisUrl, RedisUrlFault } from '../domain/redis-target.js';
import { Secret } from '../domain/secret.js';
import { nearest } from './nearest.js';

/*
 * Schemas of the texts that settings are given as. The message of an issue goes on after the setting's
 * name and its text, and says after a colon what to do.
 */

/** Ends a transformation. @param fault continues the sentence that begins with the setting's name */
function refuse(context: z.RefinementCtx, fault: string): never {
  context.addIssue(fault);
  return z.NEVER;
}

export function wholeNumber(least: number, most: number) {
  return z
    .string()
    .refine(
      (digits) => /^\d{1,15}$/.test(digits) && Number(digits) >= least && Number(digits) <= most,
      `is not a whole number in range: give a number from ${least} to ${most}`,
    )
    .transform(Number);
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

/** A name that commands, locks, tables or keys of Redis can hold. @param fault what to say of another */
export function plainName(fault: string) {
  const remedy = 'use 1 to 63 letters, digits, dots, underscores and hyphens';
  return z.string().regex(/^[A-Za-z0-9._-]{1,63}$/, `${fault}: ${remedy}`);
}

export const headerName = z.string().superRefine((name, context) => {
  const fault = headerNameFault(name);
  if (fault === null) return;
  const what =
    fault === 'taken'
      ? 'is a header that every request uses already'
      : 'is not the name of a header';
  context.addIssue(`${what}: give a name such as X-Api-Key`);
});

/** A key of the marketplace. Keys have no fixed format (field notes: requests): only what can't be one is refused. */
export const apiKey = z
  .string()
  .refine(
    (key) => !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(key),
    'holds line breaks or control characters within the key: copy the key again, by itself and whole',
  )
  .transform((key) => new Secret(key));

export const UNENCRYPTED_REMEDY =
  'use https://, or set ALLOW_PLAIN_HTTP=true if you trust every network between';

const ADDRESS_FAULTS: Readonly<Record<AddressFault, string>> = {
  scheme: 'is not a web address: give the marketplace’s address, such as https://market.example',
  user: 'contains a user name or password: leave them out; the API key has its own setting',
  query:
    'goes on with a query or fragment: end the address before any ? or #; the API key has its own setting',
  'plain-http': `would get the API key unencrypted: ${UNENCRYPTED_REMEDY}`,
};

/** What to say of a marketplace at an address to which no request may go; null when they may. */
export function marketplaceFault(url: URL, allowPlainHttp: boolean): string | null {
  const fault = addressFault(url, allowPlainHttp);
  return fault === null ? null : ADDRESS_FAULTS[fault];
}

/** The base address of a marketplace; whether plain http may be used is up to another setting. */
export const marketplaceUrl = z.string().transform((address, context) => {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null) return refuse(context, ADDRESS_FAULTS.scheme);
  const fault = marketplaceFault(url, true);
  return fault === null ? url : refuse(context, fault);
});

/** The address of a PostgreSQL server, checked as far as that is possible without asking the server. */
export const databaseUrl = z.string().transform((address, context) => {
  if (!/^postgres(?:ql)?:\/\//.test(address)) {
    const form = 'postgresql://user:password@host:5432/database';
    return refuse(
      context,
      `is not the address of a PostgreSQL server: begin it with postgresql://, such as ${form}`,
    );
  }
  // An empty host is a socket in PostgreSQL's addresses, and an error in those of the web.
  const web = address.replace(/^(postgres(?:ql)?:\/\/(?:[^/]*@)?)(?=[/?]|$)/, '$1localhost');
  if (!URL.canParse(web)) {
    return refuse(
      context,
      'can’t be read as an address: check host and port, and write special characters of the password percent-encoded (@ is %40, / is %2F, # is %23)',
    );
  }
  return new URL(web).hash === ''
    ? new Secret(address)
    : refuse(context, 'contains a #, where an address ends: write # in the password as %23');
});

export const redisUrl = z.string().transform((address, context) => {
  try {
    return parseRedisUrl(address);
  } catch (error) {
    if (error instanceof RedisUrlFault) return refuse(context, error.message);
    throw error;
  }
});

/** The passwords of an address, as written and as meant, also when the address can't be read. */
export function passwordsIn(url: string): readonly string[] {
  const places = [
    // Before the host, and before any @ where the address can't be read.
    /:\/\/[^:]*:([^/?#]*)@/,
    /:\/\/[^:]*:(.*)@/s,
    /[?&]\w*pass\w*=(.*)$/is,
  ];
  return places
    .flatMap((place) => place.exec(url)?.[1] ?? [])
    .flatMap((one) => [one, decoded(one)]);
}

function decoded(written: string): string {
  try {
    return decodeURIComponent(written);
  } catch {
    return written;
  }
}

export const webhookUrl = z.string().transform((address, context) => {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) {
    return refuse(
      context,
      'is not a web address: give the receiver’s address, such as https://hooks.example/mirror',
    );
  }
  if (url.username === '' && url.password === '') return new Secret(address);
  return refuse(
    context,
    'contains a user name or password, which are not sent: leave them out; the signature proves who sends',
  );
});

/** All parts of an address that may be a token: all but the host, as written and as meant. */
export function tokensIn(address: string): readonly string[] {
  const url = URL.canParse(address) ? new URL(address) : null;
  const parts = [address, url?.href ?? ''].flatMap((whole) => whole.split(/[/?&=#:@]+/));
  return parts.filter((part) => part.length >= 8 && part.toLowerCase() !== url?.hostname);
}

const MAIL_ADDRESS = /^[\w!#$%&'*+/=?^`{|}~.-]{1,64}@[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?$/i;

/** Whether mail can be addressed to it: a plain address, without name or comment. */
export function isMailAddress(text: string): boolean {
  return MAIL_ADDRESS.test(text);
}

/** Addresses of people, with commas between them. */
export const mailAddresses = z.string().transform((text, context) => {
  const addresses = text.split(',').map((address) => address.trim());
  return addresses.every(isMailAddress)
    ? addresses
    : refuse(
        context,
        'is not a list of mail addresses: write them as me@shop.example, you@shop.example',
      );
});

const SMTP_FORM =
  'write it as smtps://user:password@mail.example:465 or smtp://user:password@mail.example:587, special characters percent-encoded (@ is %40)';

/** The address of a mail server; `?from=` says who sends. */
export const smtpUrl = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === '') {
    return refuse(context, `is not the address of a mail server: ${SMTP_FORM}`);
  }
  const { from, ...others } = Object.fromEntries(url.searchParams);
  if (!/^\/?$/.test(url.pathname) || url.hash !== '' || Object.keys(others).length > 0) {
    return refuse(context, `holds more than a server, a login and ?from=: ${SMTP_FORM}`);
  }
  if (from !== undefined && !isMailAddress(from)) {
    return refuse(context, 'names no mail address after ?from=: write it as ?from=me@shop.example');
  }
  const isTls = url.protocol === 'smtps:';
  const [user, password] = [decoded(url.username), decoded(url.password)];
  return {
    host: url.hostname.replaceAll(/[[\]]/g, ''),
    port: url.port === '' ? (isTls ? 465 : 587) : Number(url.port),
    /** TLS from the first byte on, not only after STARTTLS. */
    isTls,
    user: user === '' ? null : user,
    password: password === '' ? null : new Secret(password),
    /** Null: the user, when that is an address. */
    from: from ?? null,
  };
});

export const HOW_TO_MAKE_A_SECRET = 'printf \'whsec_%s\' "$(openssl rand -base64 32)" makes one';

/** The form of Standard Webhooks: `whsec_` and the base64 of 24 to 64 bytes. */
export const webhookSecret = z
  .string()
  .refine((secret) => {
    const [, base64 = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret) ?? [];
    const bytes = Buffer.from(base64, 'base64');
    // Node skips what is not base64, so only the way back proves that all of it was.
    const isWhole = bytes.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
    return isWhole && bytes.length >= 24 && bytes.length <= 64;
  }, `is not a secret of the Standard Webhooks form: whsec_ and the base64 of 24 to 64 bytes: copy it again from the receiver; ${HOW_TO_MAKE_A_SECRET}`)
  .transform((secret) => new Secret(secret));

/** A cron expression or `off`. Whether the expression can be run is for those to say who run it. */
export const cron = z
  .string()
  .trim()
  .transform((expression) => (expression.toLowerCase() === 'off' ? 'off' : expression));

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** False: nobody chose the port, so another will do when it is taken. */
  readonly chosen: boolean;
}

export const USUAL_HEALTH: ListenAddress = { host: '127.0.0.1', port: 8790, chosen: false };

export const USUAL_DASHBOARD: ListenAddress = { host: '127.0.0.1', port: 8791, chosen: false };

/** `host:port`, `[::1]:port`, a port alone, which is one of loopback, or `off`. */
export const listenAddress = z.string().transform((address, context): ListenAddress | 'off' => {
  if (address.toLowerCase() === 'off') return 'off';
  const [, name, digits = ''] =
    /^(?:(\[[\da-f:.]+\]|[\p{L}\p{N}._-]*):)?(\d{1,5})$/iu.exec(address) ?? [];
  const host = name === undefined || name === '' ? USUAL_HEALTH.host : name.toLowerCase();
  const port = digits === '' ? NaN : Number(digits);
  if (port <= 65_535 && URL.canParse(`http://${host}`)) {
    return { host: host.replaceAll(/[[\]]/g, ''), port, chosen: true };
  }
  return refuse(
    context,
    'is not a host and port: write it as 127.0.0.1:8790, [::1]:8790 or 8790, or off',
  );
});

export const timeZone = z.string().transform((given, context) => {
  const name = zoneNameIn(given);
  if (isZone(name)) return zones().find((zone) => sameText(zone, name)) ?? name;
  const meant = nearestZone(name);
  const remedy =
    meant === null ? 'give an IANA name such as Europe/Berlin' : `did you mean ${meant}?`;
  return refuse(context, `is not a time zone: ${remedy}`);
});

/** The zone of this machine; UTC when the machine does not say. */
export function zoneOfMachine(): string {
  // Node can't name the zone when TZ is empty or names a file.
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone as string | undefined;
  return name !== undefined && name !== 'Etc/Unknown' && isZone(name) ? name : 'UTC';
}

/** Takes off what POSIX allows in TZ besides a name: a colon before it, and the path of a zone's file. */
function zoneNameIn(given: string): string {
  const name = given.replace(/^:/, '');
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

/** The usual capitals. Intl itself would also replace a name by an older one, such as Asia/Calcutta. */
function zones(): readonly string[] {
  return [...Intl.supportedValuesOf('timeZone'), 'UTC'];
}

function sameText(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

/** The zone that a person may have meant; people also give a city without its continent. */
function nearestZone(name: string): string | null {
  const whole = nearest(name, zones());
  if (whole !== null) return whole;
  const cities = new Map(zones().map((zone) => [zone.split('/').at(-1) ?? zone, zone]));
  const city = nearest(name.split('/').at(-1) ?? name, [...cities.keys()]);
  return city === null ? null : (cities.get(city) ?? null);
}

export const hostNames = z.string().transform((text, context) => {
  const names = text.split(',').map((name) => name.trim().toLowerCase());
  const isName = (name: string): boolean => /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name);
  if (names.every(isName)) return names;
  return refuse(
    context,
    'is not a list of host names: write them as reports.example, mirror.example',
  );
});

export const pageUrl = z.string().transform((text, context) => {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isPage = url?.protocol === 'https:' || url?.protocol === 'http:';
  if (isPage && url.pathname === '/' && !/[?#@]/.test(text)) return url.origin;
  return refuse(context, 'is not the address of a dashboard: write it as https://mirror.example');
});
