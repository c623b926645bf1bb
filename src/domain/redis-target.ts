import { Fault } from './fault.js';
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

const FORM = 'redis://user:password@host:6379/0';

const unreadable = (): Fault =>
  new Fault(
    `can’t be read as an address: write it as ${FORM}, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, ? is %3F, % is %25)`,
  );

/**
 * Reads an address of Redis or Valkey, `redis://[user:password@]host[:port][/database]`. `rediss` and `valkeys` mean
 * TLS. User and password are percent-decoded.
 * @throws {Fault}
 */
export function parseRedisUrl(text: string): RedisTarget {
  const [, scheme = ''] = /^([a-z+-]*):\/\//i.exec(text) ?? [];
  if (/[-+](?:sentinel|cluster)$/i.test(scheme)) {
    throw new Fault(
      `names sentinels or a cluster, which can’t store the queue: name one server, such as ${FORM}, or leave it out: then the queue is in PostgreSQL`,
    );
  }
  const [known, tls = ''] = /^(?:redis|valkey)(s?)$/i.exec(scheme) ?? [];
  if (known === undefined) {
    throw new Fault(
      `is not an address of a Redis server: begin it with redis://, such as ${FORM}, or with rediss:// for TLS`,
    );
  }
  // An @ after the host is part of a password with a character that ends the host.
  if (
    /[\s\p{Cc}]|:(?:\/|$)|@.*@|[/?#].*@/u.test(text.slice(scheme.length + 3)) ||
    !URL.canParse(text)
  ) {
    throw unreadable();
  }
  const { hostname, port, username, password, pathname, search, hash } = new URL(text);
  if (hostname === '' || port === '0' || search !== '' || hash !== '') throw unreadable();
  if (hostname.includes(',')) {
    throw new Fault(`names several hosts instead of one: keep one, as in ${FORM}`);
  }
  if (!/^\/?\d{0,5}$/.test(pathname)) {
    throw new Fault(
      `names a database that is not a number: write the number after the host, as in ${FORM}`,
    );
  }
  if (username !== '' && password === '') {
    throw new Fault(
      'has a user name but no password: write user:password@ before the host, or :password@ for a password alone',
    );
  }
  return {
    host: decoded(hostname.replaceAll(/[[\]]/g, '')),
    port: Number(port || 6379),
    username: username === '' ? null : decoded(username),
    password: password === '' ? null : new Secret(decoded(password)),
    database: Number(pathname.slice(1)),
    tls: tls !== '',
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw unreadable();
  }
}
