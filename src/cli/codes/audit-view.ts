import type { CheckCost } from '../../codes/progress.js';
import { moment } from '../../domain/moment.js';
import type { AuditProgress, UnprovenCount } from '../../codes/types.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { pairs, type TableCell } from '../output/table.js';
import { type Look, paint, safeLine } from '../output/text.js';
import { count, plural, age, duration } from '../../domain/text.js';
import { fieldsOf } from '../listing.js';
import { ownCommand } from '../own-command.js';
import { isForItem, type FailOptions } from './options.js';
import { stateWord } from '../../listing/listing.js';
import { describeVerdict, foundForm, unprovenRemedy, whyUnproven } from '../../codes/evidence.js';
import { PURCHASE_COLUMNS } from '../../codes/codes-listing.js';
import { countRepeated } from '../../codes/enter-list.js';
import { supportAt } from '../../codes/known-code.js';
import { isInvalid } from '../../codes/rules.js';
import { verdictFigures } from '../../codes/progress.js';
import { CHECK_AGAIN, unprovenTexts } from '../../codes/audits-resource.js';
import type { Db } from '../../db/db.js';
import { countUnproven, countAccountProven } from '../../codes/results-store.js';
import { answerColumns, type Answer } from '../../codes/result.js';

function took({ createdAt, finishedAt }: AuditProgress): string {
  return duration((finishedAt ?? createdAt).getTime() - createdAt.getTime());
}

/** What a summary shows besides the audit's progress. */
interface SummaryNotes {
  readonly unproven: readonly UnprovenCount[];
  /** Number of invalid codes that are proven by account details alone. */
  readonly accountProven: number;
}

export async function summaryNotes(
  db: Db,
  { auditId, invalid, noLongerValid }: AuditProgress,
): Promise<SummaryNotes> {
  const unproven = await countUnproven(db, auditId);
  return {
    unproven,
    accountProven: invalid + noLongerValid === 0 ? 0 : await countAccountProven(db, auditId),
  };
}

/** Formats the summary of an audit. @param written where its result was written; null if it was not */
export function summaryLines(
  audit: AuditProgress,
  { unproven, accountProven }: SummaryNotes,
  written: string | null,
  look: Look,
): string {
  const { auditId, sellerId, source, problem } = audit;
  const counts = verdictCounts(audit) || (audit.codes === 0 ? 'no codes' : 'nothing checked yet');
  // Weak, because the key of an account without sales passes this proof too.
  const weakProof = `${plural(accountProven, 'code')} invalid by account details alone, because no valid code was known → check again with --known-valid CODE`;
  const details = [
    effort(audit),
    ...unprovenTexts(unproven).map(safeLine),
    ...(accountProven === 0 ? [] : [weakProof]),
    ...(problem === null ? [] : [safeLine(problem)]),
    ...nextLines(audit, written),
  ];
  return [
    `${mark(audit, look)} check ${auditId} · ${safeLine(sellerId)} · ${safeLine(source)} · ${counts}\n`,
    ...details.map((line) => `  ${line}\n`),
  ].join('');
}

function mark(audit: AuditProgress, look: Look): string {
  if (audit.state === 'failed') return paint('red', '✗', look);
  return audit.pending === 0 && exitCodeOfAudit(audit) === EXIT.done
    ? paint('green', '✓', look)
    : paint('yellow', '!', look);
}

function effort(audit: AuditProgress): string {
  const { apiCalls, finishedAt, reused, rejected, pending, state } = audit;
  const repeated = countRepeated(audit);
  return [
    `${plural(apiCalls, 'request')}${finishedAt === null ? '' : ` in ${took(audit)}`}`,
    ...(reused > 0 ? [`${plural(reused, 'verdict')} reused`] : []),
    ...(rejected > 0 ? [`${plural(rejected, 'line')} rejected`] : []),
    ...(repeated > 0 ? [`${plural(repeated, 'line')} repeated`] : []),
    ...(pending > 0 ? [`${plural(pending, 'code')} not checked yet`] : []),
    ...(state === 'cancelled' ? ['cancelled'] : []),
  ].join(' · ');
}

/** Returns where the result is, or the command that exports it; and how to get the missing verdicts. */
function nextLines(audit: AuditProgress, written: string | null): string[] {
  const { auditId, state, pending, unproven, result } = audit;
  const path = written ?? (result !== null && result.writtenAt !== null ? result.path : null);
  const program = ownCommand();
  return [
    path === null
      ? `→ ${program} audits export ${auditId} --out result.csv`
      : `result: ${safeLine(path)}`,
    ...(state === 'running' && pending > 0 ? [`→ ${program} audits resume ${auditId}`] : []),
    ...(state === 'finished' && unproven > 0 ? [`→ ${CHECK_AGAIN}`] : []),
  ];
}

