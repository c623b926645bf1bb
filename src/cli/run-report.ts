import { heldRemedy } from '../catalogue/problem.js';
import type { Progress as JobProgress, RunReport } from '../catalogue/types.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { Progress } from './output/progress.js';
import { bytes, count, plural, duration } from '../domain/text.js';
import { toneOf } from '../listing/listing.js';
import { type Look, markOf, paint, safeLine } from './output/text.js';

export function runLines(report: RunReport, look: Look): string {
  const { state, sellerId, warnings, held, problem, runId } = report;
  return [
    `${markOf(toneOf(state), look)} ${safeLine(sellerId)} · ${describe(report)}`,
    ...warnings.map((warning) => paint('yellow', `  ${safeLine(warning)}`, look)),
    ...(held === null ? [] : [`  → ${heldRemedy(runId)}`]),
    ...(problem === null ? [] : [`  → ${safeLine(problem.remedy)}`]),
    '',
  ].join('\n');
}

/** Formats a finished run for `--json`, with the names of `reporting.sync_runs`. */
export function runJson({ counts, problem, ...run }: RunReport): object {
  const notBefore = problem?.notBefore ?? null;
  return {
    ...run,
    ...counts,
    problemCode: problem?.code ?? null,
    problem: problem?.message ?? null,
    remedy: problem?.remedy ?? null,
    permanent: problem?.permanent ?? null,
    notBefore: notBefore === null ? null : new Date(notBefore),
  };
}

function describe({ kind, state, problem, counts }: RunReport): string {
  if (problem !== null) return `${kind} failed: ${safeLine(problem.message)}`;
  const { changed, extraChanged } = counts;
  const calls = plural(counts.apiCalls, 'request');
  if (kind === 'account') {
    const change =
      counts.added > 0 ? 'added' : changed + extraChanged > 0 ? 'changed' : 'unchanged';
    return `account ${change} (${calls})`;
  }
  const { added, restored, removed, missing, quarantined, unchanged } = counts;
  const figures = {
    ...{
      added,
      changed,
      'changed in unknown fields only': extraChanged,
      restored,
      removed,
      missing,
    },
    ...{ quarantined, unchanged },
  };
  const shown = Object.entries(figures).flatMap(([word, n]) =>
    n > 0 ? `${count(n)} ${word}` : [],
  );
  const listed = [`${count(counts.listed)} listed`, shown.join(', ')].filter(Boolean).join(': ');
  return `${kind === 'item' ? 'item' : 'items'}: ${listed} (${calls}${state === 'held' ? ', removals held' : ''})`;
}

export function exitCodeOfRuns(reports: readonly RunReport[]): ExitCode {
  if (reports.some(({ state }) => state === 'failed')) return EXIT.failed;
  return reports.some(({ state }) => state === 'held') ? EXIT.held : EXIT.done;
}

type LookupProgress = Extract<JobProgress, { phase: 'look-up' }>;

/** Look-ups that take at least this long (ms) are announced. */
const ANNOUNCED_MS = 10_000;

/** Shows the progress of runs on stderr, with one bar at a time. */
export class SyncProgress {
  #bar: Progress | null = null;
  #label = '';
  #lookups: { readonly seller: string; readonly at: LookupProgress } | null = null;

  show(seller: string, progress: JobProgress): void {
    const label = `${seller} · ${LABELS[progress.phase]}`;
    const isNew = this.#label !== label;
    if (isNew || this.#bar === null) {
      this.finish();
      const from = progress.phase === 'look-up' ? progress.saved : 0;
      this.#bar = new Progress(label, { from });
      this.#label = label;
    }
    this.#lookups = progress.phase === 'look-up' ? { seller, at: progress } : null;
    if (progress.phase === 'list') {
      const { records, expected: total } = progress;
      this.#bar.update(records, { total, detail: bytes(progress.bytes) });
    } else if (progress.phase === 'look-up') {
      const { done, total, leastMs } = progress;
      this.#bar.update(done, { total });
      if (isNew && leastMs !== null && leastMs >= ANNOUNCED_MS) {
        const items = plural(total, 'missing item');
        this.#bar.note(`${seller} · checking ${items}, about ${duration(leastMs)}`);
      }
    }
  }

  /** Says that a request waits for the budget. @param ms left; null: it is over */
  wait(ms: number | null): void {
    this.#bar?.wait(ms);
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
    this.#label = '';
  }

  /** After an interruption during look-ups, prints how many of them the next run can reuse. */
  noteInterrupted(): void {
    this.finish();
    if (this.#lookups === null || this.#lookups.at.saved === 0) return;
    const { seller, at } = this.#lookups;
    const items = plural(at.total, 'missing item');
    process.stderr.write(
      `${safeLine(seller)} · ${at.saved} of ${items} are checked; runs within an hour don’t check them again\n`,
    );
  }
}

const LABELS: Readonly<Record<JobProgress['phase'], string>> = {
  account: 'account',
  list: 'items',
  write: 'writing',
  'look-up': 'checking missing items',
};
