import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { performCheck, type CheckDeps } from '../../codes/check.js';
import { phaseOf, paceOf } from '../../codes/progress.js';
import type { AuditProgress, AuditResult } from '../../codes/types.js';
import type { OnWait } from '../../domain/budget.js';
import { explainDatabaseError } from '../../db/errors.js';
import { printNote, print, printJson, stderrLook, stdoutLook } from '../console.js';
import { openQueuesOf } from '../execute.js';
import { followUp } from '../follow-up.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';
import { exitCodeOfAudit, summaryNotes, summaryLines, verdictCounts } from './audit-view.js';
import { failsOn, type FailOptions, findAudit } from './options.js';
import { type ResultDestination, writeResult } from './result-file.js';
import { recordAlerts } from '../../service/alerts/alerts.js';
import type { JobOutcome } from '../../catalogue/types.js';
import {
  getAudit,
  markResultWritten,
  noteAuditWait,
  setResultFile,
} from '../../codes/audits-store.js';
import { moment } from '../../domain/moment.js';
import { readBestResults } from '../../codes/audit-result.js';
import { readAuditResults } from '../../codes/results-store.js';
import { usageError } from '../errors.js';

interface RunOptions extends FailOptions {
  readonly json?: boolean;
  /** Leave the work to other processes. */
  readonly detach?: boolean;
  /** With `detach`: don't wait for jobs that are delayed or locked by a dead process. */
  readonly force?: boolean;
  /** Where to write the result. Saved in the store, so that `audits resume` writes it too. */
  readonly destination: ResultDestination | null;
}

/** Runs an audit to its end and prints its result; with `detach`, leaves the work to other processes. */
export async function runAudit(app: App, auditId: bigint, options: RunOptions): Promise<ExitCode> {
  const { destination, detach = false, json = false, force = false } = options;
  if (destination !== null && destination.path !== null) {
    await setResultFile(app.db, auditId, {
      ...destination,
      path: resolve(destination.path),
    });
  }
  const audit = await findAudit(app, auditId, undefined);
  const commas = destination?.decimalComma === true ? ' --decimal-comma' : '';
  const onStdout =
    destination?.path === null ? ` --out - --format ${destination.format}${commas}` : '';
  const resume = `${ownCommand()} audits resume ${auditId}${onStdout}`;
  if (audit.state !== 'running') return report(app, [audit], options);
  if (!detach) {
    const ended = await workOrWatch(app, audit, { resume });
    return ended === null ? EXIT.interrupted : report(app, [ended], options);
  }
  const queues = await openQueuesOf(app, 'codes');
  try {
    await queues.addAudit(audit.sellerId, auditId, { promote: force });
  } finally {
    await queues.close();
  }
  const writes = audit.result === null ? '' : `; it writes ${safeLine(audit.result.path)}`;
  if (json) await printJson({ audit });
  else {
    await print(
      `audit ${auditId} · in the queue; a process with \`run\` or \`worker\` works on it\n`,
      `→ ${ownCommand()} audits show ${auditId}\n`,
      `→ ${resume}   (works on it here, or watches${writes})\n`,
    );
  }
  return EXIT.done;
}

const STOPPING = 'stopping; all answers are kept; to continue:';
const NOT_WATCHING = 'no longer watching; other processes continue; to watch again:';

const POLL_MS = 250;
/** The command fails after a longer outage of the database. */
const MAX_OUTAGE_MS = 60_000;

/** How a command works on an audit. */
interface Work {
  /** The command that continues it, for whoever interrupts this one; null: nobody can. */
  readonly resume: string | null;
  /** Attempts at a check that keeps failing, before it has failed for good. */
  readonly attempts?: number;
  /** Somebody reads the answer at the terminal: no alerts. */
  readonly isWatched?: boolean;
  /** Called after each piece. If it returns true, the work ends here. */
  readonly isEnough?: (outcome: JobOutcome) => boolean;
}

/**
 * Works on the audit, or watches if other processes work on it.
 * @returns the audit when it has ended, or `isEnough` said so; null when it was interrupted
 */
