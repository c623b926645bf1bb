import type { IncomingMessage } from 'node:http';
import { isLoopback } from '../domain/address.js';
import { METRICS_TYPE } from './metrics.js';
import type { Finding } from './readiness.js';
import { VERSION } from './version.js';

/** What to answer. */
export interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where the contents come from. */
export interface Pages {
  readonly ready: () => Promise<readonly Finding[]>;
  readonly metrics: () => Promise<string>;
}

const METHODS = ['GET', 'HEAD'];

const INDEX = `seller-mirror

/healthz  the process is alive
/readyz   it can work: every check, and what is wrong
/metrics  for Prometheus
`;

/**
 * The answer to a request; never rejects.
 * @param local whether the server is reachable from its own machine only
 */
export async function answerFor(
  request: IncomingMessage,
  local: boolean,
  pages: Pages,
): Promise<Answer> {
  const { method = '', url = '', headers } = request;
  // A page of the web whose name was made to point to this machine comes with that name.
  if (local && !isOwnName(headers.host)) return text(421, 'this is not the host you asked for');
  if (!METHODS.includes(method)) {
    return { ...text(405, 'only GET and HEAD'), headers: { allow: METHODS.join(', ') } };
  }
  try {
    return await page(url.split('?', 1)[0] ?? '', pages);
  } catch {
    return text(503, 'not available just now');
  }
}

async function page(path: string, pages: Pages): Promise<Answer> {
  switch (path) {
    case '/':
      return text(200, INDEX);
    case '/healthz':
      return json(200, { status: 'alive', version: VERSION, uptimeSeconds: process.uptime() });
    case '/readyz':
      return ready(await pages.ready());
    case '/metrics':
      return { status: 200, type: METRICS_TYPE, body: await pages.metrics() };
    default:
      return text(404, 'there is nothing here; / lists what there is');
  }
}

function ready(checks: readonly Finding[]): Answer {
  const ok = checks.every((check) => check.ok);
  return json(ok ? 200 : 503, { status: ok ? 'ready' : 'not ready', checks });
}

/** @param host a `Host` header; without one it is no browser that asks */
function isOwnName(host: string | undefined): boolean {
  if (host === undefined) return true;
  const [, name] = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host) ?? [];
  return name !== undefined && isLoopback(name.toLowerCase());
}

function text(status: number, body: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', body: `${body.trimEnd()}\n` };
}

function json(status: number, value: unknown): Answer {
  return { status, type: 'application/json', body: `${JSON.stringify(value)}\n` };
}
