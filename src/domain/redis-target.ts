import { Secret } from './secret.js';

/** Where Redis or Valkey is, and how to log in. Safe to print: the password masks itself. */
export interface RedisTarget {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  readonly username: string | null;
  readonly password: Secret | null;
  readonly database: number;
  readonly tls: boolean;
}

/** Why a text is not a Redis address. Never repeats the text, because it contains passwords. */
export class RedisUrlFault extends Error {
  /** @param fault continues a sentence that begins with the setting's name */
  constructor(fault: string, remedy: string) {
    super(`${fault}: ${remedy}`);
  }
}

const FORM = 'redis://user:password@host:6379/0';
const ENCODE =
  'write special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, ? is %3F, % is %25)';

/**
 * Reads an address of Redis or Valkey, `redis://[user:password@]host[:port][/database]`. `rediss` and `valkeys` mean
 * TLS. User and password are percent-decoded.
 * @throws {RedisUrlFault}
 */
export function parseRedisUrl(text: string): RedisTarget {
  if (/[\s\p{Cc}]/u.test(text)) {
    throw new RedisUrlFault(
      'contains spaces or control characters',
      'copy only the address, completely',
    );
  }
  const [, word = '', rest = ''] = /^([^:/?#@]*):\/\/(.*)$/s.exec(text) ?? [];
  if (/^(?:redis|valkey)s?[-+](?:sentinel|cluster)$/i.test(word)) {
    throw new RedisUrlFault(
      'names sentinels or a cluster, which can’t store the queue',
      `name one server, such as ${FORM}, or leave it out: then the queue is in PostgreSQL`,
    );
  }
  const scheme = /^(?:redis|valkey)(s?)$/i.exec(word);
  if (scheme === null) {
    throw new RedisUrlFault(
      /^https?$/i.test(word)
        ? 'is a web address, not a Redis address'
        : 'is not an address of a Redis server',
      `begin it with redis://, such as ${FORM}, or with rediss:// for TLS`,
    );
  }
  const { user, host, path } = partsOf(rest);
  if (!/^\d{0,5}$/.test(path.slice(1))) {
    throw new RedisUrlFault(
      'names a database that is not a number',
      `write the number after the host, as in ${FORM}`,
    );
  }
  const database = Number(path.slice(1));
  return { ...placeOf(host), ...credentialsOf(user), database, tls: scheme[1] !== '' };
}

/** Splits what follows `://`. The path begins with a slash unless it is empty. */
function partsOf(rest: string) {
  const [, authority = '', path = '', query = '', fragment] =
    /^([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?(#.*)?$/s.exec(rest) ?? [];
  const [first = '', second, ...more] = authority.split('@');
  // An @ after the host means that a / ? or # in the password has cut the address short.
  if (`${path}${query}${fragment ?? ''}`.includes('@') || more.length > 0) {
    throw new RedisUrlFault('can’t be read as an address', ENCODE);
  }
  if (fragment !== undefined) {
    throw new RedisUrlFault(
      'contains a #, which ends an address',
      'write # in the password as %23',
    );
  }
  if (query !== '') {
    throw new RedisUrlFault(
      'has unknown options after the question mark',
      `end it before the question mark, as in ${FORM}`,
    );
  }
  return { user: second === undefined ? '' : first, host: second ?? first, path };
}

function credentialsOf(user: string): Pick<RedisTarget, 'username' | 'password'> {
  if (user === '' || user === ':') return { username: null, password: null };
  const [, name = '', password = ''] = /^([^:]*):?(.*)$/s.exec(user) ?? [];
  if (password === '') {
    throw new RedisUrlFault(
      'has a user name but no password',
      'write user:password@ before the host, or :password@ for a password alone',
    );
  }
  const username = name === '' ? null : decoded(name);
  return { username, password: new Secret(decoded(password)) };
}

function placeOf(text: string): Pick<RedisTarget, 'host' | 'port'> {
  const unreadable = 'has a host that can’t be read';
  if (text === '' || text.startsWith(':')) {
    throw new RedisUrlFault('has no host', `write it as in ${FORM}`);
  }
  if (text.includes(',')) {
    throw new RedisUrlFault('names several hosts instead of one', `keep one, as in ${FORM}`);
  }
  if (/^[^[]*:.*:/.test(text)) {
    throw new RedisUrlFault(unreadable, 'write an IPv6 address in brackets, such as [::1]');
  }
  const [, inBrackets, name = '', portText = '6379'] =
    /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(text) ?? [];
  const valid =
    inBrackets === undefined
      ? /^[\p{L}\p{N}._-]+$/u.test(name)
      : /^[\da-f:.]+$/i.test(inBrackets) && URL.canParse(`http://[${inBrackets}]`);
  if (!valid) throw new RedisUrlFault(unreadable, `write it as in ${FORM}; ${ENCODE}`);
  const port = /^\d{1,5}$/.test(portText) ? Number(portText) : 0;
  if (port < 1 || port > 65_535) {
    throw new RedisUrlFault(
      'has a port that is not a number from 1 to 65535',
      `write it as in ${FORM}`,
    );
  }
  return { host: inBrackets ?? name, port };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RedisUrlFault('contains a % outside a percent-encoded character', ENCODE);
  }
}
