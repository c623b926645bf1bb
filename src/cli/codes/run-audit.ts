import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { chunkEnqueuer } from '../../service/watches.js';
import { enqueueNext, performAuditChunk, SECOND_LOOK } from '../../jobs/codes/perform-chunk.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { printNote, print, printJson, stderrLook, stdoutLook } from '../console.js';
import { openQueuesOf } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { count, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';
import { exitCodeOfAudit, summaryNotes, summaryLines, verdictCounts } from './audit-view.js';
import { failsOn, type FailOptions } from './conditions.js';
import { findAudit } from './options.js';
import { type ResultDestination, writeResult } from './result-file.js';
import { alertJobs, alertsAfter } from '../../service/alerts/alerts.js';
import { paceOf } from '../../jobs/codes/pace.js';
import type { AuditDeps } from '../../jobs/codes/validate-chunk.js';
import type { JobOutcome } from '../../jobs/types.js';
import { setResultFile, markResultWritten, getAudit } from '../../store/audits/progress.js';
import { readAuditResults } from '../../store/audits/results.js';
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
  if (audit.state !== 'running') return report(app, audit, options);
  if (!detach) {
    const ended = await workOrWatch(app, audit, resume);
    return ended === null ? EXIT.interrupted : report(app, ended, options);
  }
  const queues = await openQueuesOf(app, 'codes');
  try {
    const addChunk = chunkEnqueuer(queues, audit.sellerId, { force });
    await enqueueNext(app.db, auditId, addChunk);
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

/**
 * Works on the audit, or watches if other processes work on it.
 * @param resume the command that continues the audit
 * @returns null when it was interrupted
 */
async function workOrWatch(
  app: App,
  audit: AuditProgress,
  resume: string,
): Promise<AuditProgress | null> {
  const { signal } = app;
  const [closing, cutOff] = [new AbortController(), new AbortController()];
  closing.signal.addEventListener('abort', () =>
    setTimeout(() => cutOff.abort(), CLOSING_MS).unref(),
  );
  const state = { isWatching: false, hasFailed: false, error: undefined as unknown };
  const bar = auditBar(audit);
  const onBusy = (isBusy: boolean): void => {
    state.isWatching = isBusy;
  };
  const how = { closing: closing.signal, onBusy };
  const ended = workOnAudit(app, audit, how, cutOff.signal).catch((error: unknown) => {
    Object.assign(state, { hasFailed: true, error });
  });
  const onInterrupt = (): void => {
    bar.finish();
    printNote(`${state.isWatching ? NOT_WATCHING : STOPPING}\n→ ${resume}\n`);
    // A second Ctrl-C ends the process with this code.
    process.exitCode = EXIT.interrupted;
  };
  const poll = async (): Promise<AuditProgress> => {
    const now = await findAudit(app, audit.auditId, undefined);
    bar.show(now, state.isWatching);
    if (state.hasFailed && now.state === 'running') throw state.error;
    return now;
  };
  signal.addEventListener('abort', onInterrupt, { once: true });
  try {
    for (let seenAt = performance.now(); ;) {
      try {
        const now = await poll();
        if (now.state !== 'running') return now;
        seenAt = performance.now();
      } catch (error) {
        const isOutage = explainDatabaseError(error, '') !== null;
        if (!isOutage || performance.now() - seenAt > MAX_OUTAGE_MS) throw error;
      }
      await sleep(POLL_MS, undefined, { signal });
    }
  } catch (error) {
    if (signal.aborted) return null;
    printNote(`The audit is kept; to continue it:\n→ ${resume}\n`);
    throw error;
  } finally {
    bar.finish();
    closing.abort();
    await ended;
    signal.removeEventListener('abort', onInterrupt);
  }
}

function auditBar(audit: AuditProgress) {
  // Reused verdicts don't count as work. Denied codes count as done: they only wait for the second look.
  const doneOf = ({ codes, reused, pending, denied }: AuditProgress): number =>
    codes - reused - pending + denied;
  const total = audit.codes - audit.reused;
  const bar = new Progress(`audit ${audit.auditId}`, { total, from: doneOf(audit) });
  let shownProblem: string | null = null;
  let isWatchingShown = false;
  return {
    show(now: AuditProgress, isWatching: boolean): void {
      const { denied, pending, problem } = now;
      // All denied codes get their verdicts at the end of the second look.
      const isSecondLook = denied > 0 && pending === denied;
      const parts = [
        verdictCounts(now),
        isSecondLook ? `${count(denied)} denied, second look` : '',
      ];
      const detail = parts.filter((part) => part !== '').join(' · ');
      bar.update(doneOf(now), { detail, paused: problem !== null || isSecondLook });
      if (problem !== null && problem !== shownProblem) {
        bar.note(`${isSecondLook ? 'second look' : 'paused'}: ${problem}`);
      }
      shownProblem = problem;
      if (isWatching && !isWatchingShown && now.state === 'running') {
        bar.note('Another process works on this audit; this one only watches.');
        isWatchingShown = true;
      }
    },
    finish: () => bar.finish(),
  };
}

/** Writes the result and prints the summary of an audit that has ended. */
async function report(
  app: App,
  ended: AuditProgress,
  { json = false, destination, failOn, item }: RunOptions,
): Promise<ExitCode> {
  const { auditId } = ended;
  const out = destination?.path ?? null;
  // Also for a failed audit: it may have found some verdicts.
  if (destination !== null) await writeResult(app, auditId, destination, app.signal);
  if (out !== null) await markResultWritten(app.db, auditId);
  const audit = destination === null ? ended : await findAudit(app, auditId, undefined);
  const notes = await summaryNotes(app.db, audit);
  if (json) await printJson({ audit, ...notes, out });
  else if (destination !== null && out === null) {
    printNote(summaryLines(audit, notes, 'on stdout', stderrLook()));
  } else await print(summaryLines(audit, notes, out, stdoutLook()));
  const exitCode = exitCodeOfAudit(audit, failOn);
  return exitCode !== EXIT.failed && (await isRefused(app, audit, { failOn, item }))
    ? EXIT.refused
    : exitCode;
}

/** True if a condition of `--fail-on` holds for any code of the audit. */
async function isRefused(
  { db }: App,
  { auditId, invalid, unproven, pending }: AuditProgress,
  options: FailOptions,
): Promise<boolean> {
  const { failOn = [] } = options;
  if (failOn.includes('invalid') && invalid > 0) return true;
  if (failOn.includes('unproven') && unproven + pending > 0) return true;
  if (!failOn.includes('expired') && !failOn.includes('other-item')) return false;
  const now = Date.now();
  for await (const result of readAuditResults(db, auditId)) {
    if (result.code !== null && failsOn(options, result, now)) return true;
  }
  return false;
}

/** Attempts at a chunk that keeps failing: about twelve hours, with the delays. */
const ATTEMPTS = 80;
/** Backoff between attempts: doubles from the first delay to the longest. */
const FIRST_DELAY_MS = 5_000;
const MAX_DELAY_MS = 10 * 60_000;
/** Delay before the next attempt at a chunk that another process works on. */
const BUSY_MS = 2_000;
/** Time for the last proofs after an interruption. */
const CLOSING_MS = 10_000;

interface WaitingChunk {
  readonly chunk: number;
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  /** Number of failed attempts. */
  readonly failed: number;
}

interface WorkOptions extends Pick<AuditDeps, 'lookAfterMs' | 'onVerdict'> {
  /** Ends the work in order: checks no more codes, but proves and records the answers received. */
  readonly closing: AbortSignal;
  /** Tries each chunk once, and sends no alerts. Default: works until the audit has ended. */
  readonly once?: boolean;
  /** Called after each attempt. `isBusy` is true if another process works on the chunk. */
  readonly onBusy?: (isBusy: boolean) => void;
}

/** Works on an audit in this process, chunk by chunk, without the queue. @param signal ends the work at once */
export async function workOnAudit(
  app: App,
  { auditId, sellerId }: Pick<AuditProgress, 'auditId' | 'sellerId'>,
  { closing, once = false, onBusy, ...how }: WorkOptions,
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
  const waiting = new Map<number, WaitingChunk>();
  const add = (waitingChunk: WaitingChunk): void => {
    if (!waiting.has(waitingChunk.chunk)) waiting.set(waitingChunk.chunk, waitingChunk);
  };
  const waitUntil = (time: number): Promise<void> =>
    sleep(Math.max(0, time - Date.now()), undefined, { signal: closing }).catch(() => undefined);

  await app.withMarketplace(seller, {}, async ({ marketplace, callCount }) => {
    const deps: AuditDeps = {
      db,
      marketplace,
      sellerId,
      callCount,
      ...paceOf(seller.requestsPerMinute),
      ...how,
      batchStates: new Map(),
      closing,
      enqueueChunk: (_, chunk) => {
        add({ chunk, notBefore: 0, failed: 0 });
        return Promise.resolve();
      },
    };
    for (let attempts = 0; !closing.aborted; attempts++) {
      const [next] = [...waiting.values()].sort((a, b) => a.notBefore - b.notBefore);
      if (next === undefined) {
        if ((once && attempts > 0) || !(await addNextChunk(deps))) return;
        if (waiting.size === 0) await waitUntil(Date.now() + BUSY_MS);
        continue;
      }
      await waitUntil(next.notBefore);
      if (closing.aborted) return;
      const { chunk, failed } = next;
      waiting.delete(chunk);
      const job = { auditId, chunk, isLastAttempt: once || failed + 1 >= ATTEMPTS };
      const outcome = await performAuditChunk(deps, job, signal);
      const now = Date.now();
      const isBusy = outcome.kind === 'later' && outcome.isBusy === true;
      onBusy?.(isBusy);
      const isWaiting = isBusy || (outcome.kind === 'later' && chunk === SECOND_LOOK);
      if (once && !isWaiting) continue;
      if (outcome.kind === 'later') {
        add({ chunk, notBefore: now + (isBusy ? BUSY_MS : outcome.delayMs), failed });
      } else if (outcome.kind === 'retry') {
        const delayMs = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** failed);
        const notBefore = Math.max(now + delayMs, outcome.notBefore ?? 0);
        add({ chunk, notBefore, failed: failed + 1 });
      }
      if (!once) await sendAlerts(app, outcome);
    }
  });

  /** Adds the next chunk, if there is one. @returns false when the audit has ended */
  async function addNextChunk({ enqueueChunk }: AuditDeps): Promise<boolean> {
    try {
      await enqueueNext(db, auditId, enqueueChunk);
      return waiting.size > 0 || (await getAudit(db, auditId))?.state === 'running';
    } catch (error) {
      if (explainDatabaseError(error, '') === null) throw error;
      return true;
    }
  }
}

/** Enqueues the alerts about an outcome, as a worker does. */
async function sendAlerts(app: App, outcome: JobOutcome): Promise<void> {
  const alerts = alertsAfter(outcome, { attempt: ATTEMPTS, attempts: ATTEMPTS });
  const jobs = alerts.flatMap((alert) => alertJobs(app.config, alert));
  if (jobs.length === 0) return;
  const queues = await openQueuesOf(app, 'codes');
  try {
    for (const { id, task } of jobs) await queues.add('alerts', task, id);
  } finally {
    await queues.close();
  }
}
