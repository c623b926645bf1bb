import { shownName } from '../domain/shown-name.js';
import type { HeldBack, NamedItem } from '../store/decisions.js';
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
    case 'interrupted':
      return 'run `seller-mirror sync` again to go on; nothing is half done';
    case 'unavailable':
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
  return state === 'held' ? heldRemedy(runId) : remedyFor(problemCode, sellerId);
}

/** The two ways to go on after a run was held. */
export function heldRemedy(runId: bigint): string {
  return `if they are really gone, \`seller-mirror runs approve ${runId}\` removes them; if not, \`seller-mirror runs reject ${runId}\` keeps them as missing`;
}

/** `12 of 40 items are no longer listed (1001 Foo, 1002 Bar and 10 more), …`. */
export function describeHeld({ items, confirmed, present, examples }: HeldBack): string {
  const gone =
    confirmed === items
      ? 'the marketplace denies each of them'
      : confirmed === 0
        ? 'what became of them is not proven'
        : `the marketplace denies ${confirmed} of them, what became of the others is not proven`;
  return `${items} of ${present} items are no longer listed (${namesOf(examples, items)}), more than the removal guard allows; ${gone}; present items are mirrored and nothing was removed`;
}

/** `1001 Foo, 1002 Bar and 10 more`. */
export function namesOf(examples: readonly NamedItem[], items: number): string {
  const names = examples.map(({ itemId, name }) => `${itemId} ${shownName(name)}`.trim());
  const more = items - examples.length;
  return more > 0 ? `${names.join(', ')} and ${more} more` : names.join(', ');
}

/** What there is to say about a run that did not succeed. */
export function runProblem({ state, problem }: Run, held: HeldBack | null): string {
  if (problem !== null) return problem;
  if (state !== 'held') return state;
  return held === null ? 'more items would go than the removal guard allows' : describeHeld(held);
}

/** How to go on with an audit that ended before its time. */
export function auditRemedy(auditId: bigint): string {
  return `mend what it says, then \`seller-mirror audits resume ${auditId}\` goes on; nothing that is recorded is asked again`;
}
