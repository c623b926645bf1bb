/** Tells what a check found: the answer about each code, or the result of a list with a summary. */

import type { App } from '../../app.js';
import { markResultWritten } from '../../codes/audits-store.js';
import { readResults } from '../../codes/results-store.js';
import type { Answer, AuditResult } from '../../codes/result.js';
import type { AuditProgress } from '../../codes/types.js';
import { UserError } from '../../domain/user-error.js';
import { print, printJson, printNote, stderrLook, stdoutLook } from '../console.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { ownCommand } from '../own-command.js';
import {
  answerJson,
  answerLines,
  exitCodeOfAudit,
  summaryLines,
  summaryNotes,
} from './audit-view.js';
import { failsOn, findAudit, type FailOptions } from './options.js';
import { writeResult, type ResultDestination } from './result-file.js';

/** An audit, or the audits of all sellers who were asked about a list. */
type Audits = readonly [AuditProgress, ...AuditProgress[]];

interface TellOptions extends FailOptions {
  readonly json?: boolean | undefined;
}

/** Prints the answer about each code. @param namesSeller whether it says who sold the code */
export async function tellAnswers(
  { db }: App,
  audits: Audits,
  options: TellOptions,
  namesSeller: boolean,
): Promise<ExitCode> {
  const problem = audits.find(({ state }) => state === 'failed')?.problem ?? null;
  if (audits.every(({ state }) => state === 'failed')) {
    throw new UserError(
      problem ?? 'the check has failed',
      `check the API key and MARKETPLACE_URL; \`${ownCommand()} doctor\` tests both, and no code got a verdict`,
      'FAILED',
    );
  }
  const now = new Date();
  const answers: (Answer & Pick<AuditResult, 'seller'>)[] = [];
  for await (const result of readResults(db, audits)) answers.push(answerOf(result, problem));
  const { json = false, item } = options;
  if (json) {
    await printJson(
      answers.map((answer) => {
        const { seller } = answer;
        return { ...answerJson(answer, now, item), ...(namesSeller ? { seller } : {}) };
      }),
    );
  } else {
    const look = stdoutLook();
    const lines = answers.map((answer) => {
      const seller = namesSeller ? answer.seller : null;
      return answerLines({ ...answer, seller }, now, look, item);
    });
    await print(lines.join('\n'));
  }
  if (answers.some((answer) => failsOn(options, answer, now.getTime()))) return EXIT.refused;
  return answers.some(({ verdict }) => verdict === 'unproven') ? EXIT.unproven : EXIT.done;
}

/** @param problem why a code may have never been asked for */
function answerOf(result: AuditResult, problem: string | null) {
  const { code, verdict, reason } = result;
  const told = { ...result, code: code ?? '' };
  if (verdict !== 'pending' && verdict !== 'rejected') return { ...told, verdict };
  return {
    ...told,
    verdict: 'unproven' as const,
    reason: reason || problem || 'it was not checked',
  };
}

/** Writes the result of a check that has ended, and prints a summary of each audit. */
export async function tellResult(
  app: App,
  audits: Audits,
  options: TellOptions & { readonly destination: ResultDestination | null },
): Promise<ExitCode> {
  const { db, signal } = app;
  const { json = false, destination } = options;
  const out = destination?.path ?? null;
  const isOnStdout = destination !== null && out === null;
  const look = isOnStdout ? stderrLook() : stdoutLook();
  // Also for a failed audit: it may have found some verdicts.
  if (destination !== null) await writeResult(app, audits, destination, signal);
  const shown: object[] = [];
  let text = '';
  for (const { auditId } of audits) {
    if (out !== null) await markResultWritten(db, auditId);
    const audit = await findAudit(app, auditId, undefined);
    const notes = await summaryNotes(db, audit);
    shown.push({ audit, ...notes });
    text += summaryLines(audit, notes, isOnStdout ? 'on stdout' : out, look);
  }
  if (json) await printJson(shown.length === 1 ? { ...shown[0], out } : { audits: shown, out });
  else if (isOnStdout) printNote(text);
  else await print(text);
  return exitCodeOf(app, audits, options);
}

async function exitCodeOf({ db }: App, audits: Audits, options: FailOptions): Promise<ExitCode> {
  const [first, ...others] = audits;
  const { failOn = [] } = options;
  let [codes, proven, fails] = [0, 0, false];
  if (others.length > 0 || failOn.length > 0) {
    const now = db.clock.now();
    for await (const result of readResults(db, audits)) {
      const { verdict } = result;
      if (verdict === 'rejected') continue;
      codes++;
      if (verdict !== 'unproven' && verdict !== 'pending') proven++;
      fails ||= failsOn(options, result, now);
    }
  }
  const isProven = codes > 0 && proven === codes;
  const ofAll = isProven ? EXIT.done : EXIT.unproven;
  const exitCode = others.length > 0 ? ofAll : exitCodeOfAudit(first, options.failOn);
  return fails && exitCode !== EXIT.failed ? EXIT.refused : exitCode;
}
