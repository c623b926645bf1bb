import { phaseOf } from '../codes/progress.js';
import { Rate } from '../domain/rate.js';
import type { Running } from '../catalogue/overview-store.js';
import { bytes, duration, count, plural } from '../domain/text.js';

const POLL_MS = 1_000;

/** The progress bar of a run or an audit. */
export interface LiveBar {
  /** Such as `run 12` or `audit 3`. */
  readonly id: string;
  readonly done: number;
  /** Null when unknown. */
  readonly total: number | null;
  readonly text: string;
  /** When it will probably end, as ISO 8601; null while unknown. */
  readonly endsAt: string | null;
}

interface LiveMessage {
  /** Pages reload their content when it changes. */
  readonly version: string;
  readonly bars: readonly LiveBar[];
}

interface Watch {
  /** Resolves with the next message; null after the watch or the dashboard has ended. */
  next(): Promise<LiveMessage | null>;
  end(): void;
}

/** Broadcasts the progress of running work. Polls the store only while somebody watches. */
export class LiveProgress {
  readonly #read: () => Promise<Running>;
  /** Resolvers of the `next` calls that wait for a message. */
  readonly #waiting = new Set<(message: LiveMessage | null) => void>();
  readonly #rates = new Map<string, Rate>();
  #watchers = 0;
  #timer: NodeJS.Timeout | null = null;
  #last: LiveMessage | null = null;

  constructor(read: () => Promise<Running>) {
    this.#read = read;
  }

  watch(): Watch {
    let ended = false;
    let first = this.#last;
    let resolveOwn: ((message: LiveMessage | null) => void) | null = null;
    this.#watchers += 1;
    this.#timer ??= setInterval(() => void this.#poll(), POLL_MS);
    return {
      next: () => {
        if (ended) return Promise.resolve(null);
        if (first !== null) {
          const message = first;
          first = null;
          return Promise.resolve(message);
        }
        return new Promise((resolve) => {
          resolveOwn = resolve;
          this.#waiting.add(resolve);
        });
      },
      end: () => {
        if (ended) return;
        ended = true;
        this.#watchers -= 1;
        if (resolveOwn !== null && this.#waiting.delete(resolveOwn)) resolveOwn(null);
        if (this.#watchers === 0) this.#stopPolling();
      },
    };
  }

  /** The current version, for a page that is being rendered. */
  async version(): Promise<string> {
    return this.#last?.version ?? versionOf(await this.#read());
  }

  /** Ends all watches. */
  close(): void {
    this.#broadcast(null);
    this.#stopPolling();
  }

  /** The bars that a page shows until its script receives the first message. */
  barsOf(running: Running): readonly LiveBar[] {
    return [...running.runs.map(runBar), ...running.audits.map((audit) => this.#auditBar(audit))];
  }

  #stopPolling(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#last = null;
    this.#rates.clear();
  }

  async #poll(): Promise<void> {
    try {
      const running = await this.#read();
      this.#last = { version: versionOf(running), bars: this.barsOf(running) };
      this.#broadcast(this.#last);
    } catch {
      // Without messages, pages show after a few seconds that the server does not respond.
    }
  }

  #broadcast(message: LiveMessage | null): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve(message);
  }

  #auditBar(audit: Running['audits'][number]): LiveBar {
    const { auditId, problem, resumeAt } = audit;
    const phase = phaseOf(audit, Date.now());
    const left =
      phase.leftMs === null
        ? this.#left(`${auditId} ${phase.name}`, phase.done, phase.total, resumeAt !== null)
        : { ms: phase.leftMs };
    const text = [
      phase.name === 'first pass'
        ? `${count(phase.done)} of ${count(phase.total)} asked`
        : `second check of ${plural(phase.total, 'denied code')}`,
      left === null ? '' : `about ${duration(left.ms)} left`,
      problem ?? '',
    ];
    const { done, total } = phase;
    const endsAt = left === null ? null : new Date(Date.now() + left.ms).toISOString();
    return {
      id: `audit ${auditId}`,
      done,
      total,
      text: text.filter(Boolean).join(' · '),
      endsAt,
    };
  }

  /** The time left; null while paused or unknown. @param checked codes checked so far */
  #left(work: string, checked: number, total: number, isPaused: boolean) {
    const now = performance.now();
    const rate = this.#rates.get(work) ?? new Rate(checked, now, checked > 0);
    this.#rates.set(work, rate);
    rate.note(checked, now);
    if (isPaused) rate.pause(now);
    const perMs = isPaused ? 0 : rate.perMs(now);
    if (perMs === 0) return null;
    return { ms: (total - checked) / perMs };
  }
}

function versionOf({ newest, runs, audits }: Running): string {
  // Ages such as `4 min ago` and states such as `stale` change without any event.
  const minute = Math.floor(Date.now() / 60_000);
  const running = [...runs.map(({ runId }) => runId), ...audits.map(auditVersion)];
  return [minute, newest, ...running].join(' ');
}

/** An audit's page changes beyond its bar with a new problem, and when denied codes begin to be confirmed. */
function auditVersion({ auditId, problem, pending, denied }: Running['audits'][number]): string {
  return `${auditId}:${problem ?? ''}:${pending === denied}`;
}

const PHASES = {
  account: 'reading the account',
  receive: 'receiving the list',
  list: 'reading the list',
  write: 'saving',
  'look-up': 'looking up items',
} as const;

function runBar({ runId, progress }: Running['runs'][number]): LiveBar {
  const { phase, done, total } = progress ?? { phase: 'account', done: 0, total: null };
  const all = phase === 'receive' ? bytes(done) : plural(done, 'item');
  const figures = done === 0 ? '' : total === null ? all : `${count(done)} of ${count(total)}`;
  const text = [PHASES[phase], figures].filter(Boolean).join(' · ');
  return { id: `run ${runId}`, done, total, text, endsAt: null };
}
