/** Follows an audit to its end, as every command does: works on it, or watches the processes that do. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import type { JobOutcome } from '../../catalogue/types.js';
import { getAudit, noteAuditWait } from '../../codes/audits-store.js';
import { performCheck, type CheckDeps } from '../../codes/check.js';
import { paceOf, phaseOf } from '../../codes/progress.js';
import type { AuditProgress } from '../../codes/types.js';
import { explainDatabaseError } from '../../db/errors.js';
import { moment } from '../../domain/moment.js';
import { recordAlerts } from '../../service/alerts/alerts.js';
import { printProblem } from '../console.js';
import { usageError } from '../errors.js';
import { EXIT } from '../exit-codes.js';
import { followUp } from '../follow-up.js';
import { Progress } from '../output/progress.js';
import { verdictCounts } from './audit-view.js';
import { findAudit } from './options.js';

/** How a command follows an audit. */
interface Following {
  /** The command that continues it, for whoever interrupts this one; null: nobody can. */
  readonly resume: string | null;
  /** Somebody waits for the answer at the terminal: no alerts, and a check that fails is not tried again. */
  readonly isAnswer?: boolean;
  /** Called after each piece of work. If it returns true, the work ends here. */
  readonly isEnough?: (outcome: JobOutcome) => boolean;
}

const STOPPING = 'stopping; all answers are kept; to continue:';
const NOT_WATCHING = 'no longer watching; other processes continue; to watch again:';

const POLL_MS = 250;
/** The command fails after a longer outage of the database. */
const MAX_OUTAGE_MS = 60_000;
/** Time for the last proofs after an interruption. */
const CLOSING_MS = 10_000;

/** @returns the audit when it has ended, or `isEnough` said so; null when it was interrupted */
export async function follow(
  app: App,
  audit: AuditProgress,
  how: Following,
): Promise<AuditProgress | null> {
  const { signal } = app;
  const { resume, isEnough } = how;
  const [closing, cutOff] = [new AbortController(), new AbortController()];
  closing.signal.addEventListener('abort', () =>
    setTimeout(() => cutOff.abort(), CLOSING_MS).unref(),
  );
  const bar = auditBar(app, audit);
  let [isWatching, isOver] = [false, false];
  const failures: unknown[] = [];
  const onOutcome = (outcome: JobOutcome): boolean => {
    isWatching = outcome.kind === 'later' && outcome.isBusy === true;
    return isEnough?.(outcome) === true;
  };
  const signals = { closing: closing.signal, signal: cutOff.signal };
  const working = work(app, audit, { ...how, ...signals, onOutcome, onWait: bar.wait })
    .catch((error: unknown) => failures.push(error))
    .finally(() => (isOver = true));
  const onInterrupt = (): void => {
    bar.finish();
    if (resume !== null) printProblem(`${isWatching ? NOT_WATCHING : STOPPING}\n→ ${resume}\n`);
    // A second Ctrl-C ends the process with this code.
    process.exitCode = EXIT.interrupted;
  };
  signal.addEventListener('abort', onInterrupt, { once: true });
  try {
    for (let seenAt = performance.now(); ;) {
      const wasOver = isOver;
      try {
        const now = await findAudit(app, audit.auditId, undefined);
        bar.show(now, isWatching);
        if (wasOver || now.state !== 'running') {
          if (failures.length > 0 && now.state === 'running') throw failures[0];
          return now;
        }
        seenAt = performance.now();
      } catch (error) {
        const isOutage = explainDatabaseError(error, '') !== null;
        if (!isOutage || performance.now() - seenAt > MAX_OUTAGE_MS) throw error;
      }
      const pause = sleep(POLL_MS, undefined, { signal });
      await (isOver ? pause : Promise.race([working, pause]));
    }
  } catch (error) {
    if (signal.aborted) return null;
    if (resume !== null) printProblem(`The check is kept; to continue it:\n→ ${resume}\n`);
    throw error;
  } finally {
    bar.finish();
    closing.abort();
    await working;
    signal.removeEventListener('abort', onInterrupt);
  }
}

