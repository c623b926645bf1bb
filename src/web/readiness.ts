import type { HealthCheck } from '../app/service.js';
import type { Log } from '../domain/log.js';
import { cachedCall, CallTimeout } from './cached-call.js';

/** What a check found. */
export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  /** Null when it works. */
  readonly why: string | null;
}

/** However often somebody asks, the checks are made once a second at most. */
const FRESH_MS = 1_000;
const LONGEST_REASON = 300;

/**
 * Returns a function that makes all checks, and logs when their results change.
 * @param timeoutMs longest wait for one check; all are made at the same time
 */
export function readiness(
  checks: readonly HealthCheck[],
  log: Log,
  timeoutMs: number,
): () => Promise<readonly CheckResult[]> {
  const calls = checks.map(({ name, check }) => {
    const call = cachedCall(check, { timeoutMs, freshMs: () => 0 });
    return async (): Promise<CheckResult> => {
      const why = await call().then(reasonOf, reasonOfError);
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
  return cachedCall(checkAll, { timeoutMs: 2 * timeoutMs, freshMs: () => FRESH_MS });
}

function reasonOf(text: string | void): string | null {
  if (text === undefined) return null;
  return text.replaceAll(/[\s\p{Cc}]+/gu, ' ').slice(0, LONGEST_REASON);
}

function reasonOfError(error: unknown): string {
  if (error instanceof CallTimeout) return error.message;
  const code = codeOf(error);
  return code === null ? 'failed' : `failed (${code})`;
}

/** The code of an error, or of the first one inside it, when it is a plain word. */
function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const code = 'code' in error ? error.code : undefined;
  if (typeof code === 'string' && /^\w{2,40}$/.test(code)) return code;
  return error instanceof AggregateError ? codeOf(error.errors[0]) : null;
}
