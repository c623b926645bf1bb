import { hostname } from 'node:os';
import { Queue, Worker, type BackendFactory, type IQueueBackend, type Job } from 'bullmq';
import type { Payload, QueueName } from './tasks.js';
import type { Tuning } from './tuning.js';

export type QueueJob = Job<Payload>;

/** What is used of BullMQ's queue. */
export type BullQueue = Pick<
  Queue<Payload>,
  'add' | 'getJob' | 'getJobCounts' | 'getVersion' | 'close'
>;

/** What is used of BullMQ's worker: it fetches and renews, the loop around it is ours. */
export interface BullWorker {
  getNextJob(token: string, options: { readonly block: boolean }): Promise<QueueJob | undefined>;
  /** Ids of the jobs that belong to somebody else by now. */
  extendJobLocks(ids: string[], tokens: string[], durationMs: number): Promise<string[]>;
  getBackend(): { moveStalledJobsToWait(): Promise<string[]> };
  close(force: boolean): Promise<void>;
}

/** BullMQ on a connection that works or mends itself. */
export interface Session {
  readonly queues: Readonly<Record<QueueName, BullQueue>>;
  worker(queue: QueueName): Promise<BullWorker>;
  close(): Promise<void>;
}

/** Events of a queue that its stream keeps; nobody reads more than the latest. */
const EVENTS_KEPT = 100;

export interface SessionOptions {
  readonly names: readonly QueueName[];
  readonly prefix: string;
  /** How long finished jobs are kept; while one is kept, its id is not added again. */
  readonly keepDays: number;
  readonly tuning: Tuning;
}

/** Thrown at BullMQ to have a job tried again after exactly this pause. */
export class TryAgain extends Error {
  override readonly name = 'TryAgain';

  constructor(
    message: string,
    readonly delayMs: number,
  ) {
    super(message);
  }
}

/**
 * BullMQ's objects on a shared connection. All of them, or none: BullMQ remembers a failed first use
 * of a connection for ever, so what could not be made ready is closed and made anew by the caller.
 */
export async function openSession<B extends IQueueBackend, C>(
  connection: C,
  factory: BackendFactory<B, C>,
  options: SessionOptions,
): Promise<Session> {
  const opened: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const part of opened.splice(0).reverse()) await part.close().catch(() => undefined);
  };
  try {
    const entries: [QueueName, BullQueue][] = [];
    for (const name of options.names) {
      const queue = openQueue(name, connection, factory, options);
      opened.push(queue);
      await queue.waitUntilReady();
      // Waits for the queue's settings (the length of its stream) to be stored, a failure of which
      // BullMQ keeps to itself.
      if ((await queue.getVersion()) === null) throw new Error('the queue kept no settings');
      entries.push([name, queue]);
    }
    return {
      queues: Object.fromEntries(entries) as Record<QueueName, BullQueue>,
      worker: async (name) => {
        const worker = openWorker(name, connection, factory, options);
        try {
          await worker.waitUntilReady();
        } catch (error) {
          await worker.close(true).catch(() => undefined);
          throw error;
        }
        return worker;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function openQueue<B extends IQueueBackend, C>(
  name: QueueName,
  connection: C,
  factory: BackendFactory<B, C>,
  { prefix, keepDays, tuning }: SessionOptions,
): Queue<Payload, unknown, string, Payload, unknown, string, B, C> {
  const age = Math.ceil(keepDays * 86_400); // whole seconds, or PostgreSQL refuses them
  const queue = new Queue<Payload, unknown, string, Payload, unknown, string, B, C>(
    name,
    {
      connection,
      prefix: `{${prefix}}`,
      skipVersionCheck: true, // it would print to the console; the link has looked already
      streams: { events: { maxLen: EVENTS_KEPT } },
      defaultJobOptions: {
        attempts: tuning.attempts,
        backoff: { type: 'custom' },
        stackTraceLimit: 0,
        removeOnComplete: { age, count: tuning.completedKept },
        removeOnFail: { age, count: tuning.failedKept },
      },
    },
    factory,
  );
  // Failed commands are told to who gave them, failed connections to the link; unheard, they would
  // end the process.
  queue.on('error', () => undefined);
  return queue;
}

/**
 * A worker without a processor. BullMQ's own loop is not used, for three reasons met in its code: it
 * spins without a pause on errors other than a refused connection; it sleeps up to an hour on a
 * LISTEN connection that may be half-open; and an outage at the moment of recording a finished job
 * makes a failed one of it. Fetching by hand is a pattern BullMQ documents, needs no connection that
 * blocks, and bounds every single step.
 */
function openWorker<B extends IQueueBackend, C>(
  name: QueueName,
  connection: C,
  factory: BackendFactory<B, C>,
  { prefix, tuning }: SessionOptions,
): Worker<Payload, unknown, string, B, object, C> {
  const worker = new Worker<Payload, unknown, string, B, object, C>(
    name,
    null,
    {
      connection,
      prefix: `{${prefix}}`,
      name: `${hostname()}.${process.pid}`,
      autorun: false,
      skipVersionCheck: true,
      lockDuration: tuning.lockMs,
      stalledInterval: tuning.stalledMs,
      maxStalledCount: tuning.maxStalled,
      settings: {
        backoffStrategy: (_attempts, _type, error) =>
          error instanceof TryAgain ? error.delayMs : 0,
      },
    },
    // Without the options that would open a second, blocking connection.
    (queue, options) => factory(queue, options),
  );
  worker.on('error', () => undefined);
  return worker;
}
