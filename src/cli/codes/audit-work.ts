import { hostname } from 'node:os';
import type { App } from '../../app.js';
import { auditHandler } from '../../app/audit-handler.js';
import { startHeartbeat, type Heartbeat } from '../../app/heartbeat.js';
import { adding } from '../../app/watch-audits.js';
import { silentLog } from '../../domain/log.js';
import { enqueueChunks } from '../../jobs/codes/perform-chunk.js';
import type { Queues } from '../../queue/queues.js';
import type { QueueWorker } from '../../queue/worker.js';
import { BEAT_EVERY_MS, type LiveProcess } from '../../store/processes.js';
import type { AuditProgress } from '../../store/audits/types.js';

/** Who missed so many beats is taken for dead. */
const ALIVE_MS = 3.5 * BEAT_EVERY_MS;
/** How often it is made sure that somebody works, and that the queue has something to work on. */
const LOOK_MS = 5_000;
/** Others that get nowhere for so long may not know the seller, or may be stuck. */
const STILL_MS = 60_000;

/** The worker of this process, and what tells others of it. */
interface OwnWork {
  readonly worker: QueueWorker;
  readonly heartbeat: Heartbeat;
}

/** The work on an audit: in this process, or in others that live. */
export class AuditWork {
  readonly #app: App;
  readonly #queues: Queues;
  #own: OwnWork | null = null;
  #lookedAt = -Infinity;
  #moved = { pending: -1, at: 0 };

  private constructor(app: App, queues: Queues) {
    this.#app = app;
    this.#queues = queues;
  }

  static async open(app: App): Promise<AuditWork> {
    const { redis, queuePrefix, keepJobsDays } = app.config;
    const { openQueues } = await import('../../queue/queues.js'); // slow to load
    const queues = await openQueues({
      target: redis,
      databaseUrl: app.database.url,
      prefix: queuePrefix,
      keepJobsDays,
      applicationName: 'seller-mirror codes',
      log: silentLog,
    });
    return new AuditWork(app, queues);
  }

  /** True: this process works; false: others do. */
  get isOwn(): boolean {
    return this.#own !== null;
  }

  /**
   * Puts what there is to do into the queue.
   * @param afresh also what is there, but held by a process that may be gone, or put off
   * @throws {QueueError} when the queue can't be reached
   */
  async enqueue({ auditId, sellerId }: AuditProgress, afresh = false): Promise<void> {
    await enqueueChunks(this.#app.store, auditId, adding(this.#queues, sellerId, { afresh }));
  }

  /**
   * Sees to it, once in a while, that somebody works on the audit: this process, when nobody else
   * does, or others get nowhere for no reason that is known.
   */
  async ensure(audit: AuditProgress): Promise<void> {
    const now = performance.now();
    const waits = audit.problem !== null;
    if (waits || audit.pending !== this.#moved.pending) {
      this.#moved = { pending: audit.pending, at: now };
    }
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    await this.enqueue(audit);
    if (this.#own !== null) return;
    const others = await this.#app.store.audits.liveProcesses(ALIVE_MS, 'worker');
    const standsStill = now - this.#moved.at > STILL_MS;
    if (standsStill || !others.some(isAlive)) this.#own = this.#begin();
  }

  #begin(): OwnWork {
    const { store, config } = this.#app;
    const heartbeat = startHeartbeat(store.audits, ['worker'], silentLog);
    const worker = this.#queues.work('audits', auditHandler(this.#app, this.#queues), {
      concurrency: config.workerConcurrency,
    });
    return { worker, heartbeat };
  }

  /** Hands back what is at work here; what was answered is recorded first. */
  async close(): Promise<void> {
    const own = this.#own;
    try {
      await own?.worker.stop(0);
      await own?.heartbeat.stop();
    } finally {
      await this.#queues.close();
    }
  }
}

/** Of a process on this machine the system knows better whether it lives than its last word. */
function isAlive({ host, pid }: LiveProcess): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
