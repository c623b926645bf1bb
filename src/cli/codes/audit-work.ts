import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { alertJobs, alertsAfter } from '../../jobs/alerts.js';
import { paceOf } from '../../jobs/codes/pace.js';
import { enqueueNext, performAuditChunk } from '../../jobs/codes/perform-chunk.js';
import type { AuditDeps } from '../../jobs/codes/work-on-chunk.js';
import type { JobOutcome } from '../../jobs/types.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { usageError } from '../errors.js';
import { queuesOf } from '../execute.js';

/** Attempts at a chunk that fails, such as while the key is refused: about twelve hours with the pauses. */
const ATTEMPTS = 80;
/** Pauses between them; each is twice the one before. */
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 10 * 60_000;
/** Pause before a chunk is tried again that another process works on. */
const BUSY_MS = 2_000;
/** Time for the last proofs when the work is stopped. */
const CLOSING_MS = 10_000;

interface WaitingChunk {
  readonly chunk: number;
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  /** Attempts that failed. */
  readonly failed: number;
}

/**
 * Works on an audit in this process, chunk by chunk, without a queue, until the audit has ended.
 * @param closing ends the work: no further code is asked for; answers are proven if that takes little
 *   time, and recorded
 * @param onBusy told after each attempt whether another process works on the chunk
 */
export async function workOnAudit(
  app: App,
  { auditId, sellerId }: AuditProgress,
  closing: AbortSignal,
  onBusy: (isBusy: boolean) => void,
): Promise<void> {
  const { config, store } = app;
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (seller === undefined) {
    throw usageError(
      `audit ${auditId} is of the seller "${sellerId}", who is not configured here`,
      'configure the seller, then resume the audit',
    );
  }
  const cut = new AbortController();
  closing.addEventListener('abort', () => setTimeout(() => cut.abort(), CLOSING_MS).unref());
  const waiting = new Map<number, WaitingChunk>();
  const add = (one: WaitingChunk): void => {
    if (!waiting.has(one.chunk)) waiting.set(one.chunk, one);
  };
  const until = (moment: number): Promise<void> =>
    sleep(Math.max(0, moment - Date.now()), undefined, { signal: closing }).catch(() => undefined);

  await app.withJobs(seller, {}, async ({ marketplace, callCount }) => {
    const deps: AuditDeps = {
      ...{ store, marketplace, sellerId, callCount, ...paceOf(seller.requestsPerMinute) },
      ...{ carried: new Map(), closing },
      enqueueChunk: (_, chunk) => {
        add({ chunk, notBefore: 0, failed: 0 });
        return Promise.resolve();
      },
    };
    while (!closing.aborted) {
      const [next] = [...waiting.values()].sort((a, b) => a.notBefore - b.notBefore);
      if (next === undefined) {
        if (!(await isLeft(deps))) return;
        if (waiting.size === 0) await until(Date.now() + BUSY_MS);
        continue;
      }
      await until(next.notBefore);
      if (closing.aborted) return;
      const { chunk, failed } = next;
      waiting.delete(chunk);
      const job = { auditId, chunk, isLastAttempt: failed + 1 >= ATTEMPTS };
      const outcome = await performAuditChunk(deps, job, cut.signal);
      const now = Date.now();
      const isBusy = outcome.kind === 'later' && outcome.isBusy === true;
      onBusy(isBusy);
      if (outcome.kind === 'later') {
        add({ chunk, notBefore: now + (isBusy ? BUSY_MS : outcome.delayMs), failed });
      } else if (outcome.kind === 'retry') {
        const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failed);
        const notBefore = Math.max(now + pauseMs, outcome.notBefore ?? 0);
        add({ chunk, notBefore, failed: failed + 1 });
      }
      await sendAlerts(app, outcome);
    }
  });

  /** Adds the next chunk, if the audit has one; false when the audit has ended. */
  async function isLeft({ enqueueChunk }: AuditDeps): Promise<boolean> {
    try {
      await enqueueNext(store, auditId, enqueueChunk);
      return waiting.size > 0 || (await store.audits.get(auditId))?.state === 'running';
    } catch (error) {
      if (explainDatabaseError(error, '') === null) throw error;
      return true;
    }
  }
}

/** Sends the alerts of an audit's end, as a worker would. */
async function sendAlerts(app: App, outcome: JobOutcome): Promise<void> {
  const alerts = alertsAfter(outcome, { attempt: ATTEMPTS, attempts: ATTEMPTS });
  const jobs = alerts.flatMap((alert) => alertJobs(app.config, alert));
  if (jobs.length === 0) return;
  const queues = await queuesOf(app, 'codes');
  try {
    for (const { id, task } of jobs) await queues.addAlert(task, id);
  } finally {
    await queues.close();
  }
}
