import { Queue, type BackendFactory, type IQueueBackend } from 'bullmq';
import { within } from './concurrency.js';
import { QueueError, wordsOf } from './errors.js';
import type { Outage } from './outage.js';
import { QUEUE_NAMES, type Payload, type QueueName } from './tasks.js';
import type { Tuning } from './tuning.js';

/** What a kind of server must be able to do for the queue. */
export interface Server {
  readonly backend: 'redis' | 'postgres';
  /** Waits a bounded time for a connection. @throws whatever the driver throws */
  reach(): Promise<void>;
  /** Makes BullMQ's objects; called when `reach` succeeded. */
  openSession(): Promise<Session>;
  ping(): Promise<void>;
  /** What an error means, without any secret. */
  explain(error: unknown): QueueError;
  /** Bounded, also when the server is gone. */
  close(): Promise<void>;
}

/** BullMQ on a server that could be reached. */
export interface Session {
  readonly queues: Readonly<Record<QueueName, BullQueue>>;
  /** What workers are made with. */
  readonly connection: unknown;
  readonly factory: BackendFactory<IQueueBackend, unknown>;
  readonly prefix: string;
  close(): Promise<void>;
}

/** The part of BullMQ's queue that is used. */
export type BullQueue = Pick<
  Queue<Payload>,
  'add' | 'getJob' | 'getJobCounts' | 'getVersion' | 'close'
>;

export interface SessionOptions {
  readonly prefix: string;
  /** Days that finished jobs are kept; while one is kept, its id is not added again. */
  readonly keepDays: number;
  readonly tuning: Tuning;
}

/** The connection to the server: opened at its first use, and again after each failed attempt. */
export class Connection {
  readonly #server: Server;
  readonly #outage: Outage;
  readonly #answerMs: number;
  #session: Promise<Session> | null = null;
  #closing: Promise<void> | null = null;

  constructor(server: Server, outage: Outage, answerMs: number) {
    this.#server = server;
    this.#outage = outage;
    this.#answerMs = answerMs;
  }

  get backend(): Server['backend'] {
    return this.#server.backend;
  }

  get closed(): boolean {
    return this.#closing !== null;
  }

  /**
   * Does something with the queue.
   * @throws {QueueError} when the queue can't be reached or says no, after a bounded time at the latest
   */
  async use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    if (this.closed) throw new QueueError('the queue is closed', 'Start the program again.');
    try {
      const answer = this.#server.reach().then(async () => work(await this.#open()));
      const value = await within(this.#answerMs, answer);
      this.worked();
      return value;
    } catch (error) {
      throw this.failed(error);
    }
  }

  /** @throws {QueueError} when the server can't be reached */
  ping(): Promise<void> {
    return this.use(() => this.#server.ping());
  }

  /** Logs the end of an outage, if there was one. */
  worked(): void {
    this.#outage.worked();
  }

  /** Logs a failure, unless the connection is being closed, and explains it. */
  failed(error: unknown): QueueError {
    const explained = error instanceof QueueError ? error : this.#server.explain(error);
    if (!this.closed) this.#outage.failed(explained.message);
    return explained;
  }

  #open(): Promise<Session> {
    if (this.#session !== null) return this.#session;
    const opening = this.#server.openSession();
    this.#session = opening;
    opening.catch(() => {
      // The next use tries again.
      if (this.#session === opening) this.#session = null;
    });
    return opening;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const session = this.#session;
    try {
      if (session !== null)
        await within(
          this.#answerMs,
          session.then((it) => it.close()),
        );
    } catch {
      // It was never opened, or does not answer; the connection is ended all the same.
    } finally {
      await this.#server.close();
    }
  }
}

/**
 * Opens all queues on a shared connection, or none: BullMQ remembers a failed first use of a
 * connection for ever, so a queue that did not become ready is closed, and the caller opens new ones.
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
    for (const name of QUEUE_NAMES) {
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
      connection,
      factory: factory as unknown as Session['factory'],
      prefix: bullPrefix(options.prefix),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Braces keep all keys of an installation in one slot of a Redis cluster. */
function bullPrefix(prefix: string): string {
  return `{${prefix}}`;
}

/** Events that the stream of a queue keeps; nobody reads more than the latest. */
const EVENTS_KEPT = 100;

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
      prefix: bullPrefix(prefix),
      skipVersionCheck: true, // it would print to the console; the server was checked already
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
  // Callers see failed commands, the server's own listeners failed connections. Without a listener
  // here they would end the process.
  queue.on('error', () => undefined);
  return queue;
}

/** What any error means that is not about the connection. */
export function refusal(where: string, error: unknown): QueueError {
  return new QueueError(
    `${where}: ${wordsOf(error)}`,
    'Look at the log of the server that keeps the queue.',
  );
}
