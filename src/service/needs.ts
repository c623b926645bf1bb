import type { HeldRemovals } from '../catalogue/held-store.js';
import {
  describeHeld,
  heldRemedy,
  problemOnPage,
  problemRemedy,
  runRemedy,
} from '../catalogue/problem.js';
import type { MomentAhead } from '../db/moments.js';
import type { Run } from '../catalogue/runs-store.js';
import type { Parking } from '../catalogue/sellers-store.js';
import { UNREADABLE_RUNS } from '../catalogue/status-store.js';
import type { CheckToAnswer } from '../codes/check-rows-store.js';
import type { AuditProgress } from '../codes/types.js';
import { moment } from '../domain/moment.js';
import { plural } from '../domain/text.js';
import { feedDelay, type FeedState } from '../reporting/feeds-store.js';

/*
 * The words of what needs a person. All of this is pure; `board.ts` finds out what needs one.
 */

/** What may need a person, the most urgent first: removals that wait must not hide behind a thousand stale copies. */
const TONES = {
  decision: 'warn',
  stopped: 'bad',
  failed: 'bad',
  feed: 'bad',
  check: 'bad',
  interrupted: 'warn',
  unproven: 'warn',
  unreadable: 'warn',
  stale: 'warn',
  'no-items': 'warn',
  clock: 'warn',
} as const;

export type NeedKind = keyof typeof TONES;
export const NEED_KINDS = Object.keys(TONES) as readonly NeedKind[];

/** Something that needs a person. `status`, the dashboard, alerts, metrics and `doctor` show these words. */
export interface Need {
  readonly kind: NeedKind;
  readonly tone: 'warn' | 'bad';
  /** Null for a feed. */
  readonly seller: string | null;
  readonly feed: string | null;
  readonly title: string;
  /** What happened: the inside of a sentence. It may hold text from the marketplace. */
  readonly text: string;
  /** What to do: the inside of a sentence, with commands between backticks. */
  readonly remedy: string;
  /** The same for somebody who looks at a page. It continues "an operator can" and "you can". */
  readonly onPage: string;
  /** When it began; null: unknown. */
  readonly since: Date | null;
  readonly runId: bigint | null;
  /** The list of a check. It may hold a purchase code, which viewers see masked. */
  readonly source: string | null;
  /** The page of the dashboard about it, and the text of a link to there. */
  readonly page: { readonly path: string; readonly label: string };
}

type Words = Pick<Need, 'title' | 'text' | 'remedy' | 'onPage' | 'page'> & Partial<Need>;

const need = (kind: NeedKind, seller: string | null, words: Words): Need => {
  const nothing = { feed: null, since: null, runId: null, source: null };
  return { kind, tone: TONES[kind], seller, ...nothing, ...words };
};

/** Of removals that wait until a person accepts them, or keeps the items. */
export function heldNeed(seller: string, held: HeldRemovals): Need {
  return need('decision', seller, {
    title: `${seller}: removals wait for you`,
    text: describeHeld(held),
    remedy: heldRemedy(held.runId),
    onPage: 'accept the removals, or keep the items',
    since: held.since,
    runId: held.runId,
    page: { path: `/runs/${held.runId}`, label: `Review ${plural(held.items, 'item')}` },
  });
}

/** Of items whose records could not be read in run after run. */
export function unreadableNeed(seller: string, items: number): Need {
  const which = items === 1 ? 'the record of 1 item' : `the records of ${items} items`;
  return need('unreadable', seller, {
    title: `${seller}: records can’t be read`,
    text: `${which} could not be read in ${UNREADABLE_RUNS} runs or more; the copy keeps the last state that could be read`,
    remedy:
      '`seller-mirror runs` names the newest run, and `seller-mirror runs show RUN` its records; ask the marketplace to correct them',
    onPage:
      'look at the records on the page of the newest run, and ask the marketplace to correct them',
    page: sellerPage(seller),
  });
}

/** Of a run that failed or was interrupted. */
export function runNeed(
  run: Pick<
    Run,
    'runId' | 'sellerId' | 'state' | 'problem' | 'problemCode' | 'finishedAt' | 'startedAt'
  >,
): Need {
  const { runId, sellerId, state } = run;
  const [kind, title] =
    state === 'interrupted'
      ? (['interrupted', 'the last run was interrupted'] as const)
      : (['failed', 'the last run failed'] as const);
  return need(kind, sellerId, {
    title: `${sellerId}: ${title}`,
    text: run.problem ?? state,
    remedy: runRemedy(run),
    onPage: problemOnPage(run.problemCode, 'Sync now'),
    since: run.finishedAt ?? run.startedAt,
    runId,
    page: runPage(runId),
  });
}

/** Of a seller whose schedules a problem stopped. */
export function stoppedNeed(seller: string, { code, reason, since, runId }: Parking): Need {
  const remedy =
    code === 'account-twice'
      ? problemRemedy(code, seller)
      : code === 'account-changed'
        ? `give the other account a seller name of its own; if it was only renamed, \`seller-mirror sync account --seller ${seller} --accept-account\` resumes the schedule`
        : `fix the key, then \`seller-mirror sync --seller ${seller}\` resumes the schedule`;
  return need('stopped', seller, {
    title: `${seller} is stopped`,
    text: `${reason}; schedules skip this seller until that is fixed`,
    remedy,
    onPage: problemOnPage(code.startsWith('account-') ? code : 'refused', 'Sync now'),
    since,
    runId,
    page: sellerPage(seller),
  });
}

