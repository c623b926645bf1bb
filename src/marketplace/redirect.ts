import { mayCarryKey, withoutWww } from '../domain/address.js';

/** What to do about a redirect. */
export type RedirectDecision =
  | { readonly follow: true; readonly to: URL }
  | {
      readonly follow: false;
      /** The host it points to; null when the header is missing or no address. */
      readonly host: string | null;
    };

/** A redirect that goes on within the limits is followed this often in one attempt. */
export const MAX_REDIRECTS = 5;

const FOLLOWED = new Set([301, 302, 303, 307, 308]);

/** True for the statuses that say "ask there instead". */
export function isRedirect(httpStatus: number): boolean {
  return FOLLOWED.has(httpStatus);
}

/**
 * Decides on a redirect: followed are only www ↔ apex of the same host, http → https of the same
 * host on the default ports, and a trailing slash more or less (field notes: limits and weather).
 * Only origin and path are taken from the server; our own parameters are attached again by the
 * caller, with method and body as they were.
 * @param from the address that answered; its query is ignored
 * @param location the `Location` header
 */
export function decideRedirect(
  from: URL,
  location: string | null,
  allowPlainHttp: boolean,
): RedirectDecision {
  const target = parse(location, from);
  if (target === null) return { follow: false, host: null };
  const allowed =
    target.username === '' &&
    target.password === '' &&
    withoutWww(target.hostname) === withoutWww(from.hostname) &&
    sameOrSaferScheme(from, target) &&
    samePath(from.pathname, target.pathname) &&
    mayCarryKey(target, allowPlainHttp);
  if (!allowed) return { follow: false, host: target.host };
  return { follow: true, to: new URL(target.pathname, target.origin) };
}

function parse(location: string | null, base: URL): URL | null {
  if (location === null || !URL.canParse(location, base.href)) return null;
  return new URL(location, base);
}

function sameOrSaferScheme(from: URL, to: URL): boolean {
  if (from.protocol === to.protocol) return from.port === to.port;
  return (
    from.protocol === 'http:' && to.protocol === 'https:' && from.port === '' && to.port === ''
  );
}

function samePath(a: string, b: string): boolean {
  return a === b || `${a}/` === b || a === `${b}/`;
}
