import {
  addressFault,
  headerNameFault,
  fitsInHeader,
  type AddressFault,
} from '../domain/address.js';
import { Secret } from '../domain/secret.js';
import { VERSION } from '../version.js';
import {
  MarketplaceOptionsError,
  PlainHttpRefusedError,
  type MarketplaceOptions,
  type ParameterCarriage,
} from './types.js';

const FAULTS: Readonly<Record<Exclude<AddressFault, 'plain-http'>, string>> = {
  scheme: 'must begin with https://',
  user: 'must not contain a user name or password',
  query: 'must end before any ? or #',
};

const OPTIONS: Readonly<Record<keyof MarketplaceOptions, true>> = {
  baseUrl: true,
  key: true,
  carriage: true,
  budget: true,
  allowPlainHttp: true,
  maxReplyBytes: true,
  maxListBytes: true,
  maxRecordBytes: true,
  headersTimeoutMs: true,
  bodyTimeoutMs: true,
  replyTimeoutMs: true,
  listTimeoutMs: true,
  retry: true,
  onCall: true,
};

interface Access extends Required<Pick<MarketplaceOptions, 'carriage' | 'allowPlainHttp'>> {
  readonly baseUrl: URL;
  readonly key: Secret;
}

/**
 * The options of a client, of whatever type the caller gave them; errors show neither address nor key.
 * @throws {PlainHttpRefusedError | MarketplaceOptionsError}
 */
export function readAccess(options: MarketplaceOptions): Access {
  // Not every caller has types.
  const given = options as Partial<Record<keyof MarketplaceOptions, unknown>> | null | undefined;
  if (typeof given !== 'object' || given === null) {
    throw new MarketplaceOptionsError('createMarketplace needs { baseUrl, key }');
  }
  const unknown = Object.keys(given).find((name) => !Object.hasOwn(OPTIONS, name));
  if (unknown !== undefined) {
    throw new MarketplaceOptionsError(
      `createMarketplace has no option "${unknown}"; it has ${Object.keys(OPTIONS).join(', ')}`,
    );
  }
  const [baseUrl, key] = [readUrl(given.baseUrl), readKey(given.key)];
  const { carriage = DEFAULT_CARRIAGE, allowPlainHttp = false } = options;
  const fault = addressFault(baseUrl, allowPlainHttp);
  if (fault === 'plain-http') throw new PlainHttpRefusedError(baseUrl.host);
  if (fault !== null) {
    throw new MarketplaceOptionsError(`the marketplace address ${FAULTS[fault]}`);
  }
  checkCarriage(carriage, key);
  return { baseUrl, key, carriage, allowPlainHttp };
}

function readUrl(url: unknown): URL {
  if (url instanceof URL) return url;
  const example = 'such as https://market.example';
  if (url === undefined || url === null || url === '') {
    throw new MarketplaceOptionsError(`baseUrl is missing; give an address ${example}`);
  }
  if (typeof url !== 'string' || !URL.canParse(url)) {
    throw new MarketplaceOptionsError(`baseUrl is not an address ${example}`);
  }
  return new URL(url);
}

function readKey(key: unknown): Secret {
  const secret = typeof key === 'string' ? new Secret(key) : (key ?? new Secret(''));
  if (!(secret instanceof Secret)) {
    throw new MarketplaceOptionsError(
      `key is not a text but ${typeof key}; give it as a text or as a Secret`,
    );
  }
  if (secret.reveal().trim() !== '') return secret;
  throw new MarketplaceOptionsError('key is missing; give the API key');
}

/** A request without its address, which a redirect may change. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  /** Query to append to the path, with its `?`; empty when there is none. Holds the key. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export const DEFAULT_CARRIAGE: ParameterCarriage = { placement: 'default', keyHeader: null };

/** Servers redirect names with Mozilla, Chrome, Firefox, Opera or Edge to the home page (field notes). */
export const USER_AGENT = `seller-mirror/${VERSION}`;

/** Texts that need no encoding in a form. */
const PLAIN = /^[\w.*-]*$/;

export type BuildRequest = (
  method: 'GET' | 'POST',
  parameters: Readonly<Record<string, string>>,
) => HttpRequest;

/**
 * Makes a function that builds requests with parameters and key in the configured place (spec 4 and 5
 * leave it open): by default in the query on GET and in a form body on POST.
 */
export function requestBuilder(
  key: Secret,
  { placement, keyHeader }: ParameterCarriage,
): BuildRequest {
  const keyParameter = keyHeader === null ? { api_key: key.reveal() } : {};
  const encodedKey = new URLSearchParams(keyParameter).toString();
  const bare = {
    'user-agent': USER_AGENT,
    accept: 'application/json',
    'accept-encoding': 'gzip, br',
    ...(keyHeader === null ? {} : { [keyHeader.toLowerCase()]: key.reveal() }),
  };
  const form = { ...bare, 'content-type': 'application/x-www-form-urlencoded' };
  const json = { ...bare, 'content-type': 'application/json' };
  return (method, parameters) => {
    if (placement === 'json') {
      const body = JSON.stringify({ ...parameters, ...keyParameter });
      return { method, query: '', headers: json, body };
    }
    const pairs = Object.entries(parameters).map(([name, value]) =>
      PLAIN.test(value) ? `${name}=${value}` : new URLSearchParams({ [name]: value }).toString(),
    );
    if (encodedKey !== '') pairs.push(encodedKey);
    const encoded = pairs.join('&');
    if (method === 'GET' || placement === 'query') {
      return { method, query: encoded === '' ? '' : `?${encoded}`, headers: bare, body: null };
    }
    return { method, query: '', headers: form, body: encoded };
  };
}

/** @throws MarketplaceOptionsError when the key can't be sent in the configured header */
export function checkCarriage({ keyHeader }: ParameterCarriage, key: Secret): void {
  if (keyHeader === null) return;
  if (headerNameFault(keyHeader) !== null) {
    const shown = JSON.stringify(keyHeader.slice(0, 60));
    throw new MarketplaceOptionsError(`the key cannot travel in a header named ${shown}`);
  }
  if (!fitsInHeader(key.reveal())) {
    throw new MarketplaceOptionsError(
      'the API key holds characters that cannot travel in a header; send it as a parameter',
    );
  }
}
