import { Secret } from './secret.js';

export interface RedisNode {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Where Redis or Valkey is, and how to log in. Safe to print: passwords mask themselves. */
export interface RedisTarget {
  /** `sentinel`: `nodes` are sentinels, which know the master. `cluster`: some of the cluster's nodes. */
  readonly mode: 'single' | 'sentinel' | 'cluster';
  /** At least one; exactly one for `single`. */
  readonly nodes: readonly RedisNode[];
  /** The name by which sentinels know the master; null in other modes. */
  readonly masterName: string | null;
  readonly username: string | null;
  readonly password: Secret | null;
  /** For the sentinels themselves. */
  readonly sentinelPassword: Secret | null;
  /** A cluster has only database 0. */
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
const SENTINEL_FORM = 'redis-sentinel://host:26379,host:26379/master-name';
const CLUSTER_FORM = 'redis-cluster://host:6379,host:6379';
const ENCODE =
  'write special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, ? is %3F, % is %25)';

/**
 * Reads an address of Redis or Valkey. `rediss` and `valkeys` mean TLS:
 *
 * - `redis://[user:password@]host[:port][/database]`
 * - `redis-sentinel://[user:password@]host[:port],…/master-name[/database][?sentinelPassword=…]`
 * - `redis-cluster://[user:password@]host[:port],…`
 *
 * User, passwords and the master's name are percent-decoded.
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
  const scheme = /^(?:redis|valkey)(s?)(?:[-+](sentinel|cluster))?$/i.exec(word);
  if (scheme === null) {
    throw new RedisUrlFault(
      /^https?$/i.test(word)
        ? 'is a web address, not a Redis address'
        : 'is not an address of a Redis server',
      `begin it with redis://, such as ${FORM}, with rediss:// for TLS, or with redis-sentinel:// or redis-cluster://`,
    );
  }
  const mode = (scheme[2]?.toLowerCase() as 'sentinel' | 'cluster' | undefined) ?? 'single';
  const { user, hosts, path, query } = partsOf(rest);
  const [, masterName = '', afterMaster = ''] = /^\/?([^/]*)\/?(.*)$/s.exec(path) ?? [];
  if (mode === 'sentinel' && masterName === '') {
    throw new RedisUrlFault(
      'does not name the master that the sentinels watch',
      `write it after the hosts, as in ${SENTINEL_FORM}`,
    );
  }
  return {
    mode,
    nodes: nodesOf(hosts, mode),
    masterName: mode === 'sentinel' ? decoded(masterName) : null,
    ...credentialsOf(user),
    sentinelPassword: sentinelPasswordOf(query, mode),
    database: databaseOf(mode === 'sentinel' ? afterMaster : path.slice(1), mode),
    tls: scheme[1] !== '',
  };
}

/** Splits what follows `://`. The path begins with a slash unless it is empty. */
function partsOf(rest: string) {
  const [, authority = '', path = '', query = '', fragment] =
    /^([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?(#.*)?$/s.exec(rest) ?? [];
  const [first = '', second, ...more] = authority.split('@');
  // An @ after the hosts means that a / ? or # in the password has cut the address short.
  if (`${path}${query}${fragment ?? ''}`.includes('@') || more.length > 0) {
    throw new RedisUrlFault('can’t be read as an address', ENCODE);
  }
  if (fragment !== undefined) {
    throw new RedisUrlFault(
      'contains a #, which ends an address',
      'write # in the password as %23',
    );
  }
  return { user: second === undefined ? '' : first, hosts: second ?? first, path, query };
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

function nodesOf(hosts: string, mode: RedisTarget['mode']): readonly RedisNode[] {
  const texts = hosts.split(',');
  if (mode === 'single' && texts.length > 1) {
    throw new RedisUrlFault(
      'names several hosts instead of one',
      `keep one, or write ${SENTINEL_FORM} for sentinels or ${CLUSTER_FORM} for a cluster`,
    );
  }
  return texts.map((text) => nodeOf(text, mode === 'sentinel' ? '26379' : '6379'));
}

function nodeOf(text: string, usualPort: string): RedisNode {
  const unreadable = 'has a host that can’t be read';
  if (text === '' || text.startsWith(':')) {
    throw new RedisUrlFault('has no host', `write it as in ${FORM}`);
  }
  if (/^[^[]*:.*:/.test(text)) {
    throw new RedisUrlFault(unreadable, 'write an IPv6 address in brackets, such as [::1]');
  }
  const [, inBrackets, name = '', portText = usualPort] =
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

function databaseOf(text: string, mode: RedisTarget['mode']): number {
  if (mode === 'cluster' && text !== '' && text !== '0') {
    throw new RedisUrlFault(
      'names a database, but a cluster has only database 0',
      `end it after the hosts, as in ${CLUSTER_FORM}`,
    );
  }
  if (!/^\d{0,5}$/.test(text)) {
    throw new RedisUrlFault(
      'names a database that is not a number',
      mode === 'sentinel'
        ? `write the number after the master’s name, as in ${SENTINEL_FORM}/0`
        : `write the number after the host, as in ${FORM}`,
    );
  }
  return Number(text);
}

function sentinelPasswordOf(query: string, mode: RedisTarget['mode']): Secret | null {
  if (query === '') return null;
  const [, password] = /^sentinelPassword=([^&]*)$/.exec(query) ?? [];
  if (mode !== 'sentinel' || password === undefined) {
    throw new RedisUrlFault(
      'has unknown options after the question mark',
      mode === 'sentinel'
        ? 'the only option is sentinelPassword'
        : `end it before the question mark, as in ${FORM}`,
    );
  }
  return password === '' ? null : new Secret(decoded(password));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new RedisUrlFault('contains a % outside a percent-encoded character', ENCODE);
  }
}
