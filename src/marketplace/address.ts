import { addressFault, type AddressFault } from '../domain/address.js';

export { hostName, isLoopback } from '../domain/address.js';

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

const FAULTS: Readonly<Record<Exclude<AddressFault, 'plain-http'>, string>> = {
  scheme: 'must begin with https://',
  user: 'must not contain a user name or password',
  query: 'must end before any ? or #',
};

/**
 * Checks a base address.
 * @throws PlainHttpRefusedError for http to other machines, unless allowed
 * @throws MarketplaceOptionsError for other schemes, user names, passwords, queries and fragments
 */
export function checkBaseUrl(url: URL, allowPlainHttp: boolean): void {
  const fault = addressFault(url, allowPlainHttp);
  if (fault === null) return;
  if (fault === 'plain-http') throw new PlainHttpRefusedError(url.host);
  throw new MarketplaceOptionsError(`the marketplace address ${FAULTS[fault]}`);
}
