import type { App } from '../../app.js';
import type { AuditProgress, UnprovenCount } from '../../store/audits/types.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { duration, paint, plural, safeLine, type Look } from '../output/index.js';
import { ownCommand } from '../own-command.js';
import type { FailOptions } from './options.js';
import type { OutPlace } from './out-place.js';
import { unprovenLines, verdictCounts } from './audit-view.js';

export interface SummaryNotes {
  readonly unproven: readonly UnprovenCount[];
  /** Codes found invalid that no valid code vouches for. */
  readonly accountProven: number;
  /** Where the result was written to; null when it was not. */
  readonly place: OutPlace | null;
  /** How to type this program. */
  readonly program: string;
}

/** The summary of an audit with what the store knows of it. @param place of its result */
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

/** How many codes of an audit are invalid by account details alone. */
export async function accountProvenOf(
  { audits }: App['store'],
  { auditId, invalid }: AuditProgress,
): Promise<number> {
  return invalid === 0 ? 0 : audits.accountProven(auditId);
}

/** What came of an audit, as lines for a person; also of one that has not ended. */
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

/** Account details do not tell a key that sells nothing from a good one. */
function weakProofLines(accountProven: number): string[] {
  if (accountProven === 0) return [];
  return [
    `${plural(accountProven, 'code')} invalid by account details alone, as no valid code was known → check again with --canary CODE`,
  ];
}

/** Where the result is, or how to get at it; and how to get the verdicts that are missing. */
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

/** The exit code of a command that saw an audit to its end. */
export function exitCodeOf(
  { state, invalid, unproven }: AuditProgress,
  { failOn }: FailOptions = {},
): ExitCode {
  if (state !== 'finished') return EXIT.failed;
  if (failOn === 'invalid' && invalid > 0) return EXIT.invalid;
  return unproven > 0 ? EXIT.unproven : EXIT.done;
}
