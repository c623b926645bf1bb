import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { adding } from '../../app/watches.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { note, print, printJson, stderrLook, stdoutLook } from '../console.js';
import { queuesOf } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { count, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';
import { workOnAudit } from './audit-work.js';
import { exitCodeOf, notesOn, summaryLines, verdictCounts } from './audit-view.js';
import { findAudit, type FailOptions } from './options.js';
import { type OutPlace, writeResult } from './result-file.js';

interface RunOptions extends FailOptions {
  readonly json?: boolean;
  /** Leave the work to other processes. */
  readonly detach?: boolean;
  /** Don't wait for chunks that a dead process holds or that were postponed; default: wait. */
  readonly afresh?: boolean;
  /** Place of the result; the store keeps it, so that `audits resume` writes it too. */
  readonly place: OutPlace | null;
}

export async function runAudit(
  app: App,
  auditId: bigint,
  options: RunOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { place, detach = false, json = false, afresh = false } = options;
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
    const addChunk = adding(queues, audit.sellerId, { afresh });
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
  const closing = new AbortController();
  const state = { isOthers: false, hasFailed: false, error: undefined as unknown };
  const bar = auditBar(audit);
  const onBusy = (isBusy: boolean): void => {
    state.isOthers = isBusy;
  };
  const ended = workOnAudit(app, audit, closing.signal, onBusy).catch((error: unknown) => {
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
  const label = `audit ${audit.auditId}`;
  const bar = new Progress({ output: process.stderr, label, total, from: doneOf(audit) });
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
  else if (place === null) await print(summaryLines(audit, notes, null, stdoutLook()));
  else if (out !== null) await print(summaryLines(audit, notes, out, stdoutLook()));
  else note(summaryLines(audit, notes, 'on stdout', stderrLook()));
  return exitCodeOf(audit, failOn);
}
