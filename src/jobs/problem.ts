import { describeFailure, type Failure, type UnavailableReason } from '../domain/reply.js';
import { displayName } from '../domain/values.js';
import type { HeldItems, NamedItem } from '../store/decisions.js';
import { explainDatabaseError } from '../store/errors.js';
import { PAUSED } from '../store/sellers.js';
import type { Run } from '../store/runs.js';
import type { JobOutcome, Problem, ProblemCode } from './types.js';

/** Ends a run as failed; thrown by the steps of a run and caught by `performRun`. */
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

/** What becomes of a job whose run failed so. */
export function problemAction(code: ProblemCode): 'park' | 'give-up' | 'retry' {
  // Only a person can mend these, and every further run would meet them again.
  if (code === 'refused' || code === 'account-changed') return 'park';
  // BatchValidator again at once gives the same; by the next tick the marketplace may have mended it.
  return code === 'unreadable' || code === 'not-found' ? 'give-up' : 'retry';
}

const CHECK_ADDRESS =
  'check MARKETPLACE_URL: it must be the base address of the API; `seller-mirror doctor` tells more';
const LATER = 'try again later';

const REMEDIES: Readonly<Record<Exclude<Failure['kind'], 'denied' | 'unavailable'>, string>> = {
  refused: 'check the API key in the workspace settings of the marketplace, and MARKETPLACE_URL',
  limited: 'wait, or lower REQUESTS_PER_MINUTE if others share this address',
  unreadable: CHECK_ADDRESS,
};

const UNAVAILABLE_REMEDIES: Readonly<Record<UnavailableReason, string>> = {
  network: 'check the network, and the host in MARKETPLACE_URL',
  'plain-http':
    'correct the port in MARKETPLACE_URL; if there is none with TLS, write http:// and set ALLOW_PLAIN_HTTP=true, which shows the key to everybody on the way',
  timeout: LATER,
  'server-error': LATER,
  maintenance: LATER,
  'cut-off': LATER,
  challenge:
    'wait before you try again; if it stays, ask the marketplace to let this address use its API',
  html: CHECK_ADDRESS,
  redirect: CHECK_ADDRESS,
  'switched-off': `the API may be switched off; otherwise ${CHECK_ADDRESS}`,
};

/** Where the marketplace or the way to it was out of order, which says nothing of a setting. */
const OUTAGES: ReadonlySet<UnavailableReason> = new Set<UnavailableReason>([
  ...(['network', 'timeout', 'server-error', 'maintenance', 'cut-off'] as const),
]);

export function isOutage(failure: Failure): boolean {
  return failure.kind === 'unavailable' && OUTAGES.has(failure.reason);
}

/** When the marketplace said to come back, milliseconds since 1970; null when it did not say. */
export function retryTime(failure: Failure): number | null {
  return 'retryAt' in failure ? failure.retryAt : null;
}

export function failureRemedy(failure: Failure): string {
  if (failure.kind === 'unavailable') return UNAVAILABLE_REMEDIES[failure.reason];
  return REMEDIES[failure.kind === 'denied' ? 'refused' : failure.kind];
}

const ONE_BROKEN_ITEM =
  'one broken item can do this to a whole list; single items can be mirrored with `seller-mirror sync item ID`';

/** The problem that a failed reply makes of a run. @param isList it is the reply to the list of items */
export function problemOf(failure: Failure, isList = false): RunProblem {
  const code = failure.kind === 'denied' ? 'refused' : failure.kind;
  const reason = failure.kind === 'unavailable' ? failure.reason : null;
  const notes = [
    failureRemedy(failure),
    ...(isOutage(failure) ? ['the copy is as it was'] : []),
    ...(isList && reason === 'server-error' ? [ONE_BROKEN_ITEM] : []),
  ];
  return new RunProblem(code, describeFailure(failure), notes.join('; '), retryTime(failure));
}

export const INTERRUPTED: Problem = {
  code: 'interrupted',
  message: 'interrupted',
  remedy: 'run it again',
  permanent: false,
  notBefore: null,
};

const LONGEST_WORDS = 300;

export function errorText(error: unknown): string {
  const store = explainDatabaseError(error, '');
  if (store !== null) return store.message;
  const text = error instanceof Error ? error.message : String(error);
  // The first lines of an error of Prisma's tell of the code that met it, the last one what it was.
  const last =
    text
      .trim()
      .split(/\s*\n\s*/)
      .at(-1) ?? '';
  return last.slice(0, LONGEST_WORDS);
}