export async function workOrWatch(
  app: App,
  audit: AuditProgress,
  { resume, isEnough, ...how }: Work,
): Promise<AuditProgress | null> {
  const { signal } = app;
  const [closing, cutOff] = [new AbortController(), new AbortController()];
  closing.signal.addEventListener('abort', () =>
    setTimeout(() => cutOff.abort(), CLOSING_MS).unref(),
  );
  const state = { isWatching: false, isOver: false, hasFailed: false, error: undefined as unknown };
  const bar = auditBar(app, audit);
  const onOutcome = (outcome: JobOutcome): boolean => {
    state.isWatching = outcome.kind === 'later' && outcome.isBusy === true;
    return isEnough?.(outcome) === true;
  };
  const options = { ...how, closing: closing.signal, onOutcome, onWait: bar.wait };
  const ended = workOnAudit(app, audit, options, cutOff.signal)
    .catch((error: unknown) => Object.assign(state, { hasFailed: true, error }))
    .finally(() => (state.isOver = true));
  const onInterrupt = (): void => {
    bar.finish();
    if (resume !== null) {
      printNote(`${state.isWatching ? NOT_WATCHING : STOPPING}\n→ ${resume}\n`);
    }
    // A second Ctrl-C ends the process with this code.
    process.exitCode = EXIT.interrupted;
  };
  const poll = async (): Promise<{ readonly now: AuditProgress; readonly isLast: boolean }> => {
    const { isOver } = state;
    const now = await findAudit(app, audit.auditId, undefined);
    bar.show(now, state.isWatching);
    if (state.hasFailed && now.state === 'running') throw state.error;
    return { now, isLast: isOver || now.state !== 'running' };
  };
  signal.addEventListener('abort', onInterrupt, { once: true });
  try {
    for (let seenAt = performance.now(); ;) {
      try {
        const { now, isLast } = await poll();
        if (isLast) return now;
        seenAt = performance.now();
      } catch (error) {
        const isOutage = explainDatabaseError(error, '') !== null;
        if (!isOutage || performance.now() - seenAt > MAX_OUTAGE_MS) throw error;
      }
      const pause = sleep(POLL_MS, undefined, { signal });
      await (state.isOver ? pause : Promise.race([ended, pause]));
    }
  } catch (error) {
    if (signal.aborted) return null;
    if (resume !== null) printNote(`The audit is kept; to continue it:\n→ ${resume}\n`);
    throw error;
  } finally {
    bar.finish();
    closing.abort();
    await ended;
    signal.removeEventListener('abort', onInterrupt);
  }
}

function auditBar({ db }: App, audit: AuditProgress) {
  const { done, total } = phaseOf(audit, db.clock.now());
  const bar = new Progress(`audit ${audit.auditId}`, { total, from: done });
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
        bar.note('Another process works on this audit; this one only watches.');
        isWatchingShown = true;
      }
    },
    wait: (ms: number | null): void => bar.wait(ms),
    finish: () => bar.finish(),
  };
}

/**
 * Writes the result and prints the summary of an audit that has ended.
 * @param parts the audit, or that of each seller who was asked about a list
 */
export async function report(
  app: App,
  parts: readonly [AuditProgress, ...AuditProgress[]],
  { json = false, destination, failOn, item }: RunOptions,
): Promise<ExitCode> {
  const { db, signal } = app;
  const out = destination?.path ?? null;
  const isOnStdout = destination !== null && out === null;
  const look = isOnStdout ? stderrLook() : stdoutLook();
  // Also for a failed audit: it may have found some verdicts.
  if (destination !== null) await writeResult(app, parts, destination, signal);
  const shown: object[] = [];
  let text = '';
  for (const { auditId } of parts) {
    if (out !== null) await markResultWritten(db, auditId);
    const audit = await findAudit(app, auditId, undefined);
    const notes = await summaryNotes(db, audit);
    shown.push({ audit, ...notes });
    text += summaryLines(audit, notes, isOnStdout ? 'on stdout' : out, look);
  }
  if (json) await printJson(shown.length === 1 ? { ...shown[0], out } : { audits: shown, out });
  else if (isOnStdout) printNote(text);
  else await print(text);
  const exitCode = await exitCodeOf(db, parts, failOn);
  const isRefused = exitCode !== EXIT.failed && (await failsAny(db, parts, { failOn, item }));
  return isRefused ? EXIT.refused : exitCode;
}

