import { Queue, type BackendFactory, type IQueueBackend } from 'bullmq';
import type { Log } from '../domain/log.js';
import { within } from './concurrency.js';
import { QueueError, wordsOf, type Outage } from './errors.js';
import { QUEUE_NAMES, type Payload, type QueueName } from './tasks.js';
import type { Tuning } from './tuning.js';

export interface QueueSettings {
  /** Prefix of all keys in Redis, so that several installations can share a server. */
  readonly prefix: string;
  /** Days that finished jobs are kept; while one is kept, its id is not added again. */
  readonly keepJobsDays: number;
  /** Name of the connections, as the server lists them. */
  readonly applicationName: string;
  readonly log: Log;
  readonly tuning: Tuning;
}

/** What a kind of server must be able to do for the queue. */
export interface Server {
  readonly backend: 'redis' | 'postgres';
  /** What BullMQ's queues and workers are made with. */
  readonly connection: unknown;
  readonly factory: BackendFactory<IQueueBackend, unknown>;
  /** Waits a bounded time for a connection. @throws whatever the driver throws */
  reach(): Promise<void>;
  /** Makes the server ready for BullMQ's queues; called when `reach` succeeded. */
  prepare(): Promise<void>;
  ping(): Promise<void>;
  /** What an error means, without any secret. */
  explain(error: unknown): QueueError;
  /** Bounded, also when the server is gone. */
  close(): Promise<void>;
}

type BullQueue = Queue<Payload, unknown, string, Payload, unknown, string, IQueueBackend, unknown>;
type BullQueues = Readonly<Record<QueueName, BullQueue>>;

/** The connection to the server: opened at its first use, and again after each failed attempt. */
export class Connection {
  readonly #server: Server;
  readonly #outage: Outage;
  readonly #settings: QueueSettings;
  #queues: Promise<BullQueues> | null = null;
  #closing: Promise<void> | null = null;

  constructor(server: Server, outage: Outage, settings: QueueSettings) {
    this.#server = server;
    this.#outage = outage;
    this.#settings = settings;
  }

  get backend(): Server['backend'] {
    return this.#server.backend;
  }

  /** What BullMQ's queues and workers are made with. */
  get bull(): Pick<Server, 'connection' | 'factory'> & { readonly prefix: string } {
    const { connection, factory } = this.#server;
    // Braces keep all keys of an installation in one slot of a Redis cluster.
    return { connection, factory, prefix: `{${this.#settings.prefix}}` };
  }

  /**
   * Does something with the queues.
   * @throws {QueueError} when they can't be reached or say no, after a bounded time at the latest
   */
  async use<T>(work: (queues: BullQueues) => Promise<T>): Promise<T> {
    if (this.#closing) throw new QueueError('the queue is closed', 'Start the program again.');
    try {
      const answer = this.#server.reach().then(async () => work(await this.#open()));
      const value = await within(this.#settings.tuning.answerMs, answer);
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
    if (!this.#closing) this.#outage.failed(explained.message);
    return explained;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const closed = this.#queues?.then((queues) => closeAll(Object.values(queues)));
    // They may never have been opened, or not answer; the connection is ended all the same.
    if (closed) await within(this.#settings.tuning.answerMs, closed).catch(() => undefined);
    await this.#server.close();
  }

  #open(): Promise<BullQueues> {
    if (this.#queues !== null) return this.#queues;
    const opening = this.#server.prepare().then(() => this.#openAll());
    this.#queues = opening;
    opening.catch(() => (this.#queues = null)); // the next use tries again
    return opening;
  }

  /**
   * Opens all queues on a shared connection, or none: BullMQ remembers a failed first use of a
   * connection for ever, so a queue that did not become ready is closed, and the next use opens others.
   */
  async #openAll(): Promise<BullQueues> {
    const opened: BullQueue[] = [];
    try {
      for (const name of QUEUE_NAMES) {
        const queue = this.#openQueue(name);
        opened.push(queue);
        await queue.waitUntilReady();
        // Waits for the queue's settings (the length of its stream) to be stored, a failure of which
        // BullMQ keeps to itself.
        if ((await queue.getVersion()) === null) throw new Error('the queue kept no settings');
      }
      return Object.fromEntries(opened.map((queue) => [queue.name, queue])) as BullQueues;
    } catch (error) {
      await closeAll(opened);
      throw error;
    }
  }

  #openQueue(name: QueueName): BullQueue {
    const { keepJobsDays, tuning } = this.#settings;
    const { factory, ...place } = this.bull;
    const age = Math.ceil(keepJobsDays * 86_400); // whole seconds, or PostgreSQL refuses them
    const queue: BullQueue = new Queue(
      name,
      {
        ...place,
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
}

/** Events that the stream of a queue keeps; nobody reads more than the latest. */
const EVENTS_KEPT = 100;

async function closeAll(queues: readonly BullQueue[]): Promise<void> {
  for (const queue of queues.toReversed()) await queue.close().catch(() => undefined);
}

/** What any error means that is not about the connection. */
export function refusal(where: string, error: unknown): QueueError {
  return new QueueError(
    `${where}: ${wordsOf(error)}`,
    'Look at the log of the server that keeps the queue.',
  );
}