export function exitCodeOfAudit(
  { state, valid, invalid, noLongerValid, unproven, rejected }: AuditProgress,
  failOn?: FailOptions['failOn'],
): ExitCode {
  if (state !== 'finished') return EXIT.failed;
  // Without --fail-on, some rejected lines are usual: a list may have a title or a total.
  const lacksVerdicts =
    rejected > 0 && (failOn !== undefined || valid + invalid + noLongerValid === 0);
  return unproven > 0 || lacksVerdicts ? EXIT.unproven : EXIT.done;
}

/** Formats the counts that are not zero: `9,120 valid · 871 invalid · 9 unproven`. */
export function verdictCounts(audit: AuditProgress): string {
  return verdictFigures(audit)
    .filter(([, codes]) => codes > 0)
    .map(([verdict, codes]) => `${count(codes)} ${verdict}`)
    .join(' · ');
}

/**
 * Formats the cost of an audit in one line: `10,034 calls at 60 a minute: about 2 h 47 min, …`.
 * @param codes of the audit, including those with a reused verdict
 */
export function costText(cost: CheckCost, requestsPerMinute: number, codes: number): string {
  if (codes === 0) return 'nothing to check: no line has a code';
  if (cost.calls === 0) return 'nothing to check: every verdict is known';
  const pace = requestsPerMinute === 0 ? 'without a limit' : `at ${requestsPerMinute} a minute`;
  const calls = `${plural(cost.calls, 'call')} (${count(cost.proofCalls)} of them for the API key) ${pace}`;
  const more = `each denied code takes ${cost.callsPerDenied.toFixed(2)} more calls, at least ${duration(cost.confirmAfterMs)} later`;
  // Without a limit, the time depends on the speed of the marketplace, which is not known yet.
  if (cost.leastMs === null || cost.finishAt === null) {
    return `${calls}; the time left is shown while they run; ${more}`;
  }
  const until = moment(new Date(cost.finishAt));
  return `${calls}: about ${duration(cost.leastMs)}, until ${until}; ${more}`;
}

const VERDICT_MARKS = {
  valid: ['✓', 'green'],
  invalid: ['✗', 'red'],
  no_longer_valid: ['✗', 'red'],
  unproven: ['?', 'yellow'],
} as const;

/** Formats the answer about one code for people. */
export function answerLines(
  answer: Answer & { readonly seller?: string | null },
  now: Date,
  look: Look,
  item?: string,
): string {
  const { verdict, code, seller = null } = answer;
  const sold: [string, TableCell][] = seller === null ? [] : [['seller', seller]];
  const [mark, colour] = VERDICT_MARKS[verdict];
  const head = `${paint(colour, mark, look)} ${safeLine(code)} · ${paint(colour, stateWord(verdict), look)}\n`;
  return head + pairs([...sold, ...detailsOf(answer, now, item)], look, '  ');
}

/** Formats an answer for `--json`: the columns of a result, reason, evidence, and the server's reply. */
export function answerJson(answer: Answer, now: Date, item?: string): object {
  const { code, reason, httpStatus, message, proof, denials } = answer;
  const evidence = denials === null ? null : describeVerdict(answer);
  const result = { ...answerColumns(answer, now.getTime()), proof };
  const matches = item === undefined ? {} : { item_matches: isForItem(answer.purchase, item) };
  return { code, ...result, ...matches, reason, evidence, http_status: httpStatus, message };
}

function detailsOf(answer: Answer, now: Date, item?: string): (readonly [string, TableCell])[] {
  const { verdict, reason, purchase, checkedAt } = answer;
  const support =
    purchase === null || isInvalid(verdict) ? null : supportAt(purchase, now.getTime());
  const bought =
    purchase === null
      ? []
      : fieldsOf(PURCHASE_COLUMNS, { ...purchase, sellerId: '', support }, now);
  const found = foundForm(answer);
  const why: (readonly [string, TableCell])[] =
    verdict === 'unproven'
      ? [
          ['why', `${whyUnproven(reason)}${replyText(answer)}`],
          ['what to do', unprovenRemedy(reason)],
        ]
      : [
          [
            'was',
            verdict === 'no_longer_valid'
              ? 'valid; no longer valid: refunded, reversed, or the buyer’s account is closed'
              : null,
          ],
          ...bought,
          ['proof', `${describeVerdict(answer)}${isInvalid(verdict) ? replyText(answer) : ''}`],
          ['note', found === null ? null : `the marketplace knows it as ${found}, not as given`],
          ['note', answer.proof === 'account' ? WEAK_PROOF : null],
          ['note', isForItem(purchase, item) === false ? `this is not item ${item}` : null],
        ];
  const checked = checkedAt === null ? null : `${moment(checkedAt)}, ${age(checkedAt, now)}`;
  return [...why, ['checked', checked] as const].filter(([, value]) => value !== null);
}

const WEAK_PROOF = 'a known valid code (--known-valid CODE) would make the proof stronger';

/** Formats the server's reply: ` (404 "Invalid purchase code")`. */
function replyText({ httpStatus, message }: Answer): string {
  const quoted = message === null || message === '' ? null : JSON.stringify(message);
  const parts = [httpStatus, quoted].filter((part) => part !== null);
  return parts.length === 0 ? '' : ` (${parts.join(' ')})`;
}
