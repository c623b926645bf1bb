import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../domain/log.js';
import { Bell } from './bell.js';
import { wordsOf } from './errors.js';
import { within, type Link } from './link.js';
import { Locks, type HeldJob } from './locks.js';
import type { BullWorker, QueueJob } from './session.js';
import { record, verdictOf, type Verdict } from './settle.js';
import { readPayload, type TaskOf } from './tasks.js';
import type { Tuning } from './tuning.js';
import type { JobEvent, JobHandler, JobOutcome, QueueName } from './types.js';

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

/** Pause before a server that failed is asked again, the first time. */
const FIRST_PAUSE_MS = 250;

export class WorkLoop<N extends QueueName> implements QueueWorker {
  readonly #link: Link;
  readonly #queue: N;
  readonly #handler: JobHandler<TaskOf<N>>;
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
  #bull: BullWorker | null = null;
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
    this.#handler = handler;
    this.#options = options;
    this.#tuning = tuning;
    this.#log = log;
    this.#locks = new Locks(
      tuning.lockMs,
      (ids, tokens, ms) => this.#ask((bull) => bull.extendJobLocks(ids, tokens, ms)),
      () => undefined, // the link has told of it
    );
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
      await within(this.#tuning.commandMs, () => bull.close(true)).catch(() => undefined);
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
      this.#bull ??= await session.worker(this.#queue);
      return question(this.#bull);
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
      await this.#untilStopped(this.#tuning.stalledMs);
    }
  }

  async #untilStopped(ms: number): Promise<void> {
    for (const end = performance.now() + ms; performance.now() < end && this.#stopping === null;) {
      await sleep(Math.min(200, end - performance.now()));
    }
  }

  /** Never throws: a job that ends in an unforeseen way must not end the worker. */
  async #work(job: QueueJob, held: HeldJob): Promise<void> {
    const began = performance.now();
    const log = this.#log.child({ queue: this.#queue, job: held.id });
    try {
      const attempt = job.attemptsMade + 1;
      const attempts = job.opts.attempts ?? 1;
      const outcome = await this.#outcomeOf(job, held, attempt, attempts, log);
      const { backoff } = this.#tuning;
      const verdict = verdictOf(outcome, attempt, attempts, Date.now(), Math.random(), backoff);
      if (!(await this.#recordSurely(job, held, verdict, log))) return;
      if (verdict.kind === 'hand-back') this.#handedBack += 1;
      tell(log, outcome, verdict, attempt, attempts);
      const durationMs = performance.now() - began;
      const { kind } = outcome;
      this.#options.onJob?.({ queue: this.#queue, name: job.name, outcome: kind, durationMs });
    } catch (error) {
      log.error('a job ended in a way it should not', { problem: wordsOf(error) });
    }
  }

  async #outcomeOf(
    job: QueueJob,
    { id, signal }: HeldJob,
    attempt: number,
    attempts: number,
    log: Log,
  ): Promise<JobOutcome> {
    // BullMQ leaves the last word on a job that killed its workers again and again to the next one.
    if (job.deferredFailure) {
      return {
        kind: 'give-up',
        problem: `it lost its worker more than ${this.#tuning.maxStalled} times`,
      };
    }
    const read = readPayload(this.#queue, job.data);
    if ('fault' in read) {
      return { kind: 'give-up', problem: `the job is not understood: ${read.fault}` };
    }
    if (this.#ending.signal.aborted) return { kind: 'hand-back' };
    try {
      return await this.#handler(read.task, { jobId: id, attempt, attempts, signal, log });
    } catch (error) {
      if (signal.aborted) return { kind: 'hand-back' };
      return { kind: 'retry', problem: wordsOf(error), notBefore: null };
    }
  }

  /**
   * Writes a verdict down, through outages too; its lock is renewed meanwhile. False when the job
   * turned out to be another worker's, or the worker has ended before: then it is repeated.
   */
  async #recordSurely(job: QueueJob, held: HeldJob, verdict: Verdict, log: Log): Promise<boolean> {
    let pauseMs = FIRST_PAUSE_MS;
    let doubtful = false;
    while (!held.gone && !this.#over.signal.aborted) {
      try {
        if (await this.#ask(() => record(job, held.token, verdict))) return true;
        // After a try whose answer was lost, this is what a record that was made looks like.
        if (doubtful) return true;
        break;
      } catch {
        // The link has told of it.
        doubtful = true;
        await rest(pauseMs, this.#over.signal);
        pauseMs = Math.min(2 * pauseMs, this.#tuning.retryMs);
      }
    }
    log.warn('what became of a job could not be written down; it is repeated', {
      outcome: verdict.kind,
    });
    return false;
  }
}

/** Sleeps, but not beyond the signal. */
async function rest(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}

function tell(
  log: Log,
  outcome: JobOutcome,
  verdict: Verdict,
  attempt: number,
  attempts: number,
): void {
  switch (verdict.kind) {
    case 'done':
      return;
    case 'retry': {
      const again = new Date(Date.now() + verdict.delayMs).toISOString();
      log.warn('job failed, it is tried again', {
        problem: verdict.problem,
        attempt,
        attempts,
        again,
      });
      return;
    }
    case 'give-up':
      log.error('job failed for good', { problem: verdict.problem, attempt, attempts });
      return;
    case 'later': {
      const reason = outcome.kind === 'later' ? outcome.reason : '';
      log.info('job put off', { reason, again: new Date(verdict.until).toISOString() });
      return;
    }
    case 'hand-back':
      log.info('job handed back to the queue');
  }
}
