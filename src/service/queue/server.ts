import type { UserError } from '../../domain/user-error.js';
import type { BackendFactory, IQueueBackend } from 'bullmq';
import type { Log } from '../../domain/log.js';

/** Times of the queue (ms). Tests shorten them. */
export const TIMES = {
  /** A worker's lock on a job expires this long after its last renewal. */
  lockMs: 30_000,
  /** Interval of the check for jobs whose worker died. The second check in a row gives a job to another worker. */
  stalledMs: 30_000,
  /** An idle worker waits this long for a job; then it looks by itself. */
  blockMs: 15_000,
  /** Longest wait for a connection. */
  connectMs: 5_000,
  /** Longest wait for the answer to one command. */
  commandMs: 5_000,
  /** Longest time of one call of `Queues`, such as adding a job. */
  answerMs: 10_000,
  /** Longest pause between two attempts to reach the server. */
  retryMs: 5_000,
  /** Longest pause between two looks for what is due: other processes add work, and machines may be suspended. */
  lookMs: 30_000,
  /** Time for handlers to return after their signal was aborted. */
  graceMs: 5_000,
};
export type Times = Readonly<typeof TIMES>;

export interface QueueSettings {
  /** Prefix of all keys in Redis: lets several installations share a server. */
  readonly prefix: string;
  /** Days to keep finished jobs, which are only shown. */
  readonly keepJobsDays: number;
  /** Name of the connections in the server's list of clients. */
  readonly applicationName: string;
  readonly log: Log;
  readonly times: Times;
}

/** The server that stores the queue: Redis or PostgreSQL. */
export interface Server {
  readonly backend: 'redis' | 'postgres';
  /** Connections for BullMQ, as is `factory`. */
  readonly forQueues: unknown;
  readonly forWorkers: unknown;
  readonly factory: BackendFactory<IQueueBackend, unknown>;
  /** Waits a limited time for the server, and prepares it for BullMQ. */
  prepare(): Promise<void>;
  /** Resolves if the server takes writes. */
  ping(): Promise<void>;
  /** Explains an error without showing a secret. */
  explain(error: unknown): UserError;
  /** Takes a limited time, even if the server is gone. */
  close(): Promise<void>;
}
