export type AddressFault =
  | 'scheme' // neither http nor https
  | 'user' // a user name or password
  | 'query' // has a query or fragment, even an empty one
  | 'plain-http'; // would carry the key unencrypted to another machine

/** Checks the base address of a marketplace; null if it can be used. */
export function addressFault(url: URL, allowPlainHttp: boolean): AddressFault | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'scheme';
  if (url.username !== '' || url.password !== '') return 'user';
  // `search` and `hash` can't tell an empty query from no query.
  if (/[?#]/.test(url.href)) return 'query';
  return isSafeForKey(url, allowPlainHttp) ? null : 'plain-http';
}

/** True if the key may be sent to this address: https, or http on this machine. */
export function isSafeForKey(url: URL, allowPlainHttp: boolean): boolean {
  if (url.protocol === 'https:') return true;
  return url.protocol === 'http:' && (allowPlainHttp || isLoopback(url.hostname));
}

/** True for this machine: localhost, 127.0.0.0/8, ::1. @param host IPv6 with or without brackets */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|::1|\[::1\]|127(?:\.\d{1,3}){3})$/.test(host);
}

/** Where a server of this program listens. */
export interface ListenAddress {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  /** False: the default address, so another port will do if this one is taken. */
  readonly chosen: boolean;
}

/** The name under which a host's budget is stored: without `www.` (API 1), with any unusual port. */
export function hostName(url: URL): string {
  return withoutWww(url.host);
}

export function withoutWww(host: string): string {
  return host.startsWith('www.') ? host.slice(4) : host;
}

/** True if two names from `hostName` are the same marketplace. Ports and letter case don't count. */
export function sameHost(a: string, b: string): boolean {
  return bareHost(a) === bareHost(b);
}

function bareHost(host: string): string {
  // An IPv6 address without brackets has colons but no port.
  const name = withoutWww(host.toLowerCase().replace(/^(\[.*\]|[^:]*):\d*$/, '$1'));
  return isLoopback(name) ? 'localhost' : name;
}

/** Headers that every request already uses. */
const RESERVED_HEADER =
  /^(?:accept|accept-encoding|connection|content-length|content-type|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent)$/i;

/** Checks the name of a header for the key; null if it can be used. */
export function headerNameFault(name: string): 'no-name' | 'taken' | null {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name)) return 'no-name';
  return RESERVED_HEADER.test(name) ? 'taken' : null;
}

/** True if a header carries the text unchanged: visible ASCII, with spaces only inside. */
export function fitsInHeader(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text);
}
