import { randomUUID } from 'node:crypto';
import type { Log } from '../domain/log.js';
import { Bell } from './bell.js';
import { wordsOf } from './errors.js';
import { within, type Link } from './link.js';
import { Locks, type HeldJob } from './locks.js';
import { FIRST_PAUSE_MS, perform, rest, type Desk } from './perform.js';
import type { BullWorker, QueueJob } from './session.js';
import type { TaskOf } from './tasks.js';
import type { Tuning } from './tuning.js';
import type { JobEvent, JobHandler, QueueName } from './types.js';

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
      const close = async (): Promise<void> => (await bull).close(true);
      await within(this.#tuning.commandMs, close).catch(() => undefined);
    }
    return { handedBack: this.#handedBack };
  }

  /** Waits for the fetching to end and all jobs with it; false when that takes longer. */
  async #endsWithin(ms: number): Promise<boolean> {
    try {
      await within(ms, async () => {
        await this.#loops;
        await Promise.all(this.#working);
      });
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
      await rest(this.#tuning.stalledMs, this.#ending.signal);
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
