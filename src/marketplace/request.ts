import { readFileSync } from 'node:fs';
import {
  addressFault,
  headerNameFault,
  travelsInHeader,
  type AddressFault,
} from '../domain/address.js';
import { Secret } from '../domain/secret.js';
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

/**
 * The address and the key of a client, of whatever type the caller gave them.
 * @throws MarketplaceOptionsError when either is missing or of a wrong type; shows neither
 */
export function readAccess(options: MarketplaceOptions): { baseUrl: URL; key: Secret } {
  // Not every caller has types.
  const given = options as { baseUrl?: unknown; key?: unknown } | null | undefined;
  if (typeof given !== 'object' || given === null) {
    throw new MarketplaceOptionsError('createMarketplace needs { baseUrl, key }');
  }
  return { baseUrl: readUrl(given.baseUrl), key: readKey(given.key) };
}

function readUrl(url: unknown): URL {
  if (url instanceof URL) return url;
  const example = 'such as https://market.example';
  if (url === undefined || url === null || url === '') {
    throw new MarketplaceOptionsError(`baseUrl is missing; give an address ${example}`);
  }
  if (typeof url !== 'string' || !URL.canParse(url)) {
    throw new MarketplaceOptionsError(`baseUrl is no address ${example}`);
  }
  return new URL(url);
}

function readKey(key: unknown): Secret {
  const secret = typeof key === 'string' ? new Secret(key) : key;
  if (secret !== undefined && secret !== null && !(secret instanceof Secret)) {
    throw new MarketplaceOptionsError(
      `key is no text but ${typeof key}; give it as a text or as a Secret`,
    );
  }
  if (!secret || secret.reveal().trim() === '') {
    throw new MarketplaceOptionsError('key is missing; give the API key');
  }
  return secret;
}

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

/** A request without its address, which a redirect may change. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  /** Query to append to the path, with its `?`; empty when there is none. Holds the key. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

export const DEFAULT_CARRIAGE: ParameterCarriage = { placement: 'default', keyHeader: null };

/**
 * A plain product name: servers redirect one that contains Mozilla, Chrome, Firefox, Opera or Edge
 * to the home page (field notes: requests).
 */
export const USER_AGENT = `seller-mirror/${ownVersion()}`;

/** Texts that need no encoding in a form. */
const PLAIN = /^[\w.*-]*$/;

/**
 * Builds requests with parameters and key in the configured place (spec 4 and 5 leave it open): by
 * default in the query on GET and in a form body on POST.
 */
export class RequestBuilder {
  readonly #placement: ParameterCarriage['placement'];
  /** The key as a parameter; none when it travels in a header. */
  readonly #keyParameter: Readonly<Record<string, string>>;
  readonly #encodedKey: string;
  readonly #headers: Readonly<Record<'bare' | 'form' | 'json', Readonly<Record<string, string>>>>;

  constructor(key: Secret, { placement, keyHeader }: ParameterCarriage) {
    this.#placement = placement;
    this.#keyParameter = keyHeader === null ? { api_key: key.reveal() } : {};
    this.#encodedKey = new URLSearchParams(this.#keyParameter).toString();
    const bare = {
      'user-agent': USER_AGENT,
      accept: 'application/json',
      'accept-encoding': 'gzip, br',
      ...(keyHeader === null ? {} : { [keyHeader.toLowerCase()]: key.reveal() }),
    };
    this.#headers = {
      bare,
      form: { ...bare, 'content-type': 'application/x-www-form-urlencoded' },
      json: { ...bare, 'content-type': 'application/json' },
    };
  }

  build(method: 'GET' | 'POST', parameters: Readonly<Record<string, string>>): HttpRequest {
    if (this.#placement === 'json') {
      const body = JSON.stringify({ ...parameters, ...this.#keyParameter });
      return { method, query: '', headers: this.#headers.json, body };
    }
    const encoded = this.#encode(parameters);
    if (method === 'GET' || this.#placement === 'query') {
      const query = encoded === '' ? '' : `?${encoded}`;
      return { method, query, headers: this.#headers.bare, body: null };
    }
    return { method, query: '', headers: this.#headers.form, body: encoded };
  }

  #encode(parameters: Readonly<Record<string, string>>): string {
    const pairs = Object.entries(parameters).map(([name, value]) =>
      PLAIN.test(value) ? `${name}=${value}` : new URLSearchParams({ [name]: value }).toString(),
    );
    if (this.#encodedKey !== '') pairs.push(this.#encodedKey);
    return pairs.join('&');
  }
}

/**
 * Checks that the key can be sent in the configured header.
 * @throws MarketplaceOptionsError when the header's name is invalid or taken, or when the key has
 * characters that a header can't contain
 */
export function checkCarriage(carriage: ParameterCarriage, key: Secret): void {
  const name = carriage.keyHeader;
  if (name === null) return;
  if (headerNameFault(name) !== null) {
    throw new MarketplaceOptionsError(`the key cannot travel in a header named ${inspect(name)}`);
  }
  if (!travelsInHeader(key.reveal())) {
    throw new MarketplaceOptionsError(
      'the API key holds characters that cannot travel in a header; send it as a parameter',
    );
  }
}

function inspect(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}

function ownVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