/** Of a copy that nothing has mirrored for too long. @param at when its items were last mirrored; null: never */
export function staleNeed(seller: string, at: Date | null, staleAfterHours: number): Need {
  return need('stale', seller, {
    title: at === null ? `${seller} was never mirrored` : `${seller}: the copy is stale`,
    text:
      at === null
        ? 'its items were never mirrored'
        : `its items were last mirrored more than ${staleAfterHours} hours ago`,
    remedy: `check that \`seller-mirror run\` is running; \`seller-mirror sync --seller ${seller}\` mirrors it now`,
    onPage: 'press Sync now; the System page says whether a worker is running',
    since: at,
    page: sellerPage(seller),
  });
}

/** Servers say "no items" also to an account with exactly one item, so the copy may lack it. */
export const NO_ITEMS = {
  text: 'the list names no item, which is also so for an account with exactly one',
  remedy: 'if there is one, run `seller-mirror sync item ID`',
};

export function noItemsNeed(seller: string): Need {
  return need('no-items', seller, {
    title: `${seller}: no items`,
    ...NO_ITEMS,
    onPage: 'mirror the item by its id at the command line, if there is one',
    page: sellerPage(seller),
  });
}

/** Of a moment that was recorded by a clock that was ahead. */
export function clockNeed({ what, sellerId, runId, at }: MomentAhead): Need {
  const remedy =
    'synchronize the clock of the database’s machine by NTP; nothing waits for that time';
  return need('clock', sellerId, {
    title: sellerId === null ? 'A clock was ahead' : `${sellerId}: a clock was ahead`,
    text: `${what} was recorded for ${moment(at)}, which is in the future, so it is not believed`,
    remedy,
    onPage: remedy,
    runId,
    page: runId !== null ? runPage(runId) : sellerId !== null ? sellerPage(sellerId) : SYSTEM_PAGE,
  });
}

/** Of a feed whose delivery failed, or that has waited too long. @param views of the feed today */
export function feedNeed(
  state: FeedState | undefined,
  views: readonly string[],
  staleAfterHours: number,
  now: Date,
): Need | null {
  if (state === undefined) return null;
  const { ms, views: behind, since } = feedDelay(state.views, views, now);
  if (state.problem === null && ms <= staleAfterHours * 3_600_000) return null;
  const { feed, failures } = state;
  const times = failures > 1 ? ` (failed ${failures} times)` : '';
  const why = state.problem ?? 'no delivery failed, so check that a worker is running';
  return need('feed', null, {
    feed,
    title: `Feed ${feed} does not deliver`,
    text: `${behind.join(', ') || 'the last state'} not delivered: ${why}${times}`,
    remedy: `\`seller-mirror feed check ${feed}\` tests the target, \`seller-mirror feed run ${feed}\` delivers`,
    onPage: 'fix the target; the delivery is tried again by itself',
    since,
    page: FEEDS_PAGE,
  });
}

/** Of a check that can't go on, or whose codes stayed without a verdict. */
export function auditNeed(
  audit: Pick<AuditProgress, 'auditId' | 'sellerId' | 'state' | 'source' | 'unproven' | 'problem'>,
): Need | null {
  const { auditId, sellerId, state, source, unproven, problem } = audit;
  const page = auditPage(auditId);
  if (state === 'failed') {
    return need('check', sellerId, {
      title: `${sellerId}: check ${auditId} can’t go on`,
      text: problem ?? 'no reason was recorded',
      remedy: `fix this, then run \`seller-mirror audits resume ${auditId}\`; recorded codes are not checked again`,
      onPage:
        'fix this, then press Resume on the page of the check; recorded codes are not checked again',
      source,
      page,
    });
  }
  if (state !== 'finished' || unproven === 0) return null;
  const codes = plural(unproven, 'code');
  return need('unproven', sellerId, {
    title: `${sellerId}: check ${auditId} left ${codes} unproven`,
    text: `${codes} got no verdict`,
    remedy: 'check the list again later',
    onPage: 'check the list again later',
    source,
    page,
  });
}

/** `Check 3 is finished: 12 customers to answer`: information, which no alert and no count of needs includes. */
export function toAnswerText({ auditId, customers }: CheckToAnswer): string {
  return `Check ${auditId} is finished: ${plural(customers, 'customer')} to answer`;
}

export function runPage(runId: bigint): Need['page'] {
  return { path: `/runs/${runId}`, label: `Open run ${runId}` };
}

export function auditPage(auditId: bigint): Need['page'] {
  return { path: `/audits/${auditId}`, label: `Open check ${auditId}` };
}

const SYSTEM_PAGE: Need['page'] = { path: '/system', label: 'Open the system' };

export const FEEDS_PAGE: Need['page'] = { path: '/system', label: 'Open feeds' };

export function sellerPage(seller: string): Need['page'] {
  return { path: `/sellers/${encodeURIComponent(seller)}`, label: `Open ${seller}` };
}
