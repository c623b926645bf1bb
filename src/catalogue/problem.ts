import {
  describeFailure,
  type Failure,
  type UnavailableReason,
  type Unreadable,
  isOutage,
  retryTimeOf,
} from '../marketplace/reply.js';
import type { HeldItems } from './held-store.js';
import { exampleNames } from './rules.js';
import { explainDatabaseError } from '../db/errors.js';
import type { Run } from './runs-store.js';
import type { JobOutcome, Problem, ProblemCode } from './types.js';

/** Fails a run. Thrown by the steps of a run, caught by `performRun`. */
export class RunProblem extends Error {
  override readonly name = 'RunProblem';
  readonly problem: Problem;

  constructor(
    code: ProblemCode,
    message: string,
    remedy: string,
    notBefore: Problem['notBefore'] = null,
  ) {
    super(message);
    this.problem = { code, message, remedy, permanent: problemAction(code) !== 'retry', notBefore };
  }
}

/** Decides what happens to a job whose run failed. */
export function problemAction(code: ProblemCode): 'park' | 'give-up' | 'retry' {
  // Only a person can fix these; further runs would fail the same way.
  if (code === 'refused' || code === 'account-changed' || code === 'account-twice') return 'park';
  // An immediate retry fails the same way; by the next scheduled run the marketplace may be fixed.
  return code === 'unreadable' || code === 'not-found' ? 'give-up' : 'retry';
}

const CHECK_ADDRESS =
  'check MARKETPLACE_URL: it must be the base address of the API; `seller-mirror doctor` shows details';
const LATER = 'try again later';

const REMEDIES: Readonly<
  Record<Exclude<Failure['kind'], 'denied' | 'unavailable'> | UnavailableReason, string>
> = {
  refused: 'check the API key in the workspace settings of the marketplace, and MARKETPLACE_URL',
  limited: 'wait, or lower REQUESTS_PER_MINUTE if others share this address',
  unreadable: CHECK_ADDRESS,
  network: 'check the network, and the host in MARKETPLACE_URL',
  'plain-http':
    'correct the port in MARKETPLACE_URL; if there is none with TLS, write http:// and set ALLOW_PLAIN_HTTP=true, which sends the key unencrypted',
  malformed: `${CHECK_ADDRESS}, or ask the marketplace to correct what its server or proxy sends`,
  timeout: LATER,
  'server-error': LATER,
  maintenance: LATER,
  'cut-off': LATER,
  cache: 'ask the marketplace to let no cache answer its API; then try again',
  challenge:
    'wait before you try again; if it stays, ask the marketplace to let this address use its API',
  html: CHECK_ADDRESS,
  redirect: CHECK_ADDRESS,
  'switched-off': `the API may be switched off; otherwise ${CHECK_ADDRESS}`,
};

const FLAWS: Readonly<Record<NonNullable<Unreadable['flaw']>, string>> = {
  'too-large': 'if a list may be that large, set MAX_LIST_MB higher; otherwise ask the marketplace',
  'part-of-list':
    'the copy is unchanged; if it is the whole list all the same, set LIST_MARKS=ignore',
};

export function failureRemedy(failure: Failure): string {
  if (failure.kind === 'unreadable' && failure.flaw !== undefined) return FLAWS[failure.flaw];
  if (failure.kind === 'unavailable') return REMEDIES[failure.reason];
  return REMEDIES[failure.kind === 'denied' ? 'refused' : failure.kind];
}

const ONE_BROKEN_ITEM =
  'one broken item can do this to a whole list; single items can be mirrored with `seller-mirror sync item ID`';

/** Converts a failed reply to a run's problem. @param isList whether it replied to the list request */
export function problemOf(failure: Failure, isList = false): RunProblem {
  const code = failure.kind === 'denied' ? 'refused' : failure.kind;
  const reason = failure.kind === 'unavailable' ? failure.reason : null;
  const notes = [
    failureRemedy(failure),
    ...(isOutage(failure) ? ['the copy is unchanged'] : []),
    ...(isList && reason === 'server-error' ? [ONE_BROKEN_ITEM] : []),
  ];
  return new RunProblem(code, describeFailure(failure), notes.join('; '), retryTimeOf(failure));
}

