import { within } from './concurrency.js';
import { QueueError, wordsOf } from './errors.js';
import type { Outage } from './outage.js';
import type { Session } from './session.js';

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

/**
 * The way to the server: made when it is first needed, kept once it was made, and made anew as long
 * as it could not be.
 */
export class Link {
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
      this.#outage.worked();
      return value;
    } catch (error) {
      throw this.failed(error);
    }
  }

  /** @throws {QueueError} when the server can't be reached */
  ping(): Promise<void> {
    return this.use(() => this.#server.ping());
  }

  /** Tells of a failure unless it is our own end, and says what it means. */
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
      // It was never opened, or says no more; the connection is ended all the same.
    } finally {
      await this.#server.close();
    }
  }
}

/** What anything else than a connection's failure means. */
export function refusal(where: string, error: unknown): QueueError {
  return new QueueError(
    `${where}: ${wordsOf(error)}`,
    'Look at the log of the server that keeps the queue.',
  );
}