function auditBar({ db }: App, audit: AuditProgress) {
  const { done, total } = phaseOf(audit, db.clock.now());
  const bar = new Progress(`check ${audit.auditId}`, { total, from: done });
  let seenProblem: string | null = null;
  let shownProblem: string | null = null;
  let isWatchingShown = false;
  return {
    show(now: AuditProgress, isWatching: boolean): void {
      const { problem, resumeAt } = now;
      const phase = phaseOf(now, db.clock.now());
      const detail = [phase.text, verdictCounts(now)].filter((part) => part !== '').join(' · ');
      const { total, leftMs } = phase;
      bar.update(phase.done, { total, detail, leftMs, paused: resumeAt !== null });
      // The time of the next try is recorded a moment after the problem.
      const isSettled = resumeAt !== null || problem === seenProblem;
      seenProblem = problem;
      if (problem === null) shownProblem = null;
      else if (problem !== shownProblem && isSettled) {
        const until = resumeAt === null ? '' : ` until ${moment(resumeAt)}`;
        bar.note(`paused${until}: ${problem}`);
        shownProblem = problem;
      }
      if (isWatching && !isWatchingShown && now.state === 'running') {
        bar.note('Another process works on this check; this one only watches.');
        isWatchingShown = true;
      }
    },
    wait: (ms: number | null): void => bar.wait(ms),
    finish: () => bar.finish(),
  };
}

/** Attempts at an audit that keeps failing: about twelve hours, with the delays. */
const ATTEMPTS = 80;
/** Backoff between attempts: doubles from the first delay to the longest. */
const FIRST_DELAY_MS = 5_000;
const MAX_DELAY_MS = 10 * 60_000;
/** Delay before the next attempt at an audit that another process works on. */
const BUSY_MS = 2_000;

interface WorkOptions extends Pick<Following, 'isAnswer'> {
  /** Ends the work in order: checks no more codes, but proves and records the answers received. */
  readonly closing: AbortSignal;
  /** Ends the work at once. */
  readonly signal: AbortSignal;
  /** Called when a request waits long for the budget. */
  readonly onWait: (ms: number | null) => void;
  /** Called after each piece. If it returns true, the work ends here. */
  readonly onOutcome: (outcome: JobOutcome) => boolean;
}

/** Works on an audit in this process as a worker would, piece by piece, without the queue, until it has ended. */
async function work(
  app: App,
  { auditId, sellerId }: Pick<AuditProgress, 'auditId' | 'sellerId'>,
  { closing, signal, onOutcome, onWait, isAnswer = false }: WorkOptions,
): Promise<void> {
  const { config, db } = app;
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (seller === undefined) {
    throw usageError(
      `check ${auditId} belongs to the seller "${sellerId}", who is not configured here`,
      'configure the seller, then resume the check',
    );
  }
  const wait = (ms: number): Promise<void> =>
    sleep(ms, undefined, { signal: closing }).catch(() => undefined);
  await app.withMarketplace(seller, { onWait }, async ({ marketplace, callCount }) => {
    const pace = paceOf(seller.requestsPerMinute);
    const deps: CheckDeps = { db, marketplace, sellerId, callCount, ...pace, closing };
    for (let failed = 0; !closing.aborted;) {
      const job = { auditId, isLastAttempt: isAnswer || failed + 1 >= ATTEMPTS };
      const outcome = await performCheck(deps, job, signal);
      if (!isAnswer) await tellOthers(app, outcome);
      if (onOutcome(outcome)) return;
      if (outcome.kind === 'later') {
        failed = 0;
        await wait(outcome.isBusy === true && outcome.delayMs > 0 ? BUSY_MS : outcome.delayMs);
      } else if (outcome.kind === 'retry') {
        const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failed++);
        const waitMs = Math.max(delayMs, (outcome.notBefore ?? 0) - db.clock.now());
        await noteNextTry(app, auditId, waitMs);
        await wait(waitMs);
      } else return;
    }
  });
}

/** Records when an audit that a person must see to is tried again, so that the terminal can say it. */
async function noteNextTry({ db }: App, auditId: bigint, waitMs: number): Promise<void> {
  try {
    const problem = (await getAudit(db, auditId))?.problem ?? null;
    await noteAuditWait(db, auditId, problem, db.clock.now() + waitMs);
  } catch (error) {
    if (explainDatabaseError(error, '') === null) throw error;
  }
}

/** Does what follows a check, as a worker does: it records alerts and asks for deliveries of feeds. */
async function tellOthers(app: App, outcome: JobOutcome): Promise<void> {
  const alert = 'alert' in outcome ? (outcome.alert ?? null) : null;
  if (alert !== null) await recordAlerts(app, [alert]);
  await followUp(app, 'codes', alert?.kind === 'audit-finished');
}
