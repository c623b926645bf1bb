import { addressFault, type AddressFault } from '../domain/address.js';
import type { Findings } from './problems.js';
import type { Given } from './values.js';

/** Stands in for an address that can't be used; the problem has been reported. */
const NO_ADDRESS = new URL('https://invalid.invalid');

/** What to say of an address that no request may go to. */
const FAULTS: Readonly<Record<AddressFault, { readonly what: string; readonly remedy: string }>> = {
  scheme: {
    what: 'is no web address',
    remedy: 'give the marketplace’s address, such as https://market.example',
  },
  user: {
    what: 'contains a user name or password',
    remedy: 'leave them out; the API key has its own setting',
  },
  query: {
    what: 'goes on with a query or fragment',
    remedy: 'end the address before any ? or #; the API key has its own setting',
  },
  'plain-http': {
    what: 'would get the API key unencrypted',
    remedy: 'use https://, or set ALLOW_PLAIN_HTTP=true if you trust every network between',
  },
};

/**
 * The base address of a marketplace: http(s), without user name, query or fragment; plain http only
 * to this machine unless allowed, since the key would travel in the clear.
 */
export function readMarketplaceUrl(given: Given, allowPlainHttp: boolean, findings: Findings): URL {
  const url = URL.canParse(given.text) ? new URL(given.text) : null;
  const fault = url === null ? 'scheme' : addressFault(url, allowPlainHttp);
  if (url === null || fault !== null) {
    findings.problem({ where: given.where, value: given.text, ...FAULTS[fault ?? 'scheme'] });
    return NO_ADDRESS;
  }
  if (/\/api\/*$/.test(url.pathname)) {
    findings.warn({
      where: given.where,
      value: given.text,
      what: 'ends in /api, which is added to every request anyway',
      remedy: 'leave /api out unless the marketplace really answers under /api/api',
    });
  }
  return url;
}

/**
 * Checks the database's address as far as that is possible without asking the server. Its text is
 * never shown: it holds a password. Passwords are hidden in every other message too.
 */
export function checkDatabaseUrl(given: Given, findings: Findings): void {
  findings.hide(given.text);
  if (!/^postgres(?:ql)?:\/\//.test(given.text)) {
    findings.problem({
      where: given.where,
      what: 'is no address of a PostgreSQL server',
      remedy: 'begin it with postgresql://, such as postgresql://user:password@host:5432/database',
    });
    return;
  }
  // An empty host is a socket in PostgreSQL's addresses, and an error in those of the web.
  const web = given.text.replace(/^(postgres(?:ql)?:\/\/(?:[^/]*@)?)(?=[/?]|$)/, '$1localhost');
  if (!URL.canParse(web)) {
    findings.problem({
      where: given.where,
      what: 'can’t be read as an address',
      remedy:
        'check host and port, and write special characters of the password percent-encoded (@ is %40, / is %2F, # is %23)',
    });
    return;
  }
  const { password, hash } = new URL(web);
  if (hash !== '') {
    findings.problem({
      where: given.where,
      what: 'contains a #, where an address ends',
      remedy: 'write # in the password as %23',
    });
  }
  if (password !== '') {
    findings.hide(password);
    findings.hide(decoded(password));
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