async function exitCodeOf(
  db: App['db'],
  parts: readonly [AuditProgress, ...AuditProgress[]],
  failOn: FailOptions['failOn'],
): Promise<ExitCode> {
  if (parts.length === 1) return exitCodeOfAudit(parts[0], failOn);
  const results = (await readBestResults(db, parts)).filter(({ code }) => code !== null);
  const isProven = ({ verdict }: AuditResult): boolean => (verdict ?? 'unproven') !== 'unproven';
  return results.length > 0 && results.every(isProven) ? EXIT.done : EXIT.unproven;
}

/** True if a condition of `--fail-on` holds for any code. */
async function failsAny(
  db: App['db'],
  parts: readonly [AuditProgress, ...AuditProgress[]],
  options: FailOptions,
): Promise<boolean> {
  if ((options.failOn ?? []).length === 0) return false;
  const now = db.clock.now();
  const isOne = parts.length === 1;
  const results = isOne ? readAuditResults(db, parts[0].auditId) : await readBestResults(db, parts);
  for await (const result of results) {
    if (result.code !== null && failsOn(options, result, now)) return true;
  }
  return false;
}

/** Attempts at an audit that keeps failing: about twelve hours, with the delays. */
const ATTEMPTS = 80;
/** Backoff between attempts: doubles from the first delay to the longest. */
const FIRST_DELAY_MS = 5_000;
const MAX_DELAY_MS = 10 * 60_000;
/** Delay before the next attempt at an audit that another process works on. */
const BUSY_MS = 2_000;
/** Time for the last proofs after an interruption. */
const CLOSING_MS = 10_000;

interface WorkOptions extends Pick<Work, 'attempts' | 'isWatched'> {
  /** Ends the work in order: checks no more codes, but proves and records the answers received. */
  readonly closing: AbortSignal;
  /** Called when a request waits long for the budget. */
  readonly onWait: OnWait;
  /** Called after each piece. If it returns true, the work ends here. */
  readonly onOutcome: (outcome: JobOutcome) => boolean;
}

/**
 * Works on an audit in this process as a worker would, piece by piece, without the queue, until it has ended.
 * @param signal ends the work at once
 */
async function workOnAudit(
  app: App,
  { auditId, sellerId }: Pick<AuditProgress, 'auditId' | 'sellerId'>,
  { closing, onOutcome, onWait, attempts = ATTEMPTS, isWatched = false }: WorkOptions,
  signal: AbortSignal,
): Promise<void> {
  const { config, db } = app;
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (seller === undefined) {
    throw usageError(
      `audit ${auditId} belongs to the seller "${sellerId}", who is not configured here`,
      'configure the seller, then resume the audit',
    );
  }
  const wait = (ms: number): Promise<void> =>
    sleep(ms, undefined, { signal: closing }).catch(() => undefined);
  await app.withMarketplace(seller, { onWait }, async ({ marketplace, callCount }) => {
    const pace = paceOf(seller.requestsPerMinute);
    const deps: CheckDeps = { db, marketplace, sellerId, callCount, ...pace, closing };
    for (let failed = 0; !closing.aborted;) {
      const job = { auditId, isLastAttempt: failed + 1 >= attempts };
      const outcome = await performCheck(deps, job, signal);
      if (!isWatched) await sendAlerts(app, outcome);
      if (onOutcome(outcome)) return;
      if (outcome.kind === 'later') {
        failed = 0;
        const { delayMs, isBusy } = outcome;
        if (delayMs > 0) await wait(isBusy === true ? BUSY_MS : delayMs);
      } else if (outcome.kind === 'retry') {
        const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failed++);
        const notBeforeMs = (outcome.notBefore ?? 0) - db.clock.now();
        const waitMs = Math.max(delayMs, notBeforeMs);
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
async function sendAlerts(app: App, outcome: JobOutcome): Promise<void> {
  const alert = 'alert' in outcome ? (outcome.alert ?? null) : null;
  if (alert !== null) await recordAlerts(app, [alert]);
  await followUp(app, 'codes', alert?.kind === 'audit-finished');
}
