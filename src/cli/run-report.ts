import { heldRemedy } from '../jobs/problem.js';
import type { RunReport } from '../jobs/types.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { asTyped } from './own-command.js';
import { count, paint, plural, safeLine, type Look } from './output/index.js';

const MARKS = { succeeded: ['✓', 'green'], held: ['!', 'yellow'], failed: ['✗', 'red'] } as const;

/** A finished run as lines for a person. */
export function runLines(report: RunReport, look: Look): string {
  const [mark, colour] = MARKS[report.state];
  const head = `${paint(colour, mark, look)} ${safeLine(report.sellerId)} · ${describe(report)}`;
  const notes = [
    ...report.warnings.map((warning) => paint('yellow', `  ${safeLine(warning)}`, look)),
    ...(report.held === null ? [] : [`  → ${heldRemedy(report.runId)}`]),
    ...(report.problem === null ? [] : [`  → ${safeLine(report.problem.remedy)}`]),
  ];
  return [head, ...notes].map((line) => `${line}\n`).join('');
}

/** The same for scripts, named as in `reporting.sync_runs`. */
export function runJson({ counts, problem, ...run }: RunReport): object {
  const notBefore = problem?.notBefore ?? null;
  return {
    ...run,
    ...counts,
    problemCode: problem?.code ?? null,
    problem: problem?.message ?? null,
    remedy: problem === null ? null : asTyped(problem.remedy),
    permanent: problem?.permanent ?? null,
    notBefore: notBefore === null ? null : new Date(notBefore),
  };
}

function describe(report: RunReport): string {
  if (report.problem !== null) return `${report.kind} failed: ${safeLine(report.problem.message)}`;
  const calls = plural(report.counts.apiCalls, 'request');
  if (report.kind === 'account') return `account ${accountChange(report)} (${calls})`;
  const state = report.state === 'held' ? ', held' : '';
  return `${report.kind === 'item' ? 'item' : 'items'}: ${changes(report)} (${calls}${state})`;
}

function accountChange({ counts }: RunReport): string {
  if (counts.added > 0) return 'added';
  return counts.changed + counts.extraChanged > 0 ? 'changed' : 'unchanged';
}

/** `1,204 listed: 3 added, 12 changed, 1 removed, 1,189 unchanged`; figures of zero are left out. */
function changes({ counts }: RunReport): string {
  const parts: [number, string][] = [
    [counts.added, 'added'],
    [counts.changed + counts.extraChanged, 'changed'],
    [counts.restored, 'restored'],
    [counts.removed, 'removed'],
    [counts.missing, 'missing'],
    [counts.quarantined, 'quarantined'],
    [counts.unchanged, 'unchanged'],
  ];
  const shown = parts.filter(([n]) => n > 0).map(([n, word]) => `${count(n)} ${word}`);
  return `${count(counts.listed)} listed${shown.length === 0 ? '' : `: ${shown.join(', ')}`}`;
}

/** The exit code for several runs: the worst one's. */
export function exitCodeOf(reports: readonly RunReport[]): ExitCode {
  if (reports.some(({ state }) => state === 'failed')) return EXIT.failed;
  return reports.some(({ state }) => state === 'held') ? EXIT.held : EXIT.done;
}
