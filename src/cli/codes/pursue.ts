import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { App } from '../../app.js';
import { adding } from '../../app/watches.js';
import { enqueueNext } from '../../jobs/codes/perform-chunk.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { explainDatabaseError } from '../../store/errors.js';
import { print, printJson, stderrLook, stdoutLook, note } from '../console.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { safeLine } from '../output/index.js';
import { ownCommand } from '../own-command.js';
import { AuditBar } from './audit-progress.js';
import { AuditWork, openAuditQueues } from './audit-work.js';
import { findAudit } from './find-audit.js';
import type { FailOptions } from './options.js';
import type { OutPlace } from './out-place.js';
import { accountProvenOf, exitCodeOf, summaryOf } from './summary.js';
import { writeResult } from './write-result.js';

export interface PursueOptions extends FailOptions {
  readonly json: boolean;
  /** Leave the work to other processes. */
  readonly detach: boolean;
  /** Wait neither for what a process held that is gone, nor for what was put off; default: wait. */
  readonly afresh?: boolean;
  /** Of the result; a file is remembered, so that whoever resumes the audit writes it. */
  readonly place: OutPlace | null;
}

/** Sees an audit to its end, then writes its result and tells what came of it. */
export async function pursue(
  app: App,
  auditId: bigint,
  options: PursueOptions,
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
  return conclude(app, ended, options, signal);
}

/** Works on the audit, or watches others who do. */
async function work(
  app: App,
  audit: AuditProgress,
  resume: string,
  { detach, afresh }: PursueOptions,
  signal: AbortSignal,
): Promise<AuditProgress | 'interrupted'> {
  if (detach) {
    const queues = await openAuditQueues(app);
    try {
      await enqueueNext(
        app.store,
        audit.auditId,
        adding(queues, audit.sellerId, { afresh: afresh ?? false }),
      );
    } finally {
      await queues.close();
    }
    return audit;
  }
  const bar = new AuditBar();
  const doing = new AuditWork(app, audit);
  const interrupted = (): void => {
    bar.finish();
    note(`${doing.isOthers ? LEFT : STOPPING}\n→ ${resume}\n`);
    // Should it end the hard way, at the second Ctrl-C.
    process.exitCode = EXIT.interrupted;
  };
  signal.addEventListener('abort', interrupted, { once: true });
  try {
    return await watch(app, audit, doing, bar, signal);
  } catch (error) {
    if (signal.aborted) return 'interrupted';
    note(`The audit is kept; this goes on with it:\n→ ${resume}\n`);
    throw error;
  } finally {
    bar.finish();
    await doing.stop();
    signal.removeEventListener('abort', interrupted);
  }
}

const STOPPING = 'stopping; what was answered is kept, and this goes on:';
const LEFT = 'no longer watching; others go on with it, and this watches again:';

const POLL_MS = 250;
/** An outage of the database may take so long, or the watch is over. */
const PATIENCE_MS = 60_000;

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
      if (!isOutage || performance.now() - seenAt > PATIENCE_MS) throw error;
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}

async function detached(
  audit: AuditProgress,
  resume: string,
  { json }: PursueOptions,
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

async function conclude(
  app: App,
  ended: AuditProgress,
  options: PursueOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const { json, place } = options;
  const { auditId } = ended;
  // Of an audit that failed too: what it found is worth having.
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
