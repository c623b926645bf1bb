import { Hono } from 'hono';
import type { HealthCheck } from './service.js';
import { isLoopback } from '../domain/address.js';
import { errorCode } from '../domain/error-code.js';
import type { Log } from '../domain/log.js';
import { oneLine } from '../domain/text.js';
import { TimeoutError, cachedCall, withTimeout } from './concurrency.js';
import { HEALTH, LIMITS, serve, type ListenTarget, type Pages, type WebServer } from './listen.js';
import { VERSION } from '../version.js';
import { METRICS_TYPE } from './metrics.js';

export interface HealthServerOptions {
  readonly listen: ListenTarget;
  /** All of them must pass for `/readyz` to report ready. */
  readonly checks: readonly HealthCheck[];
  readonly metrics: () => Promise<string>;
  readonly log: Log;
}

/** Timeouts of one check, and of collecting metrics (ms). */
const CHECK_MS = 3_000;
const METRICS_MS = 10_000;

/** Results are reused (ms), so that frequent requests cost nothing; metrics so long that queries take 5 % of the time. */
const CHECKS_FRESH_MS = 1_000;
const metricsFreshMs = (tookMs: number): number => Math.max(2_000, 20 * tookMs);

/**
 * Serves `/healthz`, `/readyz` and `/metrics` without authentication: they show no secrets.
 * @throws {UserError} when it can't listen on the address
 */
export async function startHealthServer(options: HealthServerOptions): Promise<WebServer> {
  const { listen, log } = options;
  return await serve((isOnlyHere) => pagesOf(options, isOnlyHere), listen, HEALTH, LIMITS, log);
}

const INDEX = `seller-mirror

/healthz  the process is alive
/readyz   the process can work: every check, and what is wrong
/metrics  for Prometheus
`;

function pagesOf({ checks, metrics, log }: HealthServerOptions, isOnlyHere: () => boolean): Pages {
  const checkAll = readiness(checks, log);
  const metricsText = cachedCall(metrics, METRICS_MS, metricsFreshMs);
  const pages: Pages = new Hono({
    // The raw path: pages are not served under other spellings of their paths.
    getPath: (_, options) => options?.env?.incoming.url?.split('?', 1)[0] ?? '',
  });
  pages.use(async (context, next) => {
    const { method = '', headers } = context.env.incoming;
    context.header('cache-control', 'no-store');
    context.header('x-content-type-options', 'nosniff');
    const hasBody =
      headers['transfer-encoding'] !== undefined || Number(headers['content-length']) > 0;
    // The body is not read, so nothing after it on the connection may be either.
    if (hasBody) context.header('connection', 'close');
    // DNS rebinding: a web page may point its own host name to this machine.
    if (isOnlyHere() && !isOwnName(headers.host)) {
      return context.text('this server does not have the host name in your request\n', 421);
    }
    if (method === 'GET' || method === 'HEAD') return await next();
    return context.text('only GET and HEAD are allowed\n', 405, { allow: 'GET, HEAD' });
  });
  pages.get('/', (context) => context.text(INDEX));
  pages.get('/healthz', (context) =>
    context.json({ status: 'alive', version: VERSION, uptimeSeconds: process.uptime() }),
  );
  pages.get('/readyz', async (context) => {
    const results = await checkAll();
    const ok = results.every((check) => check.ok);
    return context.json({ status: ok ? 'ready' : 'not ready', checks: results }, ok ? 200 : 503);
  });
  pages.get('/metrics', async (context) =>
    context.body(await metricsText(), 200, { 'content-type': METRICS_TYPE }),
  );
  pages.notFound((context) => context.text('there is no such page; / lists all pages\n', 404));
  pages.onError((_, context) => context.text('not available right now; try again\n', 503));
  return pages;
}

/** @param host the `Host` header; browsers always send one */
function isOwnName(host: string | undefined): boolean {
  if (host === undefined) return true;
  const [, name] = /^(\[[^\]]*\]|[^:]*)(?::\d*)?$/.exec(host) ?? [];
  return name !== undefined && isLoopback(name.toLowerCase());
}

interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  /** Why the check failed; null when it passed. */
  readonly why: string | null;
}

/** Maximum characters of `why`. */
const MAX_REASON = 300;

/** Returns a function that runs all checks at the same time and logs when their results change. */
function readiness(
  checks: readonly HealthCheck[],
  log: Log,
): () => Promise<readonly CheckResult[]> {
  let logged = '';
  const checkAll = async (): Promise<readonly CheckResult[]> => {
    const results = await Promise.all(
      checks.map(async ({ name, check }): Promise<CheckResult> => {
        const why = await withTimeout(CHECK_MS, check()).then(
          (text) => (text === undefined ? null : oneLine(text, MAX_REASON)),
          errorReason,
        );
        return { name, ok: why === null, why };
      }),
    );
    const problems = results.filter(({ ok }) => !ok).map(({ name, why }) => `${name}: ${why}`);
    const now = problems.join('; ');
    if (now !== logged) {
      if (now === '') log.info('ready again');
      else log.warn(`not ready: ${now}`);
    }
    logged = now;
    return results;
  };
  return cachedCall(checkAll, 2 * CHECK_MS, () => CHECKS_FRESH_MS);
}

/** Shows only the code of an error, or of its first inner error: messages may contain passwords. */
function errorReason(error: unknown): string {
  if (error instanceof TimeoutError) return error.message;
  const code = errorCode(error);
  return /^\w{2,40}$/.test(code) ? `failed (${code})` : 'failed';
}
