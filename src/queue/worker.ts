import { DelayedError, UnrecoverableError, WaitingError } from 'bullmq';
import type { Log } from '../domain/log.js';
import {
  BullWorker,
  isRefused,
  isRetriable,
  retryPause,
  TryAgain,
  type QueueJob,
} from './bull-worker.js';
import { pause, within } from './concurrency.js';
import type { Connection, Session } from './connection.js';
import { bounded, wordsOf } from './errors.js';
import { readPayload, type QueueName, type TaskOf } from './tasks.js';
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
  /** Called for each job whose outcome was recorded. */
  readonly onJob?: (event: JobEvent) => void;
}

/** Works on a queue until it is stopped, through outages of the server too. */
export interface QueueWorker {
  /**
   * Takes no new job and waits for those at work; after `timeoutMs` their signals are aborted, and
   * after a few seconds more they are left to other workers. Never throws.
   */
  stop(timeoutMs: number): Promise<{ readonly handedBack: number }>;
}

/** Why a job's signal was aborted; handlers see it as `signal.reason`. */
export class JobInterrupted extends Error {
  override readonly name = 'JobInterrupted';

  constructor(readonly why: 'stopping' | 'lost') {
    super(why === 'stopping' ? 'the worker stops' : 'the job may belong to another worker by now');
  }
}

/** A job whose handler runs here, or whose outcome is being recorded. */
interface ActiveJob {
  readonly log: Log;
  readonly startedAt: number;
  readonly attempt: number;
  readonly attempts: number;
  readonly interrupt: (why: JobInterrupted['why']) => void;
  /** Interrupts the job when its lock was not renewed in time. */
  deadline: NodeJS.Timeout | undefined;
  /** How the handler ended; null while it runs. */
  outcome: JobOutcome['kind'] | null;
  /** What is recorded of it. */
  end: JobEnd | null;
}

export interface WorkerSetup<N extends QueueName> extends WorkOptions {
  readonly connection: Connection;
  readonly queue: N;
  readonly handler: JobHandler<TaskOf<N>>;
  readonly tuning: Tuning;
  readonly log: Log;
}

/** Works on a queue with BullMQ's worker, from now on or as soon as the server can be reached. */
export class HandlerWorker<N extends QueueName> implements QueueWorker {
  readonly #setup: WorkerSetup<N>;
  readonly #log: Log;
  readonly #retryMs: number;
  /** By the token of the job's lock. */
  readonly #active = new Map<string, ActiveJob>();
  /** Null when the worker was stopped before the server could be reached. */
  readonly #bull: Promise<BullWorker | null>;
  /** Aborted when the worker begins to stop. */
  readonly #ending = new AbortController();
  /** Aborted when nothing is waited for any more. */
  readonly #over = new AbortController();
  #stopping: Promise<{ handedBack: number }> | null = null;
  #handedBack = 0;

  constructor(setup: WorkerSetup<N>) {
    this.#setup = setup;
    this.#log = setup.log.child({ queue: setup.queue });
    this.#retryMs = retryPause(setup.tuning);
    this.#bull = this.#open();
  }

  stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#stopping ??= this.#stop(timeoutMs);
    return this.#stopping;
  }

  async #stop(timeoutMs: number): Promise<{ handedBack: number }> {
    const { tuning } = this.#setup;
    this.#ending.abort();
    const closed = this.#bull.then((bull) => bull?.close());
    if (!(await endsWithin(timeoutMs, closed))) {
      for (const { interrupt } of this.#active.values()) interrupt('stopping');
      await endsWithin(tuning.graceMs, closed);
    }
    this.#over.abort();
    await endsWithin(tuning.commandMs, closed);
    return { handedBack: this.#handedBack };
  }

  async #open(): Promise<BullWorker | null> {
    while (!this.#ending.signal.aborted) {
      try {
        const bull = await this.#setup.connection.use((session) => this.#create(session));
        void this.#run(bull);
        return bull;
      } catch {
        // The connection has logged it.
        await pause(this.#retryMs, this.#ending.signal);
      }
    }
    return null;
  }

  async #create(session: Session): Promise<BullWorker> {
    const { connection, queue, concurrency, tuning } = this.#setup;
    const bull = new BullWorker(queue, session, concurrency, tuning, {
      ending: this.#ending.signal,
      process: (job, token) => this.#process(job, token),
      record: (job, token, write) => this.#record(job, token, write),
      renewed: (token, sentAt) => this.#renewed(token, sentAt),
      lost: (token) => this.#active.get(token)?.interrupt('lost'),
      worked: () => connection.worked(),
      failed: (error) => void connection.failed(error),
    });
    bull.on('error', () => undefined); // logged where the command failed
    bull.on('stalled', (job) => {
      this.#log.warn('a job lost its worker and is taken over', { job });
    });
    try {
      await bull.waitUntilReady();
      return bull;
    } catch (error) {
      await bull.close(true).catch(() => undefined);
      throw error;
    }
  }

  async #run(bull: BullWorker): Promise<void> {
    while (!this.#ending.signal.aborted) {
      try {
        await bull.run();
      } catch (error) {
        this.#log.error('a worker ended in a way it should not', { problem: wordsOf(error) });
        await pause(this.#retryMs, this.#ending.signal);
      }
    }
  }

  /** Runs the handler, and ends as BullMQ expects it of a processor with such an outcome. */
  async #process(job: QueueJob, token: string): Promise<unknown> {
    const id = job.id ?? '';
    const read = readPayload(this.#setup.queue, job.data);
    const seller = 'task' in read && 'seller' in read.task ? { seller: read.task.seller } : {};
    const controller = new AbortController();
    const active: ActiveJob = {
      log: this.#log.child({ job: id, ...seller }),
      startedAt: performance.now(),
      attempt: job.attemptsMade + 1,
      attempts: job.opts.attempts ?? 1,
      interrupt: (why) => controller.abort(new JobInterrupted(why)),
      deadline: undefined,
      outcome: null,
      end: null,
    };
    this.#active.set(token, active);
    this.#setDeadline(active, Date.now() - (job.processedOn ?? Date.now()));
    const outcome = await this.#unlessOver(this.#outcomeOf(read, id, active, controller.signal));
    clearTimeout(active.deadline);
    if (outcome === null) {
      this.#active.delete(token);
      throw new WaitingError(); // the job stays as it is until its lock ends
    }
    const { attempt, attempts } = active;
    const { backoff } = this.#setup.tuning;
    const end = endOf(outcome, attempt, attempts, Date.now(), Math.random(), backoff);
    active.outcome = outcome.kind;
    active.end = end;
    switch (end.kind) {
      case 'done':
        return end.result;
      case 'retry':
        throw new TryAgain(end.problem, end.delayMs);
      case 'give-up':
        throw new UnrecoverableError(end.problem);
      case 'later':
        await this.#record(job, token, () => job.moveToDelayed(end.until, token));
        throw new DelayedError();
      case 'hand-back':
        await this.#record(job, token, () => job.moveToWait(token));
        throw new WaitingError();
    }
  }

  async #outcomeOf(
    read: ReturnType<typeof readPayload<N>>,
    jobId: string,
    { attempt, attempts, log }: ActiveJob,
    signal: AbortSignal,
  ): Promise<JobOutcome> {
    if ('fault' in read) {
      return { kind: 'give-up', problem: `the job is not understood: ${read.fault}` };
    }
    const closing = this.#ending.signal;
    if (closing.aborted) return { kind: 'hand-back' };
    try {
      return await this.#setup.handler(read.task, {
        jobId,
        signal,
        closing,
        attempt,
        attempts,
        log,
      });
    } catch (error) {
      if (signal.aborted) return { kind: 'hand-back' };
      return { kind: 'retry', problem: wordsOf(error), notBefore: null };
    }
  }

  /** Null when the worker ends before the handler does. */
  async #unlessOver(outcome: Promise<JobOutcome>): Promise<JobOutcome | null> {
    const over = this.#over.signal;
    let stop = (): void => undefined;
    const stopped = new Promise<null>((resolve) => (stop = () => resolve(null)));
    over.addEventListener('abort', stop);
    if (over.aborted) stop();
    try {
      return await Promise.race([outcome, stopped]);
    } finally {
      over.removeEventListener('abort', stop);
    }
  }

  /**
   * Records an outcome, through outages too. When the server says that the job is not this worker's
   * any more, nothing is recorded, and the job is repeated by whoever has it.
   */
  async #record<T>(job: QueueJob, token: string, write: () => Promise<T>): Promise<T | undefined> {
    const active = this.#active.get(token) ?? null;
    this.#active.delete(token);
    const log = active?.log ?? this.#log.child({ job: job.id });
    let doubtful = false;
    while (!this.#over.signal.aborted) {
      try {
        const next = await write();
        this.#recorded(job, active, log);
        return next;
      } catch (error) {
        // After an attempt whose answer was lost, a refusal means that the outcome is on record.
        if (isRefused(error) && doubtful) {
          this.#recorded(job, active, log);
          return undefined;
        }
        if (isRefused(error)) break;
        if (!isRetriable(error)) {
          log.error('a job ended in a way it should not', { problem: wordsOf(error) });
          return undefined;
        }
        doubtful = true;
        await pause(this.#retryMs, this.#over.signal);
      }
    }
    const outcome = active?.end?.kind;
    log.warn('what became of a job could not be written down; it is repeated', { outcome });
    return undefined;
  }

  /** Logs and counts a job whose outcome was recorded. */
  #recorded(job: QueueJob, active: ActiveJob | null, log: Log): void {
    // Without a handler BullMQ itself gave the job up, which cost too many workers.
    const end = active?.end ?? { kind: 'give-up', problem: wordsOf(job.failedReason) };
    logEnd(log, end, active?.attempt ?? job.attemptsMade, job.opts.attempts ?? 1);
    if (end.kind === 'hand-back') this.#handedBack += 1;
    const durationMs = active === null ? 0 : performance.now() - active.startedAt;
    const outcome = active?.outcome ?? end.kind;
    try {
      const { queue, onJob } = this.#setup;
      onJob?.({ queue, name: job.name, outcome, durationMs });
    } catch (error) {
      this.#log.error('a job could not be counted', { problem: wordsOf(error) });
    }
  }

  /** @param ageMs how long ago, at most, the server gave or renewed the lock */
  #setDeadline(active: ActiveJob, ageMs: number): void {
    clearTimeout(active.deadline);
    const leftMs = Math.max(0, this.#setup.tuning.lockMs - ageMs);
    active.deadline = setTimeout(() => active.interrupt('lost'), leftMs);
  }

  #renewed(token: string, sentAt: number): void {
    const active = this.#active.get(token);
    if (active?.end === null) this.#setDeadline(active, performance.now() - sentAt);
  }
}

