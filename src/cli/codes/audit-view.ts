import type { App } from '../../app.js';
import type { SellerConfig } from '../../config/index.js';
import { auditCost, type AuditCost } from '../../domain/codes/cost.js';
import {
  askAgain,
  describeUnproven,
  isUnprovenReason,
  type UnprovenReason,
} from '../../domain/codes/outcome.js';
import { moment } from '../../domain/moment.js';
import { callsAtOnce } from '../../jobs/codes/pace.js';
import type { AuditProgress, AuditState, UnprovenCount } from '../../store/audits/types.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { pairs, table, type TableCell } from '../output/table.js';
import {
  age,
  count,
  duration,
  type Look,
  momentCell,
  paint,
  plural,
  safeLine,
  type Style,
} from '../output/text.js';
import { asTyped, ownCommand } from '../own-command.js';
import type { FailOptions } from './options.js';
import type { OutPlace } from './result-file.js';

const STYLES: Readonly<Record<AuditState, Style | null>> = {
  running: null,
  finished: 'green',
  cancelled: 'yellow',
  failed: 'red',
};

/** Formats audits as a table, one line each. */
export function auditsTable(
  audits: readonly AuditProgress[],
  look: Look,
  vertical?: boolean,
): string {
  // Saves room on a terminal.
  const isOfOne = look.columns !== null && new Set(audits.map((one) => one.sellerId)).size === 1;
  return table(
    audits,
    [
      { header: 'audit', value: (audit) => audit.auditId },
      ...(isOfOne ? [] : [{ header: 'seller', value: (audit: AuditProgress) => audit.sellerId }]),
      { header: 'source', value: (audit) => audit.source },
      { header: 'state', value: stateAndShare, style: (audit) => STYLES[audit.state] },
      { header: 'begun', value: ({ createdAt }) => momentCell(createdAt, new Date(), look) },
      { header: 'codes', value: (audit) => audit.codes },
      { header: 'valid', value: (audit) => audit.valid },
      { header: 'invalid', value: (audit) => audit.invalid },
      { header: 'unproven', value: (audit) => audit.unproven },
      { header: 'problem', value: (audit) => asTyped(audit.problem ?? ''), isNote: true },
    ],
    look,
    { vertical, isWhole: vertical === true },
  );
}

function stateOf({ state, pending }: AuditProgress): string {
  return state === 'running' && pending > 0 ? 'unfinished' : state;
}

function stateAndShare(audit: AuditProgress): string {
  const { codes, pending } = audit;
  if (pending === 0) return stateOf(audit);
  return `${stateOf(audit)}, ${Math.floor((100 * (codes - pending)) / codes)} %`;
}

/** Details of an audit besides its progress. */
interface AuditNotes {
  readonly unproven: readonly UnprovenCount[];
  /** Sentences on how the list was read. */
  readonly reading: readonly string[];
  /** Cost of the codes that are left; null when none is left or the seller is not configured. */
  readonly costLeft: string | null;
  /** Commands that continue or export it. */
  readonly next: readonly string[];
}

/** Formats one audit with all its details. */
export function auditDetails(
  audit: AuditProgress,
  notes: AuditNotes,
  look: Look,
  now: Date,
): string {
  const style = STYLES[audit.state];
  const state = style === null ? stateOf(audit) : paint(style, stateOf(audit), look);
  const { auditId, sellerId, source } = audit;
  const head = [
    paint('bold', `audit ${auditId}`, look),
    safeLine(sellerId),
    safeLine(source),
    state,
  ];
  return [
    `${head.join(' · ')}\n`,
    pairs(
      [
        ['begun', `${moment(audit.createdAt)}, ${age(audit.createdAt, now)}`],
        [
          'finished',
          audit.finishedAt === null ? null : `${moment(audit.finishedAt)} (${took(audit)})`,
        ],
        ...figures(audit),
        ['left', notes.costLeft],
        ['result', resultText(audit, now)],
        ['problem', audit.problem],
      ].filter((line): line is [string, TableCell] => line[1] !== null),
      look,
    ),
    section('how the list was read', notes.reading, look),
    section('why there is no verdict', unprovenLines(notes.unproven), look),
    section('to go on', notes.next, look),
  ].join('');
}

