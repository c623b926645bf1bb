import { readFileSync } from 'node:fs';
import {
  addressFault,
  headerNameFault,
  travelsInHeader,
  type AddressFault,
} from '../domain/address.js';
import type { Secret } from '../domain/secret.js';
import { MarketplaceOptionsError, PlainHttpRefusedError, type ParameterCarriage } from './types.js';

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
