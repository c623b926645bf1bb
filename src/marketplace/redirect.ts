import { isSafeForKey, withoutWww } from '../domain/address.js';

/**
 * Decides whether a redirect is safe to follow: only www ↔ apex of the same host, http → https on the default
 * ports, and a trailing slash (servers: requests). Ignores the query that the server sends.
 * @param from the URL that answered
 * @returns the host of the redirect (null: it has no valid address), and the URL to follow (null: don't)
 */
export function decideRedirect(
  from: URL,
  location: string | null,
  allowPlainHttp: boolean,
): { readonly host: string | null; readonly to: URL | null } {
  if (location === null || !URL.canParse(location, from.href)) return { host: null, to: null };
  const target = new URL(location, from);
  const isAllowed =
    target.username === '' &&
    target.password === '' &&
    withoutWww(target.hostname) === withoutWww(from.hostname) &&
    isSameOrSafer(from, target) &&
    [from.pathname, `${from.pathname}/`, from.pathname.replace(/\/$/, '')].includes(
      target.pathname,
    ) &&
    isSafeForKey(target, allowPlainHttp);
  return { host: target.host, to: isAllowed ? new URL(target.pathname, target.origin) : null };
}

function isSameOrSafer(from: URL, to: URL): boolean {
  if (from.protocol === to.protocol) return from.port === to.port;
  return from.protocol === 'http:' && to.protocol === 'https:' && from.port + to.port === '';
}
