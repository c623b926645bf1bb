import { randomUUID } from 'node:crypto';
import type { Log } from '../domain/log.js';
import { Bell } from './bell.js';
import { wordsOf } from './errors.js';
import { pause, within } from './concurrency.js';
import type { Link } from './link.js';
import { Locks, type HeldJob } from './locks.js';
import { FIRST_PAUSE_MS, perform, type Desk } from './perform.js';
import type { BullWorker, QueueJob } from './session.js';
import type { QueueName, TaskOf } from './tasks.js';
import type { Tuning } from './tuning.js';

/** A job, as its handler sees it. */
export interface JobContext {
  readonly jobId: string;
  /** 1 for the first. */
  readonly attempt: number;
  readonly attempts: number;
  /** Aborted when the handler must end at once: the worker stops, or may have lost the job. */
  readonly signal: AbortSignal;
  /** Aborted when the worker begins to stop: the handler may still finish, but soon. */
  readonly closing: AbortSignal;
  /** Its lines carry the job's id and seller. */
  readonly log: Log;
}

/** How a handler ended. */
export type JobOutcome =
  /** Done for good; `result` is kept with the job for a while. */
  | { readonly kind: 'done'; readonly result: Readonly<Record<string, unknown>> }
  /** Failed in a way that may pass: again after a backoff, not before `notBefore` (ms since 1970). */
  | { readonly kind: 'retry'; readonly problem: string; readonly notBefore: number | null }
  /** Can't be done now: again after `delayMs`, without using up an attempt. */
  | { readonly kind: 'later'; readonly reason: string; readonly delayMs: number }
  /** Failed, and repeating can't help. */
  | { readonly kind: 'give-up'; readonly problem: string }
  /** Not done because the worker stops: another worker, or the next start, does it. */
  | { readonly kind: 'hand-back' };

export type JobHandler<T> = (task: T, context: JobContext) => Promise<JobOutcome>;

/** A job whose outcome was recorded; for metrics. */
export interface JobEvent {
  readonly queue: QueueName;
  readonly name: string;
  readonly outcome: JobOutcome['kind'];
  readonly durationMs: number;
}

export interface WorkOptions {
  /** Jobs at work at the same time. */
  readonly concurrency: number;
  /** Told of each job that was brought to an end here, once that is written down. */
  readonly onJob?: (event: JobEvent) => void;
}

/** Works on a queue until it is stopped, through whatever happens to the server in between. */
export interface QueueWorker {
  /**
   * Takes no new job and waits for those at work; after `timeoutMs` their signals are aborted, and
   * after a few seconds more they are left to whoever finds them. Never throws.
   */
  stop(timeoutMs: number): Promise<{ readonly handedBack: number }>;
}

export class WorkLoop<N extends QueueName> implements QueueWorker {
  readonly #link: Link;
  readonly #queue: N;
  readonly #desk: Desk<N>;
  readonly #options: WorkOptions;
  readonly #tuning: Tuning;
  readonly #log: Log;
  readonly #id = randomUUID();
  readonly #bell = new Bell();
  readonly #locks: Locks;
  readonly #working = new Set<Promise<void>>();
  readonly #loops: Promise<unknown>;
  /** Aborted when the worker begins to stop. */
  readonly #ending = new AbortController();
  /** Aborted when nothing may be waited for any more. */
  readonly #over = new AbortController();
  #bull: Promise<BullWorker> | null = null;
  #stopping: Promise<{ handedBack: number }> | null = null;
  #handedBack = 0;
  #fetched = 0;

