import type { Progress as JobProgress } from '../jobs/types.js';
import { bytes, duration, plural, Progress, safeLine } from './output/index.js';

type LookupProgress = Extract<JobProgress, { phase: 'look-up' }>;

/** Look-ups that are over sooner are not worth a line of their own, milliseconds. */
const WORTH_A_LINE_MS = 10_000;

/** Shows the progress of runs on stderr, one bar at a time. */
export class SyncProgress {
  #bar: Progress | null = null;
  #key = '';
  /** How far the look-ups under way are, and whose they are. */
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
      if (isNew && leastMs !== null && leastMs >= WORTH_A_LINE_MS) {
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

  /** Says what an interruption leaves to do, when it came during look-ups. */
  tellInterrupted(): void {
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
