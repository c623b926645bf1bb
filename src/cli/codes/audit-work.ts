import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { silentLog } from '../../domain/log.js';
import { alertId } from '../../jobs/alerts.js';
import { paceOf } from '../../jobs/codes/pace.js';
import {
  enqueueNext,
  performAuditChunk,
  type AuditDeps,
  type ChunkJob,
} from '../../jobs/codes/perform-chunk.js';
import { alertsAfter, type MirrorOutcome } from '../../jobs/mirror-outcome.js';
import type { Queues } from '../../queue/queues.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { usageError } from '../errors.js';

/** Attempts at a chunk that fails, such as while the key is refused: about twelve hours with the pauses. */
const ATTEMPTS = 80;
/** Pauses between them; each is twice the one before. */
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 10 * 60_000;
/** Pause before a chunk is tried again that another process works on. */
const BUSY_MS = 2_000;
/** Time for the last proofs when the work is stopped. */
const CLOSING_MS = 10_000;

/** A chunk that waits for its turn. */
interface WaitingChunk {
  readonly chunk: number;
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  /** Attempts that failed. */
  readonly failed: number;
}

/** Works on an audit in this process, chunk by chunk, without a queue. */
export class AuditWork {
  /** Whether another process works on the next chunk. */
  isOthers = false;
  readonly #app: App;
  readonly #audit: AuditProgress;
  readonly #waiting = new Map<number, WaitingChunk>();
  readonly #closing = new AbortController();
  readonly #cut = new AbortController();
  readonly #done: Promise<void>;
  #failure: { readonly error: unknown } | null = null;

  /** Starts at once. */
  constructor(app: App, audit: AuditProgress) {
    this.#app = app;
    this.#audit = audit;
    this.#done = this.#work().catch((error: unknown) => {
      this.#failure = { error };
    });
  }

  /** @throws the error that ended the work, if one did */
  assertWorking(): void {
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Asks for no further code. Proves answers if that takes little time, and records them. */
  async stop(): Promise<void> {
    this.#closing.abort();
    const cut = setTimeout(() => this.#cut.abort(), CLOSING_MS);
    await this.#done;
    clearTimeout(cut);
  }

  async #work(): Promise<void> {
    const { config, store } = this.#app;
    const { auditId, sellerId } = this.#audit;
    const seller = config.sellers.find(({ name }) => name === sellerId);
    if (seller === undefined) {
      const message = `audit ${auditId} is of the seller "${sellerId}", who is not configured here`;
      throw usageError(message, 'configure the seller, then resume the audit');
    }
    await this.#app.withJobs(seller, {}, async ({ marketplace, callCount }) => {
      const deps: AuditDeps = {
        ...{ store, marketplace, sellerId, callCount, ...paceOf(seller.requestsPerMinute) },
        ...{ carried: new Map(), closing: this.#closing.signal },
        enqueueChunk: (_, chunk) => this.#add({ chunk, notBefore: 0, failed: 0 }),
      };
      while (await this.#enqueue(deps)) {
        for (let next = this.#next(); next !== null; next = this.#next()) {
          await this.#until(next.notBefore);
          if (this.#closing.signal.aborted) return;
          this.#waiting.delete(next.chunk);
          const isLastAttempt = next.failed + 1 >= ATTEMPTS;
          const job: ChunkJob = { auditId, chunk: next.chunk, isLastAttempt };
          const outcome = await performAuditChunk(deps, job, this.#cut.signal);
          await this.#goOn(next, outcome);
        }
      }
    });
  }

  /** Adds the next chunk. @returns false when the audit has ended or the work must stop */
  async #enqueue({ store, enqueueChunk }: AuditDeps): Promise<boolean> {
    const { auditId } = this.#audit;
    while (!this.#closing.signal.aborted) {
      try {
        await enqueueNext(store, auditId, enqueueChunk);
        if (this.#waiting.size > 0) return true;
        if ((await store.audits.get(auditId))?.state !== 'running') return false;
      } catch (error) {
        if (explainDatabaseError(error, '') === null) throw error;
      }
      await this.#until(Date.now() + BUSY_MS);
    }
    return false;
  }

  /** The chunk with the earliest start; null when none waits. */
  #next(): WaitingChunk | null {
    let first: WaitingChunk | null = null;
    for (const one of this.#waiting.values()) {
      if (first === null || one.notBefore < first.notBefore) first = one;
    }
    return first;
  }

  #add(one: WaitingChunk): Promise<void> {
    if (!this.#waiting.has(one.chunk)) this.#waiting.set(one.chunk, one);
    return Promise.resolve();
  }

  async #goOn({ chunk, failed }: WaitingChunk, outcome: MirrorOutcome): Promise<void> {
    const now = Date.now();
    this.isOthers = outcome.kind === 'later' && outcome.isBusy === true;
    if (outcome.kind === 'later') {
      const delayMs = this.isOthers ? BUSY_MS : outcome.delayMs;
      await this.#add({ chunk, notBefore: now + delayMs, failed });
    } else if (outcome.kind === 'retry') {
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failed);
      const notBefore = Math.max(now + pauseMs, outcome.notBefore ?? 0);
      await this.#add({ chunk, notBefore, failed: failed + 1 });
    }
    await this.#alert(outcome);
  }

  /** Sends the alerts of an audit's end, as a worker would. */
  async #alert(outcome: MirrorOutcome): Promise<void> {
    const alerts = alertsAfter(outcome, { attempt: ATTEMPTS, attempts: ATTEMPTS });
    if (this.#app.config.alerts === null || alerts.length === 0) return;
    const queues = await openAuditQueues(this.#app);
    try {
      for (const alert of alerts) await queues.addAlert(alert, alertId(alert));
    } finally {
      await queues.close();
    }
  }

  async #until(moment: number): Promise<void> {
    const ms = moment - Date.now();
    const { signal } = this.#closing;
    if (ms > 0) await sleep(ms, undefined, { signal }).catch(() => undefined);
  }
}

/** Opens the queues, for jobs that other processes do. Takes long to load. */
export async function openAuditQueues(app: App): Promise<Queues> {
  const { redis, queuePrefix, keepJobsDays } = app.config;
  const { openQueues } = await import('../../queue/queues.js');
  return openQueues({
    target: redis,
    databaseUrl: app.database.url,
    prefix: queuePrefix,
    keepJobsDays,
    applicationName: 'seller-mirror codes',
    log: silentLog,
  });
}
