import { hostname } from 'node:os';
import {
  DelayedError,
  UnrecoverableError,
  WaitingError,
  type IQueueBackend,
  type Job,
  type JobProgress,
  type Span,
  Worker,
} from 'bullmq';
import type { Log } from '../domain/log.js';
import { pause, within } from './concurrency.js';
import type { Connection, Session } from './connection.js';
import { bounded, wordsOf } from './errors.js';
import { readPayload, type Payload, type QueueName, type TaskOf } from './tasks.js';
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

type QueueJob = Job<Payload>;

/** A job whose handler runs here, or whose outcome is being recorded. */
interface ActiveJob {
  readonly log: Log;
  readonly name: string;
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

/** Starts to work on a queue with BullMQ's worker, now or as soon as the server can be reached. */
export function startWorker<N extends QueueName>(
  connection: Connection,
  queue: N,
  handler: JobHandler<TaskOf<N>>,
  options: WorkOptions,
  tuning: Tuning,
  log: Log,
): QueueWorker {
  return new HandlerWorker(connection, queue, handler, options, tuning, log);
}

class HandlerWorker<N extends QueueName> implements QueueWorker {
  readonly #connection: Connection;
  readonly #queue: N;
  readonly #handler: JobHandler<TaskOf<N>>;
  readonly #options: WorkOptions;
  readonly #tuning: Tuning;
  readonly #log: Log;
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

  constructor(
    connection: Connection,
    queue: N,
    handler: JobHandler<TaskOf<N>>,
    options: WorkOptions,
    tuning: Tuning,
    log: Log,
  ) {
    this.#connection = connection;
    this.#queue = queue;
    this.#handler = handler;
    this.#options = options;
    this.#tuning = tuning;
    this.#log = log.child({ queue });
    this.#bull = this.#open();
  }

  stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#stopping ??= this.#stop(timeoutMs);
    return this.#stopping;
  }

