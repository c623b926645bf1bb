export type AddressFault =
  | 'scheme' // neither http nor https
  | 'user' // a user name or password
  | 'query' // has a query or fragment, even an empty one
  | 'plain-http'; // would carry the key unencrypted to another machine

/** Checks the base address of a marketplace; null when it can be used. */
export function addressFault(url: URL, allowPlainHttp: boolean): AddressFault | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'scheme';
  if (url.username !== '' || url.password !== '') return 'user';
  // `search` and `hash` are the same for an empty query and none.
  if (/[?#]/.test(url.href)) return 'query';
  return isSafeForKey(url, allowPlainHttp) ? null : 'plain-http';
}

/** True when the key may be sent to this address: https, or http within this machine. */
export function isSafeForKey(url: URL, allowPlainHttp: boolean): boolean {
  if (url.protocol === 'https:') return true;
  return url.protocol === 'http:' && (allowPlainHttp || isLoopback(url.hostname));
}

/** This machine: localhost, 127.0.0.0/8, ::1. @param host as `URL` spells it, or without its brackets */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|::1|\[::1\]|127(?:\.\d{1,3}){3})$/.test(host);
}

/** The name of the budget of a host: without `www.` (spec 1), with a port that is not the default. */
export function hostName(url: URL): string {
  return withoutWww(url.host);
}

export function withoutWww(host: string): string {
  return host.startsWith('www.') ? host.slice(4) : host;
}

/** Whether both names from `hostName` mean one marketplace, whatever their ports and letter case. */
export function sameHost(a: string, b: string): boolean {
  return bareHost(a) === bareHost(b);
}

function bareHost(host: string): string {
  // An IPv6 address without brackets has colons, but no port.
  const name = withoutWww(host.toLowerCase().replace(/^(\[.*\]|[^:]*):\d*$/, '$1'));
  return isLoopback(name) ? 'localhost' : name;
}

/** Headers that every request already has. */
const TAKEN_HEADER =
  /^(?:accept|accept-encoding|connection|content-length|content-type|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent)$/i;

/** Checks the name of a header for the key; null when it can be used. */
export function headerNameFault(name: string): 'no-name' | 'taken' | null {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name)) return 'no-name';
  return TAKEN_HEADER.test(name) ? 'taken' : null;
}

/** True when a header can contain the text unchanged: visible ASCII, with blanks only inside. */
export function fitsInHeader(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text);
}
