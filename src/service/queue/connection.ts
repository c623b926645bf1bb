import { Queue, type BackendFactory, type IQueueBackend } from 'bullmq';
import type { Log } from '../../domain/log.js';
import { withTimeout } from '../concurrency.js';
import { errorText, QueueError, type OutageLog } from './errors.js';
import { QUEUE_NAMES, type Payload, type QueueName } from './tasks.js';
import type { Tuning } from './tuning.js';

export interface QueueSettings {
  /** Prefix of all keys in Redis: lets several installations share a server. */
  readonly prefix: string;
  /** Days to keep finished jobs. While a job is kept, no other job with its id is added. */
  readonly keepJobsDays: number;
  /** Name of the connections in the server's list of clients. */
  readonly applicationName: string;
  readonly log: Log;
  readonly tuning: Tuning;
}

/** The server that stores the queue: Redis or PostgreSQL. */
export interface Server {
  readonly backend: 'redis' | 'postgres';
  /** Passed to BullMQ's queues and workers, as is `factory`. */
  readonly connection: unknown;
  readonly factory: BackendFactory<IQueueBackend, unknown>;
  /** Waits a limited time for a connection. @throws the driver's error */
  reach(): Promise<void>;
  /** Prepares the server for BullMQ's queues. Called after `reach` has succeeded. */
  prepare(): Promise<void>;
  ping(): Promise<void>;
  /** Explains an error without showing a secret. */
  explain(error: unknown): QueueError;
  /** Takes a limited time, even if the server is gone. */
  close(): Promise<void>;
}

type BullQueue = Queue<Payload, unknown, string, Payload, unknown, string, IQueueBackend, unknown>;
type BullQueues = Readonly<Record<QueueName, BullQueue>>;

/** The connection to the server. Opens at its first use, and again after a failed attempt. */
export class Connection {
  readonly #server: Server;
  readonly #outages: OutageLog;
  readonly #settings: QueueSettings;
  #queues: Promise<BullQueues> | null = null;
  #closing: Promise<void> | null = null;

  constructor(server: Server, outages: OutageLog, settings: QueueSettings) {
    this.#server = server;
    this.#outages = outages;
    this.#settings = settings;
  }

  get backend(): Server['backend'] {
    return this.#server.backend;
  }

  /** Options for BullMQ's queues and workers. */
  get bull(): Pick<Server, 'connection' | 'factory'> & { readonly prefix: string } {
    const { connection, factory } = this.#server;
    // The braces keep all keys of an installation in one slot of a Redis cluster.
    return { connection, factory, prefix: `{${this.#settings.prefix}}` };
  }

  /**
   * Calls `work` with the queues, for a limited time.
   * @throws {QueueError} when the server can't be reached, rejects a command or takes too long
   */
  async use<T>(work: (queues: BullQueues) => Promise<T>): Promise<T> {
    if (this.#closing) throw new QueueError('the queue is closed', 'Restart the program.');
    try {
      const result = this.#server.reach().then(async () => work(await this.#open()));
      const value = await withTimeout(this.#settings.tuning.answerMs, result);
      this.succeeded();
      return value;
    } catch (error) {
      throw this.failed(error);
    }
  }

  /** @throws {QueueError} when the server can't be reached */
  ping(): Promise<void> {
    return this.use(() => this.#server.ping());
  }

  /** Reports that a command succeeded, which ends an outage. */
  succeeded(): void {
    this.#outages.succeeded();
  }

  /** Reports that a command failed, and explains the error. Not logged once the connection is closing. */
  failed(error: unknown): QueueError {
    const explained = error instanceof QueueError ? error : this.#server.explain(error);
    if (!this.#closing) this.#outages.failed(explained.message);
    return explained;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const closed = this.#queues?.then((queues) => closeAll(Object.values(queues)));
    // If the server doesn't answer, close the connection all the same.
    if (closed) await withTimeout(this.#settings.tuning.answerMs, closed).catch(() => undefined);
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
   * Opens all queues on one connection, or none. BullMQ never recovers from a failed first use of a connection:
   * close a queue that did not become ready, so that the next use opens a new one.
   */
  async #openAll(): Promise<BullQueues> {
    const opened: BullQueue[] = [];
    try {
      for (const name of QUEUE_NAMES) {
        const queue = this.#openQueue(name);
        opened.push(queue);
        await queue.waitUntilReady();
        // BullMQ hides it if the queue's settings (the length of its event stream) could not be stored.
        if ((await queue.getVersion()) === null) throw new Error('could not store the settings');
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
    const age = Math.ceil(keepJobsDays * 86_400); // PostgreSQL accepts only whole seconds
    const queue: BullQueue = new Queue(
      name,
      {
        ...place,
        skipVersionCheck: true, // would print to the console, and `prepare` has checked the server
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
    // Errors are reported elsewhere. Without this listener they would end the process.
    queue.on('error', () => undefined);
    return queue;
  }
}

/** Length of a queue's event stream. Only the latest events are ever read. */
const EVENTS_KEPT = 100;

async function closeAll(queues: readonly BullQueue[]): Promise<void> {
  for (const queue of queues.toReversed()) await queue.close().catch(() => undefined);
}

/** Explains an error that is not about the connection. */
export function commandError(where: string, error: unknown): QueueError {
  return new QueueError(`${where}: ${errorText(error)}`, 'Check the log of the queue’s server.');
}