  async #stop(timeoutMs: number): Promise<{ handedBack: number }> {
    this.#ending.abort();
    const closed = this.#bull.then((bull) => bull?.close());
    if (!(await endsWithin(timeoutMs, closed))) {
      for (const { interrupt } of this.#active.values()) interrupt('stopping');
      await endsWithin(this.#tuning.graceMs, closed);
    }
    this.#over.abort();
    await endsWithin(this.#tuning.commandMs, closed);
    return { handedBack: this.#handedBack };
  }

  async #open(): Promise<BullWorker | null> {
    while (!this.#ending.signal.aborted) {
      try {
        const bull = await this.#connection.use((session) => this.#create(session));
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
    const bull = new BullWorker(this.#queue, session, this.#options.concurrency, this.#tuning, {
      ending: this.#ending.signal,
      process: (job, token) => this.#process(job, token),
      record: (job, token, write) => this.#record(job, token, write),
      renewed: (tokens, sentAt) => this.#renewed(tokens, sentAt),
      lost: (tokens) => this.#lost(tokens),
      worked: () => this.#connection.worked(),
      failed: (error) => void this.#connection.failed(error),
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

  get #retryMs(): number {
    return retryPause(this.#tuning);
  }

  /** Runs the handler, and ends as BullMQ expects it of a processor with such an outcome. */
  async #process(job: QueueJob, token: string): Promise<unknown> {
    const id = job.id ?? '';
    const read = readPayload(this.#queue, job.data);
    const seller = 'task' in read && 'seller' in read.task ? { seller: read.task.seller } : {};
    const controller = new AbortController();
    const active: ActiveJob = {
      log: this.#log.child({ job: id, ...seller }),
      name: job.name,
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
    const { backoff } = this.#tuning;
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
      return await this.#handler(read.task, { jobId, signal, closing, attempt, attempts, log });
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
    let doubtful = false;
    while (!this.#over.signal.aborted) {
      try {
        const next = await write();
        this.#recorded(job, active);
        return next;
      } catch (error) {
        if (isRefused(error)) {
          // After an attempt whose answer was lost, this is what a recorded outcome looks like.
          if (doubtful) this.#recorded(job, active);
          if (doubtful) return undefined;
          break;
        }
        doubtful = true;
        await pause(this.#retryMs, this.#over.signal);
      }
    }
    const log = active?.log ?? this.#log.child({ job: job.id });
    log.warn('what became of a job could not be written down; it is repeated', {
      outcome: active?.end?.kind,
    });
    return undefined;
  }

  /** Logs and counts a job whose outcome was recorded. */
  #recorded(job: QueueJob, active: ActiveJob | null): void {
    // Without a handler BullMQ itself gave the job up, which cost too many workers.
    const end = active?.end ?? { kind: 'give-up', problem: wordsOf(job.failedReason) };
    const log = active?.log ?? this.#log.child({ job: job.id });
    logEnd(log, end, active?.attempt ?? job.attemptsMade, job.opts.attempts ?? 1);
    if (end.kind === 'hand-back') this.#handedBack += 1;
    const durationMs = active === null ? 0 : performance.now() - active.startedAt;
    const outcome = active?.outcome ?? end.kind;
    try {
      this.#options.onJob?.({ queue: this.#queue, name: job.name, outcome, durationMs });
    } catch (error) {
      this.#log.error('a job could not be counted', { problem: wordsOf(error) });
    }
  }

  /** @param ageMs how long ago, at most, the server gave or renewed the lock */
  #setDeadline(active: ActiveJob, ageMs: number): void {
    clearTimeout(active.deadline);
    const leftMs = Math.max(0, this.#tuning.lockMs - ageMs);
    active.deadline = setTimeout(() => active.interrupt('lost'), leftMs);
  }

  #renewed(tokens: readonly string[], sentAt: number): void {
    for (const token of tokens) {
      const active = this.#active.get(token);
      if (active?.end === null) this.#setDeadline(active, performance.now() - sentAt);
    }
  }

  #lost(tokens: readonly string[]): void {
    for (const token of tokens) this.#active.get(token)?.interrupt('lost');
  }
}

/** What a `BullWorker` needs of the worker that it works for. */
interface WorkerHooks {
  /** Aborted when the worker begins to stop. */
  readonly ending: AbortSignal;
  /** Runs a job. */
  readonly process: (job: QueueJob, token: string) => Promise<unknown>;
  /** Records an outcome by calling `write`, again after each failure. */
  readonly record: <T>(
    job: QueueJob,
    token: string,
    write: () => Promise<T>,
  ) => Promise<T | undefined>;
  readonly renewed: (tokens: readonly string[], sentAt: number) => void;
  readonly lost: (tokens: readonly string[]) => void;
  /** The server answered a command. */
  readonly worked: () => void;
  /** A command failed. */
  readonly failed: (error: unknown) => void;
}

/**
 * BullMQ's worker, with four changes: it never waits for a job longer than `blockMs`, its pauses end
 * when it is closed, handlers learn at once of a lock that was lost, and an outcome that could not be
 * recorded is recorded later instead of counting as a failure of the job.
 */
class BullWorker extends Worker<Payload, unknown, string, IQueueBackend, JobProgress, unknown> {
  readonly #hooks: WorkerHooks;
  readonly #blockMs: number;

  constructor(
    queue: QueueName,
    { connection, factory, prefix }: Session,
    concurrency: number,
    tuning: Tuning,
    hooks: WorkerHooks,
  ) {
    super(
      queue,
      (job, token) => hooks.process(job, token ?? ''),
      {
        connection,
        prefix,
        concurrency,
        name: `${hostname()}.${process.pid}`,
        autorun: false,
        skipVersionCheck: true,
        drainDelay: tuning.blockMs / 1_000,
        runRetryDelay: retryPause(tuning),
        lockDuration: tuning.lockMs,
        stalledInterval: tuning.stalledMs,
        maxStalledCount: tuning.maxStalled,
        settings: {
          backoffStrategy: (_attempts, _type, error) =>
            error instanceof TryAgain ? error.delayMs : 0,
        },
      },
      (name, options, more) =>
        withRetriableErrors(factory(name, options, more), hooks, retryPause(tuning)),
    );
    this.#hooks = hooks;
    this.#blockMs = tuning.blockMs;
  }

  /** Seconds. BullMQ waits up to an hour on PostgreSQL, also on a connection that is half open. */
  override get maximumBlockTimeout(): number {
    return this.#blockMs / 1_000;
  }

  override async delay(milliseconds = 100): Promise<void> {
    await pause(milliseconds, this.#hooks.ending);
  }

  override async extendJobLocks(
    ids: string[],
    tokens: string[],
    durationMs: number,
  ): Promise<string[]> {
    const sentAt = performance.now();
    const lost = await super.extendJobLocks(ids, tokens, durationMs);
    const isLost = (_token: string, index: number): boolean => lost.includes(ids[index] ?? '');
    this.#hooks.lost(tokens.filter(isLost));
    this.#hooks.renewed(
      tokens.filter((token, index) => !isLost(token, index)),
      sentAt,
    );
    return lost;
  }

  protected override async handleCompleted(
    result: unknown,
    job: QueueJob,
    token: string,
    fetchNext?: () => boolean,
    span?: Span,
  ): Promise<QueueJob> {
    const write = (): Promise<QueueJob> =>
      super.handleCompleted(result, job, token, fetchNext, span);
    return (await this.#hooks.record(job, token, write)) as QueueJob;
  }

  protected override async handleFailed(
    error: Error,
    job: QueueJob,
    token: string,
    fetchNext?: () => boolean,
    span?: Span,
  ): Promise<QueueJob> {
    const problem = job.deferredFailure
      ? new UnrecoverableError(`it lost its worker more than ${this.opts.maxStalledCount} times`)
      : error;
    const write = (): Promise<QueueJob> => super.handleFailed(problem, job, token, fetchNext, span);
    // These say that the outcome is on record already.
    if (error instanceof DelayedError || error instanceof WaitingError) return write();
    return (await this.#hooks.record(job, token, write)) as QueueJob;
  }
}

/** Commands whose success does not show that the server answers. */
const WITHOUT_ANSWER = new Set<string | symbol>([
  'close',
  'disconnect',
  'disconnectBlocking',
  'reconnectBlocking',
]);

/**
 * A backend whose errors BullMQ's worker takes for a refused connection, which it retries after a
 * pause. It retries other errors without one: of a server that shuts down, is full, or does not
 * answer in time. What the server says of a job (that it is not ours any more) stays as it is.
 *
 * A failed wait for a job ends as one without a job, so that the worker looks for jobs next.
 */
function withRetriableErrors(
  backend: IQueueBackend,
  { ending, worked, failed }: WorkerHooks,
  retryMs: number,
): IQueueBackend {
  const retriable = (error: unknown): unknown => {
    if (isRefused(error)) return error;
    if (!ending.aborted) failed(error);
    return Object.assign(new Error(wordsOf(error), { cause: error }), { code: 'ECONNREFUSED' });
  };
  const waitForJob: IQueueBackend['waitForJob'] = async (seconds) => {
    try {
      return await backend.waitForJob(seconds);
    } catch (error) {
      const retry = retriable(error);
      if (ending.aborted) throw retry;
      backend.reconnectBlocking().catch(() => undefined);
      await pause(retryMs, ending);
      return null;
    }
  };
  return new Proxy(backend, {
    get(target, name) {
      if (name === 'waitForJob') return waitForJob;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value, target, args);
        if (!(answer instanceof Promise)) return answer;
        return answer.then(
          (result: unknown) => {
            if (!WITHOUT_ANSWER.has(name)) worked();
            return result;
          },
          (error: unknown) => {
            throw retriable(error);
          },
        );
      };
    },
  });
}

/** The job is gone, not active, or locked by another worker: BullMQ's errors with a negative code. */
function isRefused(error: unknown): boolean {
  if (!(error instanceof Error) || !('code' in error)) return false;
  return typeof error.code === 'number' && error.code < 0;
}

/** Milliseconds before a failed command is given again. */
function retryPause({ retryMs }: Tuning): number {
  return Math.min(retryMs, 1_000);
}

async function endsWithin(ms: number, end: Promise<unknown>): Promise<boolean> {
  return within(ms, end).then(
    () => true,
    () => false,
  );
}

/** Makes BullMQ try a job again after exactly this pause. */
class TryAgain extends Error {
  override readonly name = 'TryAgain';

  constructor(
    message: string,
    readonly delayMs: number,
  ) {
    super(message);
  }
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
