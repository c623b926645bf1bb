/** The options of the marketplace client cannot work. The message never contains the key. */
export class MarketplaceOptionsError extends Error {
  override name = 'MarketplaceOptionsError';
}

/** The base address would send the key unencrypted to another machine. */
export class PlainHttpRefusedError extends MarketplaceOptionsError {
  override name = 'PlainHttpRefusedError';
  constructor(readonly host: string) {
    super(
      `${host} would get the API key over plain http: use https, or allow plain http explicitly`,
    );
  }
}

/** True for names and addresses of this machine: localhost, 127.0.0.0/8 and ::1. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}

/** True when the key may be sent to this address: https, or http to where nobody listens in. */
export function mayCarryKey(url: URL, allowPlainHttp: boolean): boolean {
  if (url.protocol === 'https:') return true;
  return url.protocol === 'http:' && (allowPlainHttp || isLoopback(url.hostname));
}

/**
 * Checks a base address.
 * @throws PlainHttpRefusedError for http to other machines, unless allowed
 * @throws MarketplaceOptionsError for other schemes, user names, passwords, queries and fragments
 */
export function checkBaseUrl(url: URL, allowPlainHttp: boolean): void {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new MarketplaceOptionsError('the marketplace address must begin with https://');
  }
  if (url.username !== '' || url.password !== '') {
    throw new MarketplaceOptionsError(
      'the marketplace address must not contain a user name or password',
    );
  }
  if (url.search !== '' || url.hash !== '') {
    throw new MarketplaceOptionsError('the marketplace address must end before any ? or #');
  }
  if (!mayCarryKey(url, allowPlainHttp)) throw new PlainHttpRefusedError(url.host);
}

/** Host without the `www.` label (spec 1: served with or without it), and port if not the default. */
export function hostName(url: URL): string {
  return withoutWww(url.host);
}

export function withoutWww(host: string): string {
  return host.startsWith('www.') ? host.slice(4) : host;
}
