import { Hono } from 'hono';
import type { HealthCheck } from '../app/service.js';
import { isLoopback } from '../domain/address.js';
import { errorCode } from '../domain/error-code.js';
import type { Log } from '../domain/log.js';
import { NoAnswer } from '../queue/concurrency.js';
import { cachedCall } from './cached-call.js';
import { HEALTH, LIMITS, serve, type ListenTarget, type Pages, type WebServer } from './listen.js';
import { VERSION } from '../version.js';
import { METRICS_TYPE } from './metrics.js';

export interface HealthServerOptions {
  readonly listen: ListenTarget;
  /** What must work for `/readyz` to say so. */
  readonly checks: readonly HealthCheck[];
  readonly metrics: () => Promise<string>;
  readonly log: Log;
}

const HEALTH_LIMITS = {
  ...LIMITS,
  /** Longest wait for one check, and for the text of metrics, milliseconds. */
  checkMs: 3_000,
  metricsMs: 10_000,
};
export type HealthLimits = Readonly<typeof HEALTH_LIMITS>;

/** However often somebody asks, checks are made and metrics gathered once a second at most. */
const freshMs = (): number => 1_000;

/**
 * Serves `/healthz`, `/readyz` and `/metrics`, to anybody who can reach the address: they tell
 * nothing that is secret, and asking costs next to nothing.
 * @throws {ListenError} when it can't listen there
 */
export async function startHealthServer(
  options: HealthServerOptions,
  limits: HealthLimits = HEALTH_LIMITS,
): Promise<WebServer> {
  const { listen, log } = options;
  return await serve(
    (isOnlyHere) => pagesOf(options, limits, isOnlyHere),
    listen,
    HEALTH,
    limits,
    log,
  );
}

const INDEX = `seller-mirror

/healthz  the process is alive
/readyz   it can work: every check, and what is wrong
/metrics  for Prometheus
`;

function pagesOf(
  { checks, metrics, log }: HealthServerOptions,
  { checkMs, metricsMs }: HealthLimits,
  isOnlyHere: () => boolean,
): Pages {
  const results = readiness(checks, log, checkMs);
  const metricsText = cachedCall(metrics, metricsMs, freshMs);
  const pages: Pages = new Hono({
    // As it was sent: nothing is served under another spelling of its path.
    getPath: (_, options) => options?.env?.incoming.url?.split('?', 1)[0] ?? '',
  });
  pages.use(async (context, next) => {
    const { method = '', headers } = context.env.incoming;
    context.header('cache-control', 'no-store');
    context.header('x-content-type-options', 'nosniff');
    const hasBody =
      headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
    // A body is not read; what follows it on the connection would be.
    if (hasBody) context.header('connection', 'close');
    // A page of the web whose name was made to point to this machine comes with that name.
    if (isOnlyHere() && !isOwnName(headers.host)) {
      return context.text('this is not the host you asked for\n', 421);
    }
    if (method === 'GET' || method === 'HEAD') return await next();
    return context.text('only GET and HEAD\n', 405, { allow: 'GET, HEAD' });
  });
  pages.get('/', (context) => context.text(INDEX));
  pages.get('/healthz', (context) =>
    context.json({ status: 'alive', version: VERSION, uptimeSeconds: process.uptime() }),
  );
  pages.get('/readyz', async (context) => {
    const found = await results();
    const ok = found.every((check) => check.ok);
    return context.json({ status: ok ? 'ready' : 'not ready', checks: found }, ok ? 200 : 503);
  });
  pages.get('/metrics', async (context) =>
    context.body(await metricsText(), 200, { 'content-type': METRICS_TYPE }),
  );
  pages.notFound((context) => context.text('there is nothing here; / lists what there is\n', 404));
  pages.onError((_, context) => context.text('not available just now\n', 503));
  return pages;
}

/** @param host a `Host` header; without one it is no browser that asks */
function isOwnName(host: string | undefined): boolean {
  if (host === undefined) return true;
  const [, name] = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host) ?? [];
  return name !== undefined && isLoopback(name.toLowerCase());
}

/** What a check found; `why` is null when it works. */
interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly why: string | null;
}

/** Returns a function that makes all checks at the same time, and logs when their results change. */
function readiness(
  checks: readonly HealthCheck[],
  log: Log,
  timeoutMs: number,
): () => Promise<readonly CheckResult[]> {
  const calls = checks.map(({ name, check }) => {
    const call = cachedCall(check, timeoutMs, () => 0);
    return async (): Promise<CheckResult> => {
      const why = await call().then(
        (text) => text?.replaceAll(/[\s\p{Cc}]+/gu, ' ').slice(0, LONGEST_REASON) ?? null,
        reasonOf,
      );
      return { name, ok: why === null, why };
    };
  });
  let logged = '';
  const checkAll = async (): Promise<readonly CheckResult[]> => {
    const results = await Promise.all(calls.map((call) => call()));
    const problems = results.filter(({ ok }) => !ok).map(({ name, why }) => `${name}: ${why}`);
    const now = problems.join('; ');
    if (now !== logged && now !== '') log.warn(`not ready: ${now}`);
    if (now !== logged && now === '') log.info('ready again');
    logged = now;
    return results;
  };
  // Each check is bounded, so all are.
  return cachedCall(checkAll, 2 * timeoutMs, freshMs);
}

const LONGEST_REASON = 300;

/** Shows of an error only its code, or that of the first error inside it, when it is a plain word. */
function reasonOf(error: unknown): string {
  if (error instanceof NoAnswer) return error.message;
  const code = errorCode(error);
  return /^\w{2,40}$/.test(code) ? `failed (${code})` : 'failed';
}
