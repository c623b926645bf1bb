/** Why a base address can't be used. */
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
  return mayCarryKey(url, allowPlainHttp) ? null : 'plain-http';
}

/** True when the key may be sent to this address: https, or http within this machine. */
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
 * the name of the budget that all clients of this host share.
 */
export function hostName(url: URL): string {
  return withoutWww(url.host);
}

/** A host name in lower case without its `www.` label. */
export function withoutWww(host: string): string {
  return host.startsWith('www.') ? host.slice(4) : host;
}

/**
 * True when two names from `hostName` mean one marketplace: ignores ports and letter case, and all
 * names of this machine are equal.
 */
export function sameHost(a: string, b: string): boolean {
  return bareHost(a) === bareHost(b);
}

function bareHost(host: string): string {
  // An IPv6 address without brackets has colons, but no port.
  const name = withoutWww(host.toLowerCase().replace(/^(\[.*\]|[^:]*):\d*$/, '$1'));
  return name === '::1' || isLoopback(name) ? 'localhost' : name;
}

/** Headers that every request already has. */
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

/** Checks the name of a header for the key; null when it can be used. */
export function headerNameFault(name: string): 'no-name' | 'taken' | null {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name)) return 'no-name';
  return TAKEN_HEADERS.has(name.toLowerCase()) ? 'taken' : null;
}

/** True when a header can contain the text unchanged: visible ASCII, with blanks only inside. */
export function travelsInHeader(text: string): boolean {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text);
}