  constructor(
    link: Link,
    queue: N,
    handler: JobHandler<TaskOf<N>>,
    options: WorkOptions,
    tuning: Tuning,
    log: Log,
  ) {
    this.#link = link;
    this.#queue = queue;
    this.#options = options;
    this.#tuning = tuning;
    this.#log = log;
    this.#locks = new Locks(
      tuning.lockMs,
      (ids, tokens, ms) => this.#ask((bull) => bull.extendJobLocks(ids, tokens, ms)),
      () => undefined, // the link has told of it
    );
    this.#desk = {
      queue,
      handler,
      tuning,
      log,
      ask: (question) => this.#ask(question),
      ending: this.#ending.signal,
      over: this.#over.signal,
    };
    this.#loops = Promise.all([this.#fetchLoop(), this.#rescueLoop()]);
  }

  /** There may be a job: look now. */
  nudge(): void {
    this.#bell.ring();
  }

  stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#stopping ??= this.#stop(timeoutMs);
    return this.#stopping;
  }

  async #stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#ending.abort();
    this.#bell.ring();
    if (!(await this.#endsWithin(timeoutMs))) {
      this.#locks.interruptAll();
      await this.#endsWithin(this.#tuning.graceMs);
    }
    this.#over.abort();
    this.#locks.releaseAll();
    const bull = this.#bull;
    if (bull !== null) {
      const closed = bull.then((it) => it.close(true));
      await within(this.#tuning.commandMs, closed).catch(() => undefined);
    }
    return { handedBack: this.#handedBack };
  }

  /** Waits for the fetching to end and all jobs with it; false when that takes longer. */
  async #endsWithin(ms: number): Promise<boolean> {
    try {
      await within(
        ms,
        this.#loops.then(() => Promise.all(this.#working)),
      );
      return true;
    } catch {
      return false;
    }
  }

  async #ask<T>(question: (bull: BullWorker) => Promise<T>): Promise<T> {
    return this.#link.use(async (session) => {
      this.#bull ??= session.worker(this.#queue).catch((error: unknown) => {
        this.#bull = null; // the next question tries again
        throw error;
      });
      return question(await this.#bull);
    });
  }

  async #fetchLoop(): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    while (!this.#ending.signal.aborted) {
      if (this.#working.size >= this.#options.concurrency) {
        await this.#bell.wait(this.#tuning.pollMs);
        continue;
      }
      try {
        const found = await this.#fetch();
        pauseMs = FIRST_PAUSE_MS;
        if (!found) await this.#bell.wait(this.#tuning.pollMs);
      } catch {
        // The link has told of it.
        await this.#bell.wait(pauseMs);
        pauseMs = Math.min(2 * pauseMs, this.#tuning.retryMs);
      }
    }
  }

  async #fetch(): Promise<boolean> {
    const token = `${this.#id}:${(this.#fetched += 1)}`;
    const askedAt = performance.now();
    const job = await this.#ask((bull) => bull.getNextJob(token, { block: false }));
    if (job === undefined) return false;
    const held = this.#locks.hold(job.id ?? '', token, performance.now() - askedAt);
    const working = this.#work(job, held).finally(() => {
      this.#locks.release(held);
      this.#working.delete(working);
      this.#bell.ring();
    });
    this.#working.add(working);
    return true;
  }

  /** Looks for jobs whose worker is gone, and puts them back. */
  async #rescueLoop(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      try {
        const ids = await this.#ask((bull) => bull.getBackend().moveStalledJobsToWait());
        for (const job of ids) {
          this.#log.warn('a job lost its worker and is taken over', { queue: this.#queue, job });
        }
        if (ids.length > 0) this.#bell.ring();
      } catch {
        // The link has told of it.
      }
      await pause(this.#tuning.stalledMs, this.#ending.signal);
    }
  }

  async #work(job: QueueJob, held: HeldJob): Promise<void> {
    const began = performance.now();
    const outcome = await perform(this.#desk, job, held);
    if (outcome === null) return;
    if (outcome === 'hand-back') this.#handedBack += 1;
    const durationMs = performance.now() - began;
    try {
      this.#options.onJob?.({ queue: this.#queue, name: job.name, outcome, durationMs });
    } catch (error) {
      this.#log.error('a job could not be counted', { problem: wordsOf(error) });
    }
  }
}
