/** A reply's body, of any size; made while it is sent. */
export interface Body {
  chunks(): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  /** Length in bytes; null when only rendering the body would tell. */
  readonly length: number | null;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Body;
}

/** A short body held in memory. */
export function textBody(text: string): Body {
  const bytes = Buffer.from(text);
  return { length: bytes.length, chunks: () => (bytes.length === 0 ? [] : [bytes]) };
}

/** JSON text as a reply. */
export function jsonAnswer(
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    headers: { 'Content-Type': 'application/json', ...headers },
    body: textBody(text),
  };
}

/** A page of the site. */
export function htmlAnswer(
  status: number,
  title: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  const page = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title><style>body{margin:0}</style></head>
<body><h1>${title}</h1><script>window.app = {"status": "page"};</script></body></html>
`;
  const type = { 'Content-Type': 'text/html; charset=UTF-8' };
  return { status, headers: { ...type, ...headers }, body: textBody(page) };
}

/** A redirect with the small page that servers put below it. */
export function redirectAnswer(status: number, location: string): Answer {
  return htmlAnswer(status, 'Redirecting', { Location: location });
}

/** An error of the framework rather than of the API: `message`, not `msg` (field notes). */
export function frameworkError(
  status: number,
  message: string,
  wantsJson: boolean,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  if (!wantsJson) return htmlAnswer(status, message || 'Not Found', headers);
  return jsonAnswer(status, JSON.stringify({ message }), headers);
}

/** Redirects that the server always makes, until a request has the right address. */
export interface RedirectOptions {
  readonly canonical?: 'www' | 'apex';
  /** Add a trailing slash to paths, or take it away. */
  readonly trailingSlash?: 'add' | 'remove';
  /** Send every request to https, at this port of the same host. */
  readonly httpsPort?: number;
  /** Default 301. */
  readonly status?: 301 | 302 | 303 | 307 | 308;
}

/** Where a redirect leads. */
export type RedirectTarget =
  | { readonly to: 'www' | 'apex' | 'trailing-slash' | 'home' }
  | { readonly to: 'https' | 'http'; readonly port?: number }
  /** Same path and query on another origin: the key goes along unless the client knows better. */
  | { readonly to: 'origin'; readonly origin: string }
  | { readonly to: 'url'; readonly url: string };

/** The address that a request came to. */
export interface RequestUrl {
  readonly secure: boolean;
  /** The Host header. */
  readonly host: string;
  /** Path and query as they came. */
  readonly target: string;
}

/** The `Location` for a request to the wrong host, scheme or path; null when all are right. */
export function canonicalLocation(requestUrl: RequestUrl, options: RedirectOptions): string | null {
  const { canonical, trailingSlash, httpsPort } = options;
  const isWww = requestUrl.host.startsWith('www.');
  const hasSlash = requestUrl.target.replace(/\?.*/s, '').endsWith('/');
  if (httpsPort !== undefined && !requestUrl.secure) {
    return location(requestUrl, { to: 'https', port: httpsPort });
  }
  if (canonical === 'www' && !isWww) return location(requestUrl, { to: 'www' });
  if (canonical === 'apex' && isWww) return location(requestUrl, { to: 'apex' });
  if (trailingSlash === 'add' && !hasSlash) return location(requestUrl, { to: 'trailing-slash' });
  if (trailingSlash === 'remove' && hasSlash && requestUrl.target !== '/') {
    return origin(requestUrl) + withPath(requestUrl.target, (path) => path.replace(/\/+$/, ''));
  }
  return null;
}

/** The `Location` of a redirect. */
export function location(requestUrl: RequestUrl, target: RedirectTarget): string {
  const apex = requestUrl.host.replace(/^www\./, '');
  const scheme = requestUrl.secure ? 'https' : 'http';
  switch (target.to) {
    case 'www':
      return `${scheme}://www.${apex}${requestUrl.target}`;
    case 'apex':
      return `${scheme}://${apex}${requestUrl.target}`;
    case 'https':
    case 'http': {
      const port = target.port === undefined ? '' : `:${target.port}`;
      return `${target.to}://${requestUrl.host.replace(/:\d+$/, '')}${port}${requestUrl.target}`;
    }
    case 'trailing-slash':
      return origin(requestUrl) + withPath(requestUrl.target, (path) => `${path}/`);
    case 'home':
      return `${origin(requestUrl)}/`;
    case 'origin':
      return target.origin.replace(/\/$/, '') + requestUrl.target;
    case 'url':
      return target.url;
  }
}

/** Scheme, host and port that a request came to. */
export function origin({ secure, host }: RequestUrl): string {
  return `${secure ? 'https' : 'http'}://${host}`;
}

function withPath(target: string, change: (path: string) => string): string {
  const [path = '', ...query] = target.split('?');
  return [change(path), ...query].join('?');
}
