/** The proxy of a request, as people read it: without user and password. */
export interface Proxy {
  /** Such as `http://proxy.example:3128`. */
  readonly address: string;
  /** The variable that names it. */
  readonly variable: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Small letters go first, as in undici and curl. An empty one turns the other off. */
function variableIn(environment: Environment, name: string): readonly [string, string] | null {
  const chosen = [name.toLowerCase(), name].find((one) => environment[one] !== undefined);
  const value = chosen === undefined ? '' : (environment[chosen] ?? '');
  return chosen === undefined || value === '' ? null : [chosen, value];
}

/** The proxy that undici uses for requests to this address; null: none. */
export function proxyOf(url: URL, environment: Environment): Proxy | null {
  const http = variableIn(environment, 'HTTP_PROXY');
  const https = url.protocol === 'https:' ? variableIn(environment, 'HTTPS_PROXY') : null;
  const found = https ?? http;
  const [, exceptions = ''] = variableIn(environment, 'NO_PROXY') ?? [];
  if (found === null || isExcepted(url, exceptions)) return null;
  const [variable, address] = found;
  if (!URL.canParse(address)) return { address: 'an address that can’t be read', variable };
  const { protocol, host } = new URL(address);
  return { address: `${protocol}//${host}`, variable };
}

/** Whether NO_PROXY names the host, one of its domains, or `*`. */
function isExcepted({ protocol, host, port }: URL, exceptions: string): boolean {
  if (exceptions === '*') return true;
  const name = host.replace(/:\d*$/, '').toLowerCase();
  const number = Number(port) || (protocol === 'https:' ? 443 : 80);
  return exceptions
    .split(/[,\s]/)
    .filter((entry) => entry !== '')
    .some((entry) => {
      const [, named = entry, only] = /^(.+):(\d+)$/.exec(entry) ?? [];
      const domain = named.replace(/^\*?\./, '').toLowerCase();
      if (only !== undefined && Number(only) !== number) return false;
      return name === domain || name.endsWith(`.${domain}`);
    });
}
