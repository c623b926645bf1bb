import type { AuditProgress, AuditState, UnprovenCount } from '../../store/audits/types.js';
import { moment } from '../../domain/moment.js';
import {
  age,
  count,
  duration,
  momentCell,
  paint,
  pairs,
  plural,
  safeLine,
  table,
  type Look,
  type Style,
  type TableCell,
} from '../output/index.js';
import { asTyped } from '../own-command.js';
import { unprovenRemedy, whyUnproven } from './unproven-text.js';

const STYLES: Readonly<Record<AuditState, Style | null>> = {
  running: null,
  finished: 'green',
  cancelled: 'yellow',
  failed: 'red',
};

/** Audits as a table, one line each. */
export function auditsTable(
  audits: readonly AuditProgress[],
  look: Look,
  vertical?: boolean,
): string {
  // On a terminal room is scarce.
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

/** What a person may want to know of an audit besides its progress. */
export interface AuditNotes {
  readonly unproven: readonly UnprovenCount[];
  /** Sentences on how the list was read. */
  readonly reading: readonly string[];
  /** What is left of it costs this much at the budget; null when nothing is left or nobody knows. */
  readonly costLeft: string | null;
  /** Commands to go on with, without the program's name. */
  readonly next: readonly string[];
}

/** One audit whole. */
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

/** Why codes have no verdict, the most frequent reason first, and what to do about it. */
export function unprovenLines(groups: readonly UnprovenCount[]): readonly string[] {
  return [...groups]
    .sort((a, b) => b.codes - a.codes)
    .map(
      ({ reason, codes }) =>
        `${plural(codes, 'code')}: ${safeLine(whyUnproven(reason))} → ${unprovenRemedy(reason)}`,
    );
}

function section(title: string, lines: readonly string[], look: Look): string {
  if (lines.length === 0) return '';
  const shown = lines.map((line) => `  ${safeLine(line)}\n`);
  return `${paint('bold', title, look)}\n${shown.join('')}`;
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
