import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { adding } from '../../app/watches.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { note, print, printJson, stderrLook, stdoutLook } from '../console.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { Progress } from '../output/progress.js';
import { count, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';
import { AuditWork, openAuditQueues } from './audit-work.js';
import { accountProvenOf, exitCodeOf, summaryOf, verdictCounts } from './audit-view.js';
import { findAudit, type FailOptions } from './options.js';
import { type OutPlace, writeResult } from './result-file.js';

interface RunOptions extends FailOptions {
  readonly json: boolean;
  /** Leave the work to other processes. */
  readonly detach: boolean;
  /** Don't wait for chunks that a dead process holds or that were postponed; default: wait. */
  readonly afresh?: boolean;
  /** Place of the result; the store keeps it, so that `audits resume` writes it too. */
  readonly place: OutPlace | null;
}

/** Runs an audit to its end, then writes its result and prints a summary. */
export async function runAudit(
  app: App,
  auditId: bigint,
  options: RunOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { place } = options;
  if (place !== null && place.path !== null) {
    const { path, format } = place;
    await app.store.audits.setResultFile(auditId, { path: resolve(path), format });
  }
  const audit = await findAudit(app, auditId, undefined);
  const onStdout = place?.path === null ? ` --out - --format ${place.format}` : '';
  const resume = `${ownCommand()} audits resume ${auditId}${onStdout}`;
  const ended = audit.state === 'running' ? await work(app, audit, resume, options, signal) : audit;
  if (ended === 'interrupted') return EXIT.interrupted;
  if (options.detach && ended.state === 'running') return detached(ended, resume, options);
  return report(app, ended, options, signal);
}

/** Works on the audit, or watches other processes that do. */
async function work(
  app: App,
  audit: AuditProgress,
  resume: string,
  { detach, afresh }: RunOptions,
  signal: AbortSignal,
): Promise<AuditProgress | 'interrupted'> {
  if (detach) {
    await enqueue(app, audit, afresh === true);
    return audit;
  }
  const bar = new AuditBar();
  const doing = new AuditWork(app, audit);
  const interrupted = (): void => {
    bar.finish();
    note(`${doing.isOthers ? LEFT : STOPPING}\n→ ${resume}\n`);
    // For a second Ctrl-C, which ends the process at once.
    process.exitCode = EXIT.interrupted;
  };
  signal.addEventListener('abort', interrupted, { once: true });
  try {
    return await watch(app, audit, doing, bar, signal);
  } catch (error) {
    if (signal.aborted) return 'interrupted';
    note(`The audit is kept; to continue it:\n→ ${resume}\n`);
    throw error;
  } finally {
    bar.finish();
    await doing.stop();
    signal.removeEventListener('abort', interrupted);
  }
}

/** Puts the next chunks into the queue, for other processes. */
async function enqueue(app: App, audit: AuditProgress, afresh: boolean): Promise<void> {
  const { auditId, sellerId } = audit;
  const queues = await openAuditQueues(app);
  try {
    await enqueueNext(app.store, auditId, adding(queues, sellerId, { afresh }));
  } finally {
    await queues.close();
  }
}

const STOPPING = 'stopping; all answers are kept; to continue:';
const LEFT = 'no longer watching; other processes continue; to watch again:';

const POLL_MS = 250;
/** A longer outage of the database (ms) ends the command. */
const MAX_OUTAGE_MS = 60_000;

async function watch(
  app: App,
  { auditId }: AuditProgress,
  doing: AuditWork,
  bar: AuditBar,
  signal: AbortSignal,
): Promise<AuditProgress> {
  let seenAt = performance.now();
  for (;;) {
    try {
      const audit = await findAudit(app, auditId, undefined);
      bar.show(audit);
      if (audit.state !== 'running') return audit;
      doing.assertWorking();
      if (doing.isOthers) bar.others();
      seenAt = performance.now();
    } catch (error) {
      const isOutage = explainDatabaseError(error, '') !== null;
      if (!isOutage || performance.now() - seenAt > MAX_OUTAGE_MS) throw error;
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function detached(
  audit: AuditProgress,
  resume: string,
  { json }: RunOptions,
): Promise<ExitCode> {
  if (json) {
    await printJson({ audit });
    return EXIT.done;
  }
  const program = ownCommand();
  const writes = audit.result === null ? '' : `; it writes ${safeLine(audit.result.path)}`;
  await print(
    `audit ${audit.auditId} · in the queue; \`run\` or \`worker\` works on it, in this or another process\n`,
    `→ ${program} audits show ${audit.auditId}\n`,
    `→ ${resume}   (here, or to watch${writes})\n`,
  );
  return EXIT.done;
}

async function report(
  app: App,
  ended: AuditProgress,
  options: RunOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { json, place } = options;
  const { auditId } = ended;
  // Also for an audit that failed: the verdicts it found are useful.
  if (place !== null) await writeResult(app, auditId, place, signal);
  if (place !== null && place.path !== null) await app.store.audits.markResultWritten(auditId);
  const audit = place === null ? ended : await findAudit(app, auditId, undefined);
  const out = place?.path ?? null;
  if (json) {
    const unproven = await app.store.audits.unprovenCounts(auditId);
    const accountProven = await accountProvenOf(app.store, audit);
    await printJson({ audit, unproven, accountProven, out });
  } else if (place !== null && place.path === null) {
    note(await summaryOf(app, audit, place, stderrLook()));
  } else {
    await print(await summaryOf(app, audit, place, stdoutLook()));
  }
  return exitCodeOf(audit, options);
}

/** Shows the progress of an audit on stderr. */
class AuditBar {
  #bar: Progress | null = null;
  #problem: string | null = null;
  #othersNoted = false;

  show(audit: AuditProgress): void {
    const { auditId, codes, reused, pending, denied, problem } = audit;
    // Codes with a fresh verdict are not asked for.
    const [done, total] = [codes - reused - pending, codes - reused];
    this.#bar ??= new Progress({
      output: process.stderr,
      label: `audit ${auditId}`,
      total,
      from: done,
    });
    // Denied codes get their verdicts together, at the end of the second look.
    const isSecondLook = denied > 0 && pending === denied;
    const detail = [
      verdictCounts(audit),
      isSecondLook ? `${count(denied)} denied, second look` : '',
    ]
      .filter((part) => part !== '')
      .join(' · ');
    this.#bar.update(done, { total, detail, paused: problem !== null || isSecondLook });
    if (problem !== null && problem !== this.#problem) {
      this.#bar.note(`${isSecondLook ? 'second look' : 'paused'}: ${problem}`);
    }
    this.#problem = problem;
  }

  /** Says once that another process does the work. */
  others(): void {
    if (this.#othersNoted) return;
    this.#othersNoted = true;
    this.#bar?.note('Another process works on it; this one only watches.');
  }

  finish(): void {
    this.#bar?.finish();
    this.#bar = null;
  }
}
