import { heldRemedy } from '../jobs/problem.js';
import type { Progress as JobProgress, RunReport } from '../jobs/types.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { Progress } from './output/progress.js';
import { bytes, count, duration, type Look, paint, plural, safeLine } from './output/text.js';
import { asTyped } from './own-command.js';

const MARKS = { succeeded: ['✓', 'green'], held: ['!', 'yellow'], failed: ['✗', 'red'] } as const;

/** Formats a finished run as lines for a person. */
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

/** Formats a finished run for `--json`, named as in `reporting.sync_runs`. */
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

type LookupProgress = Extract<JobProgress, { phase: 'look-up' }>;

/** Look-ups that take less (ms) are not announced. */
const ANNOUNCED_MS = 10_000;

/** Shows the progress of runs on stderr, one bar at a time. */
export class SyncProgress {
  #bar: Progress | null = null;
  #key = '';
  /** The look-ups under way: their seller and progress. */
  #lookups: { readonly seller: string; readonly at: LookupProgress } | null = null;

  show(seller: string, progress: JobProgress): void {
    const isNew = this.#key !== `${seller} · ${LABELS[progress.phase]}`;
    const bar = this.#barFor(seller, progress);
    this.#lookups = null;
    if (progress.phase === 'list') {
      bar.update(progress.records, { total: progress.expected, detail: bytes(progress.bytes) });
    } else if (progress.phase === 'look-up') {
      this.#lookups = { seller, at: progress };
      const { done, total, leastMs } = progress;
      bar.update(done, { total });
      if (isNew && leastMs !== null && leastMs >= ANNOUNCED_MS) {
        const items = plural(total, 'missing item');
        bar.note(`${seller} · checking ${items}, about ${duration(leastMs)}`);
      }
    }
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
    this.#key = '';
  }

  /** After an interruption during look-ups, says how many are saved for the next run. */
  noteInterrupted(): void {
    this.finish();
    if (this.#lookups === null || this.#lookups.at.saved === 0) return;
    const { seller, at } = this.#lookups;
    const items = plural(at.total, 'missing item');
    process.stderr.write(
      `${safeLine(seller)} · ${at.saved} of ${items} are checked, and are not asked for again within an hour\n`,
    );
  }

  #barFor(seller: string, progress: JobProgress): Progress {
    const key = `${seller} · ${LABELS[progress.phase]}`;
    if (this.#bar === null || this.#key !== key) {
      this.#bar?.finish();
      const from = progress.phase === 'look-up' ? progress.saved : 0;
      this.#bar = new Progress({ output: process.stderr, label: key, from });
      this.#key = key;
    }
    return this.#bar;
  }
}

const LABELS: Readonly<Record<JobProgress['phase'], string>> = {
  account: 'account',
  list: 'items',
  write: 'writing',
  'look-up': 'checking missing items',
};
