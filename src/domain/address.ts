/** What is wrong with a base address. */
export type AddressFault =
  | 'scheme' // neither http nor https
  | 'user' // a user name or password
  | 'query' // goes on with a query or fragment, be it an empty one
  | 'plain-http'; // would carry the key unencrypted to another machine

/** Checks the base address of a marketplace; null when requests may go there. */
export function addressFault(url: URL, allowPlainHttp: boolean): AddressFault | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'scheme';
  if (url.username !== '' || url.password !== '') return 'user';
  // `search` and `hash` do not tell an empty query from none.
  if (/[?#]/.test(url.href)) return 'query';
  return mayCarryKey(url, allowPlainHttp) ? null : 'plain-http';
}

/** True when the key may be sent to this address: https, or http to where nobody listens in. */
export function mayCarryKey(url: URL, allowPlainHttp: boolean): boolean {
  if (url.protocol === 'https:') return true;
  return url.protocol === 'http:' && (allowPlainHttp || isLoopback(url.hostname));
}

/**
 * True for names and addresses of this machine: localhost, 127.0.0.0/8 and ::1.
 * @param hostname as `URL` spells it, in lower case
 */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/**
 * Host without the `www.` label (spec 1: served with or without it), and port if not the default:
 * the name of the budget that all who ask this host share.
 */
export function hostName(url: URL): string {
  return withoutWww(url.host);
}

/** A host name in lower case without its `www.` label. */
export function withoutWww(host: string): string {
  return host.startsWith('www.') ? host.slice(4) : host;
}

/**
 * True when two names as `hostName` gives them mean one marketplace: ports and letter case do not
 * count, and all names of this machine are one.
 */
export function sameHost(a: string, b: string): boolean {
  return bareHost(a) === bareHost(b);
}

function bareHost(host: string): string {
  // An IPv6 address without brackets has colons, but no port.
  const name = withoutWww(host.toLowerCase().replace(/^(\[.*\]|[^:]*):\d*$/, '$1'));
  return name === '::1' || isLoopback(name) ? 'localhost' : name;
}

/** Headers that every request uses itself. */
const TAKEN_HEADERS = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);

/** Checks the name of the header that is to carry the key; null when it can. */
export function headerNameFault(name: string): 'no-name' | 'taken' | null {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name)) return 'no-name';
  return TAKEN_HEADERS.has(name.toLowerCase()) ? 'taken' : null;
}

/** True when a header can carry the text as it is: visible ASCII, with blanks only within. */
export function travelsInHeader(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text);
}
