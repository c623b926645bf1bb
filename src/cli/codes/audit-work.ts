import type { App } from '../../app.js';
import { auditHandler } from '../../app/handlers.js';
import { startHeartbeat, type Heartbeat } from '../../app/heartbeat.js';
import { adding } from '../../app/watches.js';
import { silentLog } from '../../domain/log.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { Queues } from '../../queue/queues.js';
import type { AuditTask } from '../../queue/tasks.js';
import type { JobOutcome, QueueWorker } from '../../queue/worker.js';
import { ALIVE_MS, isAlive } from '../../store/processes.js';
import type { AuditProgress } from '../../store/audits/types.js';

/** How often it is made sure that somebody works, and that the queue has something to work on. */
const LOOK_MS = 5_000;
/** Others that get nowhere for so long may not know the seller, or may be stuck. */
const STILL_MS = 60_000;
/** Work that nobody waits for is put off for so long, or until somebody does. */
const PUT_OFF_MS = 15_000;
/** How long the proofs may take that are due when the work is stopped. */
const CLOSING_MS = 10_000;

const NOT_WANTED: JobOutcome = {
  kind: 'later',
  reason: 'nobody waits for this audit',
  delayMs: PUT_OFF_MS,
};

/** The role of a process that waits for an audit. */
const waitsFor = (auditId: bigint | string): string => `audit ${auditId}`;
/** The role of a process that works on an audit while it waits for it. */
const worksOn = (auditId: bigint): string => `worker of audit ${auditId}`;

/** The worker of this process, and what tells others of it. */
interface OwnWork {
  readonly worker: QueueWorker;
  readonly heartbeat: Heartbeat;
}

/** The work on an audit: in this process, or in others that live. */
export class AuditWork {
  readonly #app: App;
  readonly #queues: Queues;
  readonly #auditId: bigint;
  readonly #waiting: Heartbeat;
  #own: OwnWork | null = null;
  #lookedAt = -Infinity;
  #moved = { pending: -1, at: 0 };

  private constructor(app: App, queues: Queues, auditId: bigint) {
    this.#app = app;
    this.#queues = queues;
    this.#auditId = auditId;
    this.#waiting = startHeartbeat(app.store.processes, [waitsFor(auditId)], silentLog);
  }

  static async open(app: App, auditId: bigint): Promise<AuditWork> {
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
    return new AuditWork(app, queues, auditId);
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
    await enqueueNext(this.#app.store, auditId, adding(this.#queues, sellerId, { afresh }));
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
    const standsStill = now - this.#moved.at > STILL_MS;
    const isOthers = await this.#isAnyAlive(['worker', worksOn(this.#auditId)]);
    if (standsStill || !isOthers) this.#own = this.#begin();
  }

  #begin(): OwnWork {
    const { store, config } = this.#app;
    const heartbeat = startHeartbeat(store.processes, [worksOn(this.#auditId)], silentLog);
    const handle = auditHandler(this.#app, this.#queues);
    const wanted: typeof handle = async (task, context) =>
      (await this.#isWanted(task)) ? handle(task, context) : NOT_WANTED;
    const concurrency = config.workerConcurrency;
    return { worker: this.#queues.work('audits', wanted, { concurrency }), heartbeat };
  }

  /**
   * Of other audits only those are worked on here that somebody else waits for or is there to work on:
   * one that was interrupted is left alone, since it may have been for good.
   */
  async #isWanted(task: AuditTask): Promise<boolean> {
    if (task.kind !== 'chunk') return this.#isAnyAlive(['worker']);
    if (task.auditId === String(this.#auditId)) return true;
    return this.#isAnyAlive(['worker', waitsFor(task.auditId)]);
  }

  /** Whether any process lives that has one of these roles. */
  async #isAnyAlive(roles: readonly string[]): Promise<boolean> {
    const all = await this.#app.store.processes.live(ALIVE_MS);
    return all.some((one) => one.roles.some((role) => roles.includes(role)) && isAlive(one));
  }

  /** Hands back what is at work here; what was answered is proven, where that is soon done, and recorded. */
  async close(): Promise<void> {
    const own = this.#own;
    try {
      await own?.worker.stop(CLOSING_MS);
      await own?.heartbeat.stop();
      await this.#waiting.stop();
    } finally {
      await this.#queues.close();
    }
  }
}
