import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { chunkEnqueuer } from '../../app/watches.js';
import { enqueueNext, performAuditChunk, SECOND_LOOK } from '../../jobs/codes/perform-chunk.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { note, print, printJson, stderrLook, stdoutLook } from '../console.js';
import { queuesOf } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { count, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';
import { exitCodeOfAudit, notesOn, summaryLines, verdictCounts } from './audit-view.js';
import { findAudit, type FailOptions } from './options.js';
import { type ResultPlace, writeResult } from './result-file.js';
import { alertJobs, alertsAfter } from '../../jobs/alerts.js';
import { paceOf } from '../../jobs/codes/pace.js';
import type { AuditDeps } from '../../jobs/codes/work-on-chunk.js';
import type { JobOutcome } from '../../jobs/types.js';
import { usageError } from '../errors.js';

interface RunOptions extends FailOptions {
  readonly json?: boolean;
  /** Leave the work to other processes. */
  readonly detach?: boolean;
  /** Don't wait for chunks that a dead process holds or that were postponed; default: wait. */
  readonly force?: boolean;
  /** Place of the result; the store keeps it, so that `audits resume` writes it too. */
  readonly place: ResultPlace | null;
}

export async function runAudit(
  app: App,
  auditId: bigint,
  options: RunOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { place, detach = false, json = false, force = false } = options;
  if (place !== null && place.path !== null) {
    await app.store.audits.setResultFile(auditId, { ...place, path: resolve(place.path) });
  }
  const audit = await findAudit(app, auditId, undefined);
  const commas = place?.decimalComma === true ? ' --decimal-comma' : '';
  const onStdout = place?.path === null ? ` --out - --format ${place.format}${commas}` : '';
  const resume = `${ownCommand()} audits resume ${auditId}${onStdout}`;
  if (audit.state !== 'running') return report(app, audit, options, signal);
  if (!detach) {
    const ended = await work(app, audit, resume, signal);
    return ended === null ? EXIT.interrupted : report(app, ended, options, signal);
  }
  const queues = await queuesOf(app, 'codes');
  try {
    const addChunk = chunkEnqueuer(queues, audit.sellerId, { force });
    await enqueueNext(app.store, auditId, addChunk);
  } finally {
    await queues.close();
  }
  const writes = audit.result === null ? '' : `; it writes ${safeLine(audit.result.path)}`;
  if (json) await printJson({ audit });
  else {
    await print(
      `audit ${auditId} · in the queue; \`run\` or \`worker\` works on it, in this or another process\n`,
      `→ ${ownCommand()} audits show ${auditId}\n`,
      `→ ${resume}   (here, or to watch${writes})\n`,
    );
  }
  return EXIT.done;
}

const STOPPING = 'stopping; all answers are kept; to continue:';
const LEFT = 'no longer watching; other processes continue; to watch again:';

const POLL_MS = 250;
/** A longer outage of the database (ms) ends the command. */
const MAX_OUTAGE_MS = 60_000;

/** Works on the audit, or watches other processes that do. @returns null when it is interrupted */
async function work(
  app: App,
  audit: AuditProgress,
  resume: string,
  signal: AbortSignal,
): Promise<AuditProgress | null> {
  const [closing, cut] = [new AbortController(), new AbortController()];
  closing.signal.addEventListener('abort', () => setTimeout(() => cut.abort(), CLOSING_MS).unref());
  const state = { isOthers: false, hasFailed: false, error: undefined as unknown };
  const bar = auditBar(audit);
  const onBusy = (isBusy: boolean): void => {
    state.isOthers = isBusy;
  };
  const working = { closing: closing.signal, onBusy };
  const ended = workOnAudit(app, audit, working, cut.signal).catch((error: unknown) => {
    Object.assign(state, { hasFailed: true, error });
  });
  const interrupted = (): void => {
    bar.finish();
    note(`${state.isOthers ? LEFT : STOPPING}\n→ ${resume}\n`);
    // For a second Ctrl-C, which ends the process at once.
    process.exitCode = EXIT.interrupted;
  };
  const look = async (): Promise<AuditProgress> => {
    const now = await findAudit(app, audit.auditId, undefined);
    bar.show(now, state.isOthers);
    if (state.hasFailed && now.state === 'running') throw state.error;
    return now;
  };
  signal.addEventListener('abort', interrupted, { once: true });
  try {
    for (let seenAt = performance.now(); ;) {
      try {
        const now = await look();
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
    note(`The audit is kept; to continue it:\n→ ${resume}\n`);
    throw error;
  } finally {
    bar.finish();
    closing.abort();
    await ended;
    signal.removeEventListener('abort', interrupted);
  }
}

function auditBar(audit: AuditProgress) {
  // Codes with a fresh verdict are not asked for; denied ones were, and wait for the second look.
  const doneOf = ({ codes, reused, pending, denied }: AuditProgress): number =>
    codes - reused - pending + denied;
  const total = audit.codes - audit.reused;
  const bar = new Progress(`audit ${audit.auditId}`, { total, from: doneOf(audit) });
  let noted: string | null = null;
  let isOthersNoted = false;
  return {
    show(now: AuditProgress, isOthers: boolean): void {
      const { denied, pending, problem } = now;
      // Denied codes get their verdicts together, at the end of the second look.
      const isSecondLook = denied > 0 && pending === denied;
      const parts = [
        verdictCounts(now),
        isSecondLook ? `${count(denied)} denied, second look` : '',
      ];
      const detail = parts.filter((part) => part !== '').join(' · ');
      bar.update(doneOf(now), { detail, paused: problem !== null || isSecondLook });
      if (problem !== null && problem !== noted) {
        bar.note(`${isSecondLook ? 'second look' : 'paused'}: ${problem}`);
      }
      noted = problem;
      if (isOthers && !isOthersNoted && now.state === 'running') {
        bar.note('Another process works on it; this one only watches.');
        isOthersNoted = true;
      }
    },
    finish: () => bar.finish(),
  };
}

async function report(
  app: App,
  ended: AuditProgress,
  { json = false, place, failOn }: RunOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { auditId } = ended;
  const out = place?.path ?? null;
  // Also for an audit that failed: the verdicts it found are useful.
  if (place !== null) await writeResult(app, auditId, place, signal);
  if (out !== null) await app.store.audits.markResultWritten(auditId);
  const audit = place === null ? ended : await findAudit(app, auditId, undefined);
  const notes = await notesOn(app.store, audit);
  if (json) await printJson({ audit, ...notes, out });
  else if (place !== null && out === null) {
    note(summaryLines(audit, notes, 'on stdout', stderrLook()));
  } else await print(summaryLines(audit, notes, out, stdoutLook()));
  return exitCodeOfAudit(audit, failOn);
}

/** Attempts at a chunk that fails, such as while the key is refused: about twelve hours with the pauses. */
const ATTEMPTS = 80;
/** Pauses between them; each is twice the one before. */
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 10 * 60_000;
/** Pause before a chunk is tried again that another process works on. */
const BUSY_MS = 2_000;
/** Time for the last proofs when the work is stopped (ms). */
const CLOSING_MS = 10_000;

interface WaitingChunk {
  readonly chunk: number;
  /** Milliseconds since 1970. */
  readonly notBefore: number;
  /** Attempts that failed. */
  readonly failed: number;
}

interface Working extends Pick<AuditDeps, 'lookAfterMs' | 'onVerdict'> {
  /** Ends the work: no further code is asked for; answers are proven and recorded. */
  readonly closing: AbortSignal;
  /** Each code has one chance, and nobody is alerted. Default: the work goes on until the audit has ended. */
  readonly once?: boolean;
  /** Told after each attempt whether another process works on the chunk. */
  readonly onBusy?: (isBusy: boolean) => void;
}

/** Works on an audit in this process, chunk by chunk, without a queue. @param signal cuts the work off */
export async function workOnAudit(
  app: App,
  { auditId, sellerId }: Pick<AuditProgress, 'auditId' | 'sellerId'>,
  { closing, once = false, onBusy, ...how }: Working,
  signal: AbortSignal,
): Promise<void> {
  const { config, store } = app;
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (seller === undefined) {
    throw usageError(
      `audit ${auditId} is of the seller "${sellerId}", who is not configured here`,
      'configure the seller, then resume the audit',
    );
  }
  const waiting = new Map<number, WaitingChunk>();
  const add = (one: WaitingChunk): void => {
    if (!waiting.has(one.chunk)) waiting.set(one.chunk, one);
  };
  const until = (moment: number): Promise<void> =>
    sleep(Math.max(0, moment - Date.now()), undefined, { signal: closing }).catch(() => undefined);

  await app.withJobs(seller, {}, async ({ marketplace, callCount }) => {
    const deps: AuditDeps = {
      store,
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
        if ((once && attempts > 0) || !(await isLeft(deps))) return;
        if (waiting.size === 0) await until(Date.now() + BUSY_MS);
        continue;
      }
      await until(next.notBefore);
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
        const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failed);
        const notBefore = Math.max(now + pauseMs, outcome.notBefore ?? 0);
        add({ chunk, notBefore, failed: failed + 1 });
      }
      if (!once) await sendAlerts(app, outcome);
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
    for (const { id, task } of jobs) await queues.add('alerts', task, id);
  } finally {
    await queues.close();
  }
}
