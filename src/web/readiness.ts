import type { Log } from '../domain/log.js';
import { NoAnswer, sparingly } from './sparingly.js';

/** Something that must work for the process to do its work. */
export interface HealthCheck {
  readonly name: string;
  /**
   * Resolves to nothing when it works, and otherwise to the reason: a sentence that anybody may
   * read. Of an error only the code is shown, since its text may hold an address with a password.
   */
  readonly check: () => Promise<string | void>;
}

/** What a check found. */
export interface Finding {
  readonly name: string;
  readonly ok: boolean;
  /** Null when it works. */
  readonly why: string | null;
}

/** Longest wait for one check; all are made at the same time. */
const PATIENCE_MS = 3_000;
/** However often somebody asks, the checks are made once a second at most. */
const GOOD_FOR_MS = 1_000;
const LONGEST_REASON = 300;

/** Returns a function that makes all checks, and logs when what they find changes. */
export function readiness(
  checks: readonly HealthCheck[],
  log: Log,
  patienceMs = PATIENCE_MS,
): () => Promise<readonly Finding[]> {
  const askAll = checks.map(({ name, check }) => {
    const ask = sparingly(check, { patienceMs, goodForMs: () => 0 });
    return () => find(name, ask);
  });
  let said = '';
  const look = async (): Promise<readonly Finding[]> => {
    const findings = await Promise.all(askAll.map((ask) => ask()));
    const problems = findings.filter(({ ok }) => !ok).map(({ name, why }) => `${name}: ${why}`);
    const now = problems.join('; ');
    if (now !== said && now !== '') log.warn(`not ready: ${now}`);
    if (now !== said && now === '') log.info('ready again');
    said = now;
    return findings;
  };
  // Each check is bounded, so all are.
  return sparingly(look, { patienceMs: 2 * patienceMs, goodForMs: () => GOOD_FOR_MS });
}

async function find(name: string, ask: () => Promise<string | void>): Promise<Finding> {
  const why = await ask().then(reason, reasonOfError);
  return { name, ok: why === null, why };
}

function reason(text: string | void): string | null {
  if (text === undefined) return null;
  return text.replaceAll(/[\s\p{Cc}]+/gu, ' ').slice(0, LONGEST_REASON);
}

function reasonOfError(error: unknown): string {
  if (error instanceof NoAnswer) return error.message;
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