function figures(audit: AuditProgress): [string, TableCell][] {
  const { lines, rejected, codes, reused, valid, invalid, unproven, pending, apiCalls } = audit;
  const repeated = lines - rejected - codes;
  const note = [
    ...(rejected > 0 ? [`${count(rejected)} rejected`] : []),
    ...(repeated > 0 ? [`${count(repeated)} with a code listed before`] : []),
  ].join(', ');
  return [
    ['lines', `${count(lines)}${note === '' ? '' : ` (${note})`}`],
    ['codes', `${count(codes)}${reused === 0 ? '' : ` (${count(reused)} checked lately enough)`}`],
    ['valid', count(valid)],
    ['invalid', count(invalid)],
    ['unproven', count(unproven)],
    ['not asked yet', pending === 0 ? null : count(pending)],
    ['requests', count(apiCalls)],
  ];
}

function resultText({ result }: AuditProgress, now: Date): string | null {
  if (result === null) return null;
  const { path, writtenAt } = result;
  return writtenAt === null ? `goes to ${path}` : `${path}, written ${age(writtenAt, now)}`;
}

function took({ createdAt, finishedAt }: AuditProgress): string {
  return duration((finishedAt ?? createdAt).getTime() - createdAt.getTime());
}

function section(title: string, lines: readonly string[], look: Look): string {
  if (lines.length === 0) return '';
  const shown = lines.map((line) => `  ${safeLine(line)}\n`);
  return `${paint('bold', title, look)}\n${shown.join('')}`;
}

interface SummaryNotes {
  readonly unproven: readonly UnprovenCount[];
  /** Invalid codes proven by account details alone. */
  readonly accountProven: number;
  /** Where the result was written; null when it was not. */
  readonly place: OutPlace | null;
  /** How to type this program. */
  readonly program: string;
}

/** Reads and formats the summary of an audit. @param place of its result */
export async function summaryOf(
  { store }: App,
  audit: AuditProgress,
  place: OutPlace | null,
  look: Look,
): Promise<string> {
  const unproven = await store.audits.unprovenCounts(audit.auditId);
  const accountProven = await accountProvenOf(store, audit);
  const program = ownCommand();
  return summaryLines(audit, { unproven, accountProven, place, program }, look);
}

/** Counts the codes of an audit that are invalid by account details alone. */
export async function accountProvenOf(
  { audits }: App['store'],
  { auditId, invalid }: AuditProgress,
): Promise<number> {
  return invalid === 0 ? 0 : audits.accountProven(auditId);
}

