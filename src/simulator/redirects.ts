import type { RedirectTarget } from './faults.js';

/** Redirects that the server always makes, until a request comes to the right place. */
export interface RedirectOptions {
  readonly canonical?: 'www' | 'apex';
  /** Add a trailing slash to paths, or take it away. */
  readonly trailingSlash?: 'add' | 'remove';
  /** Send every request to https, at this port of the same host. */
  readonly httpsPort?: number;
  /** Default 301. */
  readonly status?: 301 | 302 | 303 | 307 | 308;
}

/** What a redirect needs to know of a request. */
export interface Asked {
  readonly secure: boolean;
  /** The Host header. */
  readonly host: string;
  /** Path and query as they came. */
  readonly target: string;
}

/** Where the server sends a request that came to the wrong place; null when it came to the right one. */
export function canonicalLocation(asked: Asked, options: RedirectOptions): string | null {
  const { canonical, trailingSlash, httpsPort } = options;
  const isWww = asked.host.startsWith('www.');
  const hasSlash = asked.target.replace(/\?.*/s, '').endsWith('/');
  if (httpsPort !== undefined && !asked.secure) {
    return location(asked, { to: 'https', port: httpsPort });
  }
  if (canonical === 'www' && !isWww) return location(asked, { to: 'www' });
  if (canonical === 'apex' && isWww) return location(asked, { to: 'apex' });
  if (trailingSlash === 'add' && !hasSlash) return location(asked, { to: 'trailing-slash' });
  if (trailingSlash === 'remove' && hasSlash && asked.target !== '/') {
    return origin(asked) + withPath(asked.target, (path) => path.replace(/\/+$/, ''));
  }
  return null;
}

/** The `Location` of a redirect. */
export function location(asked: Asked, target: RedirectTarget): string {
  const apex = asked.host.replace(/^www\./, '');
  const scheme = asked.secure ? 'https' : 'http';
  switch (target.to) {
    case 'www':
      return `${scheme}://www.${apex}${asked.target}`;
    case 'apex':
      return `${scheme}://${apex}${asked.target}`;
    case 'https':
    case 'http': {
      const port = target.port === undefined ? '' : `:${target.port}`;
      return `${target.to}://${asked.host.replace(/:\d+$/, '')}${port}${asked.target}`;
    }
    case 'trailing-slash':
      return origin(asked) + withPath(asked.target, (path) => `${path}/`);
    case 'home':
      return `${origin(asked)}/`;
    case 'origin':
      return target.origin.replace(/\/$/, '') + asked.target;
    case 'url':
      return target.url;
  }
}

/** Scheme, host and port that a request came to. */
export function origin({ secure, host }: Asked): string {
  return `${secure ? 'https' : 'http'}://${host}`;
}

function withPath(target: string, change: (path: string) => string): string {
  const [path = '', ...query] = target.split('?');
  return [change(path), ...query].join('?');
}
