import type { Progress as JobProgress } from '../jobs/types.js';
import { bytes, Progress } from './output/index.js';

/** Shows the progress of runs on stderr, one bar at a time. */
export class SyncProgress {
  #bar: Progress | null = null;
  #key = '';

  show(seller: string, progress: JobProgress): void {
    const bar = this.#barFor(seller, progress.phase);
    if (progress.phase === 'list') {
      bar.update(progress.records, { total: progress.expected, detail: bytes(progress.bytes) });
    } else if (progress.phase === 'look-up' || progress.phase === 'look-up-again') {
      bar.update(progress.done, { total: progress.total });
    }
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
    this.#key = '';
  }

  #barFor(seller: string, phase: JobProgress['phase']): Progress {
    const key = `${seller} · ${LABELS[phase]}`;
    if (this.#bar === null || this.#key !== key) {
      this.#bar?.finish();
      this.#bar = new Progress({ output: process.stderr, label: key });
      this.#key = key;
    }
    return this.#bar;
  }
}

const LABELS: Readonly<Record<JobProgress['phase'], string>> = {
  account: 'account',
  list: 'items',
  write: 'writing',
  'look-up': 'looking up unlisted items',
  'look-up-again': 'asking once more for denied items',
};