/** Formats the summary of an audit, also of one that has not ended. */
export function summaryLines(audit: AuditProgress, notes: SummaryNotes, look: Look): string {
  const { auditId, sellerId, source } = audit;
  const counts = verdictCounts(audit) || (audit.codes === 0 ? 'no codes' : 'nothing asked yet');
  const lines = [
    `${mark(audit, look)} audit ${auditId} · ${safeLine(sellerId)} · ${safeLine(source)} · ${counts}`,
    `  ${effort(audit)}`,
    ...unprovenLines(notes.unproven).map((line) => `  ${line}`),
    ...weakProofLines(notes.accountProven).map((line) => `  ${line}`),
    ...(audit.problem === null ? [] : [`  ${safeLine(audit.problem)}`]),
    ...nextLines(audit, notes).map((line) => `  ${line}`),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

function mark({ state, pending, unproven }: AuditProgress, look: Look): string {
  if (state === 'failed') return paint('red', '✗', look);
  return state === 'finished' && pending === 0 && unproven === 0
    ? paint('green', '✓', look)
    : paint('yellow', '!', look);
}

function effort({
  apiCalls,
  createdAt,
  finishedAt,
  reused,
  rejected,
  pending,
  state,
}: AuditProgress): string {
  const time =
    finishedAt === null ? '' : ` in ${duration(finishedAt.getTime() - createdAt.getTime())}`;
  return [
    `${plural(apiCalls, 'request')}${time}`,
    ...(reused > 0 ? [`${plural(reused, 'verdict')} known already`] : []),
    ...(rejected > 0 ? [`${plural(rejected, 'line')} rejected`] : []),
    ...(pending > 0 ? [`${plural(pending, 'code')} not asked yet`] : []),
    ...(state === 'cancelled' ? ['cancelled'] : []),
  ].join(' · ');
}

/** Warns about verdicts that only account details prove: a key of an account without sales passes too. */
function weakProofLines(accountProven: number): string[] {
  if (accountProven === 0) return [];
  return [
    `${plural(accountProven, 'code')} invalid by account details alone, as no valid code was known → check again with --canary CODE`,
  ];
}

/** Where the result is or how to export it, and how to get the missing verdicts. */
function nextLines(
  { auditId, state, pending, unproven, result: file }: AuditProgress,
  { place, program }: SummaryNotes,
): string[] {
  const written = place ?? (file !== null && file.writtenAt !== null ? file : null);
  const result =
    written === null
      ? `→ ${program} audits export ${auditId} --out result.csv`
      : `result: ${safeLine(written.path ?? 'on stdout')}`;
  const goOn = state === 'running' && pending > 0 ? [`→ ${program} audits resume ${auditId}`] : [];
  const again =
    state === 'finished' && unproven > 0
      ? ['→ check the list again with --max-age 7d: only codes without a verdict are asked for']
      : [];
  return [result, ...goOn, ...again];
}

/** The exit code of a command that waited for an audit's end. */
export function exitCodeOf(
  { state, invalid, unproven }: AuditProgress,
  { failOn }: FailOptions = {},
): ExitCode {
  if (state !== 'finished') return EXIT.failed;
  if (failOn === 'invalid' && invalid > 0) return EXIT.invalid;
  return unproven > 0 ? EXIT.unproven : EXIT.done;
}

/** The figures that are not zero: `9,120 valid · 871 invalid · 9 unproven`. */
export function verdictCounts({
  valid,
  invalid,
  unproven,
}: Pick<AuditProgress, 'valid' | 'invalid' | 'unproven'>): string {
  const parts: [number, string][] = [
    [valid, 'valid'],
    [invalid, 'invalid'],
    [unproven, 'unproven'],
  ];
  return parts
    .filter(([number]) => number > 0)
    .map(([number, word]) => `${count(number)} ${word}`)
    .join(' · ');
}

/** Why codes have no verdict, and what to do about it; the most frequent reason first. */
export function unprovenLines(groups: readonly UnprovenCount[]): readonly string[] {
  return [...groups]
    .sort((a, b) => b.codes - a.codes)
    .map(
      ({ reason, codes }) =>
        `${plural(codes, 'code')}: ${safeLine(whyUnproven(reason))} → ${unprovenRemedy(reason)}`,
    );
}

const KEY =
  'check the API key in the workspace settings of the marketplace; `seller-mirror doctor` tries it';
const ADDRESS = 'check MARKETPLACE_URL, and that the API is switched on';
const ANSWERS = '`seller-mirror doctor` shows how the marketplace answers';

const REMEDIES: Partial<Record<UnprovenReason, string>> = {
  limited: 'wait a while; lower REQUESTS_PER_MINUTE if others share this address',
  refused: KEY,
  'account-changed': `find out whose API key it is; ${KEY}`,
  'switched-off': ADDRESS,
  redirect: ADDRESS,
  'no-canary': 'name a code that you know is valid with --canary CODE',
  'no-canary-before': 'name a code that you know is valid with --canary CODE',
  unreadable: ANSWERS,
  'no-purchase': ANSWERS,
  'another-code': ANSWERS,
};

/** Says why there is no verdict; a reason of an older version is shown as it is. */
export function whyUnproven(reason: string): string {
  return isUnprovenReason(reason) ? describeUnproven(reason) : reason;
}

/** Says what to do about a missing verdict, as the end of a line. */
export function unprovenRemedy(reason: string): string {
  if (!isUnprovenReason(reason)) return 'ask again later';
  return REMEDIES[reason] ?? (askAgain(reason) === 'now' ? 'ask again' : 'ask again later');
}

/**
 * Computes what asking for codes of this seller costs.
 * @param chunkSize codes of a chunk
 * @param now milliseconds since 1970
 */
export function costOf(
  { requestsPerMinute }: Pick<SellerConfig, 'requestsPerMinute'>,
  toAsk: number,
  chunkSize: number,
  now: number,
): AuditCost {
  const concurrency = callsAtOnce(requestsPerMinute);
  return auditCost({ toAsk, requestsPerMinute, chunkSize, concurrency }, now);
}

/**
 * Formats the cost of an audit in one line: `10,034 calls at 60 a minute: about 2 h 47 min, …`.
 * @param codes of the audit, known ones too
 */
export function costText(cost: AuditCost, requestsPerMinute: number, codes: number): string {
  if (codes === 0) return 'nothing to ask: no line holds a code';
  if (cost.codeCalls === 0) return 'nothing to ask: every verdict is known';
  const pace = requestsPerMinute === 0 ? 'without a limit' : `at ${requestsPerMinute} a minute`;
  const proofs =
    cost.proofCalls === 0 ? '' : ` (${plural(cost.proofCalls, 'proof')} of the API key included)`;
  const calls = `${plural(cost.calls, 'call')}${proofs} ${pace}`;
  // Without a limit the time depends on the marketplace's speed, which is not known yet.
  if (requestsPerMinute === 0) return `${calls}; how long they take is shown on the way`;
  const until = moment(new Date(cost.finishAt));
  return `${calls}: about ${duration(cost.leastMs)}, until ${until}; up to one call more for each denied code`;
}
