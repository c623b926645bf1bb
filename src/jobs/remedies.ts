import type { Run } from '../store/status.js';

/** What to do about the problem of an earlier run, by its code; the run itself told it too. */
export function remedyFor(code: string | null, sellerId: string): string {
  switch (code) {
    case 'refused':
      return 'check the API key in the workspace settings of the marketplace, then run `seller-mirror doctor`';
    case 'account-changed':
      return `if the account was only renamed: \`seller-mirror sync account --seller ${sellerId} --accept-account\``;
    case 'limited':
      return 'wait, or lower REQUESTS_PER_MINUTE if others share this address';
    case 'unavailable':
    case 'interrupted':
      return 'run `seller-mirror sync` again; the copy is as it was';
    case 'unreadable':
      return 'run `seller-mirror doctor`; the copy is as it was';
    case 'store':
      return 'check the database, then run `seller-mirror sync` again';
    default:
      return '`seller-mirror doctor` checks everything a run needs';
  }
}

/** How to go on with a parked seller: only a run that goes well resumes its schedules. */
export function parkedRemedy(code: string, sellerId: string): string {
  return code === 'account-changed'
    ? `give the other account a seller name of its own; if it was only renamed, \`seller-mirror sync account --seller ${sellerId} --accept-account\` resumes the schedule`
    : `mend the key, then \`seller-mirror sync --seller ${sellerId}\` resumes the schedule`;
}

/** What to do about a run that did not succeed. */
export function runRemedy({ runId, sellerId, state, problemCode }: Run): string {
  return state === 'held'
    ? `see \`seller-mirror runs ${runId}\`; if the items are really gone, raise REMOVAL_GUARD_ITEMS or REMOVAL_GUARD_PERCENT for one run`
    : remedyFor(problemCode, sellerId);
}

/** What there is to say about a run that did not succeed. */
export function runProblem({ state, problem }: Run): string {
  return (
    problem ?? (state === 'held' ? 'more items would go than the removal guard allows' : state)
  );
}

/** How to go on with an audit that ended before its time. */
export function auditRemedy(auditId: bigint): string {
  return `mend what it says, then \`seller-mirror codes resume ${auditId}\` goes on; nothing that is recorded is asked again`;
}
