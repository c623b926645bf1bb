import {
  addressFault,
  headerNameFault,
  fitsInHeader,
  type AddressFault,
} from '../domain/address.js';
import { Secret } from '../domain/secret.js';
import { VERSION } from '../version.js';
import type { Endpoint } from './endpoints.js';
import { MAX_TIMER_MS } from './reply.js';
import {
  MarketplaceOptionsError,
  PlainHttpRefusedError,
  type MarketplaceOptions,
  type ParameterCarriage,
} from './types.js';

const ADDRESS_RULES: Readonly<Record<Exclude<AddressFault, 'plain-http'>, string>> = {
  scheme: 'must begin with https://',
  user: 'must not contain a user name or password',
  query: 'must not contain ? or #',
};

/** Node 20 has no larger buffer. */
const MAX_LIST_BYTES = 4 * 1024 ** 3;

/** Every option, with the largest value of those that are numbers. The compiler asks for a missing one. */
const OPTIONS: Readonly<Record<keyof MarketplaceOptions, number | null>> = {
  baseUrl: null,
  key: null,
  carriage: null,
  budget: null,
  randomParameter: null,
  allowPlainHttp: null,
  maxListBytes: MAX_LIST_BYTES,
  listMarks: null,
  headersTimeoutMs: MAX_TIMER_MS,
  bodyTimeoutMs: MAX_TIMER_MS,
  replyTimeoutMs: MAX_TIMER_MS,
  listTimeoutMs: MAX_TIMER_MS,
  retry: null,
  onCall: null,
};

interface CheckedOptions extends Required<Pick<MarketplaceOptions, 'carriage' | 'allowPlainHttp'>> {
  readonly baseUrl: URL;
  readonly key: Secret;
}

/**
 * Checks a client's options, also for callers without types. Errors show neither the address nor the key.
 * @throws {PlainHttpRefusedError | MarketplaceOptionsError}
 */
export function checkOptions(options: MarketplaceOptions): CheckedOptions {
  const untyped = options as Partial<Record<keyof MarketplaceOptions, unknown>> | null | undefined;
  if (typeof untyped !== 'object' || untyped === null) {
    throw new MarketplaceOptionsError('createMarketplace needs { baseUrl, key }');
  }
  const unknown = Object.keys(untyped).find((name) => !Object.hasOwn(OPTIONS, name));
  if (unknown !== undefined) {
    const known = Object.keys(OPTIONS).join(', ');
    throw new MarketplaceOptionsError(
      `createMarketplace has no option "${unknown}"; it has ${known}`,
    );
  }
  for (const [name, most] of Object.entries(OPTIONS)) {
    const value = untyped[name as keyof MarketplaceOptions];
    if (most === null || value === undefined) continue;
    if (typeof value === 'number' && value > 0 && value <= most) continue;
    throw new MarketplaceOptionsError(`${name} must be a number above 0 up to ${most}`);
  }
  const [baseUrl, key] = [readUrl(untyped.baseUrl), readKey(untyped.key)];
  const { carriage = DEFAULT_CARRIAGE, allowPlainHttp = false } = options;
  const fault = addressFault(baseUrl, allowPlainHttp);
  if (fault === 'plain-http') throw new PlainHttpRefusedError(baseUrl.host);
  if (fault !== null) {
    throw new MarketplaceOptionsError(`the marketplace address ${ADDRESS_RULES[fault]}`);
  }
  checkCarriage(carriage, key);
  return { baseUrl, key, carriage, allowPlainHttp };
}

function readUrl(url: unknown): URL {
  if (url instanceof URL) return url;
  const example = 'such as https://market.example';
  if (url === undefined || url === null || url === '') {
    throw new MarketplaceOptionsError(`baseUrl is missing; pass an address ${example}`);
  }
  if (typeof url !== 'string' || !URL.canParse(url)) {
    throw new MarketplaceOptionsError(`baseUrl is not an address ${example}`);
  }
  return new URL(url);
}

function readKey(key: unknown): Secret {
  const secret = typeof key === 'string' ? new Secret(key) : (key ?? new Secret(''));
  if (!(secret instanceof Secret)) {
    throw new MarketplaceOptionsError(`key has the type ${typeof key}; pass a string or a Secret`);
  }
  if (secret.reveal().trim() !== '') return secret;
  throw new MarketplaceOptionsError('key is missing; pass the API key');
}

/** A request without its address, since a redirect may change that. */
export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  /** Query string with its leading `?`, or empty. May contain the key. */
  readonly query: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

const DEFAULT_CARRIAGE: ParameterCarriage = { placement: 'default', keyHeader: null };

/** Plain on purpose: servers redirect browsers' user agents to the home page (servers: requests). */
const USER_AGENT = `seller-mirror/${VERSION}`;

/** Name of the random parameter. Servers ignore parameters that they don't know. */
const RANDOM_PARAMETER = '_';

/** @param random value of the random parameter; null: the request goes without */
export type BuildRequest = (
  endpoint: Pick<Endpoint, 'operation' | 'method' | 'parameters'>,
  random: string | null,
) => HttpRequest;

/**
 * Returns a function that builds requests. Parameters and key go where `ParameterCarriage` says,
 * because the contract leaves it open (API 4, 5).
 */
export function requestBuilder(
  key: Secret,
  { placement, keyHeader }: ParameterCarriage,
): BuildRequest {
  const keyParameter = keyHeader === null ? { api_key: key.reveal() } : {};
  const keyed = {
    'user-agent': USER_AGENT,
    accept: 'application/json',
    ...(keyHeader === null ? {} : { [keyHeader.toLowerCase()]: key.reveal() }),
  };
  return ({ operation, method, parameters }, random) => {
    // A purchase fits into one packet: to compress it costs both sides more than it saves.
    const bare = {
      ...keyed,
      'accept-encoding': operation === 'validate' ? 'identity' : 'gzip, br',
    };
    const all = { ...parameters, ...keyParameter };
    // In the query, also of a POST: caches compare addresses, and seldom bodies.
    const mark: Record<string, string> = random === null ? {} : { [RANDOM_PARAMETER]: random };
    if (placement === 'json') {
      return {
        method,
        query: queryOf(mark),
        headers: { ...bare, 'content-type': 'application/json' },
        body: JSON.stringify(all),
      };
    }
    if (method === 'GET' || placement === 'query') {
      return { method, query: queryOf({ ...all, ...mark }), headers: bare, body: null };
    }
    const body = new URLSearchParams(all).toString();
    return {
      method,
      query: queryOf(mark),
      headers: { ...bare, 'content-type': 'application/x-www-form-urlencoded' },
      body,
    };
  };
}

function queryOf(parameters: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams(parameters).toString();
  return query === '' ? '' : `?${query}`;
}

/** @throws {MarketplaceOptionsError} when the key can't be sent in the configured header */
function checkCarriage({ keyHeader }: ParameterCarriage, key: Secret): void {
  if (keyHeader === null) return;
  if (headerNameFault(keyHeader) !== null) {
    const shown = JSON.stringify(keyHeader.slice(0, 60));
    throw new MarketplaceOptionsError(`the API key can’t be sent in a header named ${shown}`);
  }
  if (!fitsInHeader(key.reveal())) {
    throw new MarketplaceOptionsError(
      'the API key contains characters that are not allowed in a header; send it as a parameter',
    );
  }
}
