import { Rate } from '../domain/rate.js';
import type { Running } from '../store/overview.js';
import { count, duration, plural } from './parts.js';

/** Time between two looks at the store while somebody watches (ms). */
const LOOK_EVERY_MS = 1_000;

/** A bar of a page. */
export interface LiveBar {
  readonly id: string;
  readonly done: number;
  /** Null: nobody knows. */
  readonly total: number | null;
  readonly text: string;
}

/** What watchers are told. */
interface LiveMessage {
  /** Another one means that the page may look different. */
  readonly version: string;
  readonly bars: readonly LiveBar[];
}

interface Watch {
  /** Resolves with the next message; null when the watch or the dashboard has ended. */
  next(): Promise<LiveMessage | null>;
  end(): void;
}

/** Looks at the running work once a second while somebody watches. */
export class LiveWork {
  readonly #read: () => Promise<Running>;
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
    this.#timer ??= setInterval(() => void this.#look(), LOOK_EVERY_MS);
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
        if (this.#watchers === 0) this.#rest();
      },
    };
  }

  /** Another one than before means that pages may look different. */
  async version(): Promise<string> {
    return this.#last?.version ?? versionOf(await this.#read());
  }

  /** Ends all watches. */
  close(): void {
    this.#tell(null);
    this.#rest();
  }

  /** What a page shows at first; the same that its script shows later. */
  barsOf(running: Running): readonly LiveBar[] {
    return [...running.runs.map(runBar), ...running.audits.map((audit) => this.#auditBar(audit))];
  }

  #rest(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#last = null;
    this.#rates.clear();
  }

  async #look(): Promise<void> {
    try {
      const running = await this.#read();
      this.#last = { version: versionOf(running), bars: this.barsOf(running) };
      this.#tell(this.#last);
    } catch {
      // Nothing is told while the store does not answer: pages say so after some seconds.
    }
  }

  #tell(message: LiveMessage | null): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve(message);
  }

  #auditBar(audit: Running['audits'][number]): LiveBar {
    const { auditId, codes, reused, pending, denied, valid, invalid, unproven, problem } = audit;
    const [done, total] = [codes - reused - pending, codes - reused];
    const waiting = denied > 0 && denied === pending ? `${count(denied)} denied, second look` : '';
    // Denied codes wait for the second look, which comes after all others were asked for.
    const isPaused = waiting !== '' || problem !== null;
    const left = this.#left(auditId, done + denied, total, isPaused);
    const text = [
      `${count(done)} of ${count(total)}`,
      `${count(valid)} valid`,
      `${count(invalid)} invalid`,
      unproven > 0 ? `${count(unproven)} unproven` : '',
      waiting === '' ? `${count(pending)} waiting` : waiting,
      left,
      problem ?? '',
    ];
    return { id: `audit ${auditId}`, done, total, text: text.filter(Boolean).join(' · ') };
  }

  /** Rate and time left; empty while it is paused, or nobody knows. @param asked codes asked for */
  #left(auditId: string, asked: number, total: number, isPaused: boolean): string {
    const now = performance.now();
    const rate = this.#rates.get(auditId) ?? new Rate(asked, now);
    this.#rates.set(auditId, rate);
    rate.note(asked, now);
    if (isPaused) rate.pause(now);
    const perMs = isPaused ? 0 : rate.perMs(now);
    if (perMs === 0) return '';
    return `${count(Math.round(perMs * 60_000))} a minute, ${duration((total - asked) / perMs)} left`;
  }
}

function versionOf({ newest, runs, audits }: Running): string {
  return [newest, ...runs.map(({ runId }) => runId), ...audits.map(auditVersion)].join(' ');
}

/** Pages of an audit show more than its bar when its problem changes or its second look begins. */
function auditVersion({ auditId, problem, pending, denied }: Running['audits'][number]): string {
  return `${auditId}:${problem ?? ''}:${pending === denied}`;
}

const PHASES = {
  account: 'reading the account',
  list: 'reading the list',
  write: 'writing',
  'look-up': 'looking up items',
} as const;

function runBar({ runId, progress }: Running['runs'][number]): LiveBar {
  const { phase, done, total } = progress ?? { phase: 'account', done: 0, total: null };
  const figures =
    done === 0 ? '' : total === null ? plural(done, 'item') : `${count(done)} of ${count(total)}`;
  const text = [PHASES[phase], figures].filter(Boolean).join(' · ');
  return { id: `run ${runId}`, done, total, text };
}