export const INTERRUPTED_PROBLEM: Problem = {
  code: 'interrupted',
  message: 'interrupted',
  remedy: 'run it again',
  permanent: false,
  notBefore: null,
};

const MAX_ERROR_TEXT = 300;

/** The error as one short line; database errors are put in plain words. */
function explainError(error: unknown): string {
  const store = explainDatabaseError(error, '');
  if (store !== null) return store.message;
  const text = error instanceof Error ? error.message : String(error);
  // The first lines of a Prisma error quote the calling code; the last one names the error.
  const last =
    text
      .trim()
      .split(/\s*\n\s*/)
      .at(-1) ?? '';
  return last.slice(0, MAX_ERROR_TEXT);
}

/** Decides what happens to a job after an unexpected error: retry, unless it was told to stop. */
export function errorOutcome(error: unknown, signal: AbortSignal): JobOutcome {
  // The error may only be an effect of stopping. Another worker continues.
  if (signal.aborted) return { kind: 'hand-back' };
  return { kind: 'retry', problem: explainError(error), notBefore: null };
}

/** Retry a busy lock after this time, plus up to as much again. */
const BUSY_RETRY_MS = 30_000;

/** Decides what happens to a job when another process holds its lock. */
export function busyOutcome(reason: string) {
  return {
    kind: 'later',
    reason,
    delayMs: Math.round(BUSY_RETRY_MS * (1 + Math.random())),
  } as const;
}

export function storeProblem(error: unknown): Problem {
  return {
    ...INTERRUPTED_PROBLEM,
    code: 'store',
    message: explainError(error),
    remedy: 'check the database',
  };
}

/** What to do about the problem of an earlier run. @param code `Problem.code`, as stored */
export function problemRemedy(code: string | null, sellerId: string): string {
  const remedies: Readonly<Record<string, string>> = {
    refused:
      'check the API key in the workspace settings of the marketplace, then run `seller-mirror doctor`',
    'account-changed': `if the account was only renamed: \`seller-mirror sync account --seller ${sellerId} --accept-account\``,
    'account-twice': `use one name for the account: take "${sellerId}" out of the settings, or remove or rename the other seller with \`seller-mirror sellers\``,
    limited: REMEDIES.limited,
    interrupted: 'run `seller-mirror sync` again to continue; nothing is half done',
    unavailable: 'run `seller-mirror sync` again; the copy is unchanged',
    unreadable: 'run `seller-mirror doctor`; the copy is unchanged',
    store: 'check the database, then run `seller-mirror sync` again',
  };
  return remedies[code ?? ''] ?? '`seller-mirror doctor` checks everything a run needs';
}

export function runRemedy(run: Pick<Run, 'sellerId' | 'problemCode'>): string {
  return problemRemedy(run.problemCode, run.sellerId);
}

/**
 * The same for somebody who looks at a page. It continues "you can".
 * @param button what the button is called that mirrors the seller
 */
export function problemOnPage(code: string | null, button: string): string {
  const remedies: Readonly<Record<string, string>> = {
    refused: `correct the API key in the settings, then press ${button}`,
    'account-changed':
      'give the other account a seller name of its own in the settings, or accept the account at the command line if it was only renamed',
    'account-twice':
      'use one name for the account: take one of the two sellers out of the settings',
  };
  return remedies[code ?? ''] ?? `press ${button} to try again; the copy is as it was before`;
}

/** What to do about held removals. @param runId of the run that shows them */
export function heldRemedy(runId: bigint): string {
  return `if they are really gone, \`seller-mirror sync --accept-removals ${runId}\` removes them; if not, \`seller-mirror sync --keep-removals ${runId}\` keeps them as missing`;
}

/** `12 of 40 items are no longer listed (1001 Foo, 1002 Bar and 10 more), …`. */
export function describeHeld({ items, confirmed, present, examples }: HeldItems): string {
  const gone =
    confirmed === items
      ? 'the marketplace denies each of them'
      : confirmed === 0
        ? 'none of them is proven to be gone'
        : `the marketplace denies ${confirmed} of them, the others are not proven to be gone`;
  return `${items} of ${present} items are no longer listed (${exampleNames(examples, items)}), more than a run removes by itself; ${gone}; present items are mirrored and nothing was removed`;
}