async function endsWithin(ms: number, end: Promise<unknown>): Promise<boolean> {
  return within(ms, end).then(
    () => true,
    () => false,
  );
}

/** What is recorded about a job, and logged. */
export type JobEnd =
  | { readonly kind: 'done'; readonly result: unknown }
  | { readonly kind: 'retry'; readonly problem: string; readonly delayMs: number }
  | { readonly kind: 'later'; readonly reason: string; readonly until: number }
  | { readonly kind: 'give-up'; readonly problem: string }
  | { readonly kind: 'hand-back' };

/** Decides what is recorded of an outcome. A last attempt that failed gives the job up. */
export function endOf(
  outcome: JobOutcome,
  attempt: number,
  attempts: number,
  now: number,
  random: number,
  backoff: Tuning['backoff'],
): JobEnd {
  switch (outcome.kind) {
    case 'done':
      return { kind: 'done', result: smallResult(outcome.result) };
    case 'retry': {
      const problem = bounded(outcome.problem);
      if (attempt >= attempts) return { kind: 'give-up', problem };
      const delayMs = Math.max(1, backoff(attempt, outcome.notBefore, now, random));
      return { kind: 'retry', problem, delayMs };
    }
    case 'later': {
      const until = now + Math.max(1, outcome.delayMs);
      return { kind: 'later', reason: outcome.reason, until };
    }
    case 'give-up':
      return { kind: 'give-up', problem: bounded(outcome.problem) };
    case 'hand-back':
      return { kind: 'hand-back' };
  }
}

/** Most characters of a result: it is kept for days. */
const LARGEST_RESULT = 2_048;

/** A result as JSON can hold it, or a note that it was too large. */
function smallResult(result: Readonly<Record<string, unknown>>): unknown {
  const text = JSON.stringify(result, (_key, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
  return text.length <= LARGEST_RESULT ? (JSON.parse(text) as unknown) : { tooLarge: true };
}

function logEnd(log: Log, end: JobEnd, attempt: number, attempts: number): void {
  switch (end.kind) {
    case 'done':
      return;
    case 'retry': {
      const { problem, delayMs } = end;
      const again = new Date(Date.now() + delayMs).toISOString();
      log.warn('job failed, it is tried again', { problem, attempt, attempts, again });
      return;
    }
    case 'give-up':
      log.error('job failed for good', { problem: end.problem, attempt, attempts });
      return;
    case 'later':
      log.info('job put off', { reason: end.reason, again: new Date(end.until).toISOString() });
      return;
    case 'hand-back':
      log.info('job handed back to the queue');
  }
}