/** What follows from an error that a job met: nothing is known of it but that it may pass. */
export function errorOutcome(error: unknown, signal: AbortSignal): JobOutcome {
  // Whatever came of being told to stop, another worker takes it from here.
  if (signal.aborted) return { kind: 'hand-back' };
  return { kind: 'retry', problem: errorText(error), notBefore: null };
}

/** A lock that somebody else holds is tried again after this (ms), and up to as much again. */
const BUSY_MS = 30_000;

/** What follows from a lock that somebody else holds. */
export function busyOutcome(reason: string) {
  return { kind: 'later', reason, delayMs: Math.round(BUSY_MS * (1 + Math.random())) } as const;
}

export function storeProblem(error: unknown): Problem {
  return { ...INTERRUPTED, code: 'store', message: errorText(error), remedy: 'check the database' };
}

/** What to do about the problem of an earlier run, by its code; the run itself told it too. */
export function problemRemedy(code: string | null, sellerId: string): string {
  const remedies: Readonly<Record<string, string>> = {
    refused:
      'check the API key in the workspace settings of the marketplace, then run `seller-mirror doctor`',
    'account-changed': `if the account was only renamed: \`seller-mirror sync account --seller ${sellerId} --accept-account\``,
    limited: REMEDIES.limited,
    interrupted: 'run `seller-mirror sync` again to go on; nothing is half done',
    unavailable: 'run `seller-mirror sync` again; the copy is as it was',
    unreadable: 'run `seller-mirror doctor`; the copy is as it was',
    store: 'check the database, then run `seller-mirror sync` again',
  };
  return remedies[code ?? ''] ?? '`seller-mirror doctor` checks everything a run needs';
}

/** How to go on with a seller that schedules leave alone. */
export function parkedRemedy(code: string, sellerId: string): string {
  if (code === PAUSED) return `press Resume on the page of ${sellerId} in the dashboard`;
  return code === 'account-changed'
    ? `give the other account a seller name of its own; if it was only renamed, \`seller-mirror sync account --seller ${sellerId} --accept-account\` resumes the schedule`
    : `mend the key, then \`seller-mirror sync --seller ${sellerId}\` resumes the schedule`;
}

export function runRemedy({
  runId,
  sellerId,
  state,
  problemCode,
}: Pick<Run, 'runId' | 'sellerId' | 'state' | 'problemCode'>): string {
  return state === 'held' ? heldRemedy(runId) : problemRemedy(problemCode, sellerId);
}

/** The two ways to go on after a run was held. */
export function heldRemedy(runId: bigint): string {
  return `if they are really gone, \`seller-mirror runs approve ${runId}\` removes them; if not, \`seller-mirror runs reject ${runId}\` keeps them as missing`;
}

/** `12 of 40 items are no longer listed (1001 Foo, 1002 Bar and 10 more), …`. */
export function describeHeld({ items, confirmed, present, examples }: HeldItems): string {
  const gone =
    confirmed === items
      ? 'the marketplace denies each of them'
      : confirmed === 0
        ? 'what became of them is not proven'
        : `the marketplace denies ${confirmed} of them, what became of the others is not proven`;
  return `${items} of ${present} items are no longer listed (${exampleNames(examples, items)}), more than the removal guard allows; ${gone}; present items are mirrored and nothing was removed`;
}

/** `1001 Foo, 1002 Bar and 10 more`. */
export function exampleNames(examples: readonly NamedItem[], items: number): string {
  const names = examples.map(({ itemId, name }) => `${itemId} ${displayName(name)}`.trim());
  const more = items - examples.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

/** What there is to say about a run that did not succeed. */
export function runProblem(
  { state, problem }: Pick<Run, 'state' | 'problem'>,
  held: HeldItems | null,
): string {
  if (problem !== null) return problem;
  if (state !== 'held') return state;
  return held === null ? 'more items would go than the removal guard allows' : describeHeld(held);
}

export function auditRemedy(auditId: bigint): string {
  return `mend what it says, then \`seller-mirror audits resume ${auditId}\` goes on; nothing that is recorded is asked again`;
}
