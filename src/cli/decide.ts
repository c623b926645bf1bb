import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import type { App } from '../app.js';
import type { Decision } from '../domain/removals.js';
import { DecisionRefused, decideRemovals, type DecisionReport } from '../jobs/decide-removals.js';
import { namesOf } from '../jobs/remedies.js';
import { print, printJson, stdoutLook } from './console.js';
import { CommandError } from './errors.js';
import { execute, withApp } from './execute.js';
import { EXIT, type ExitCode } from './exit-codes.js';
import { moment } from '../domain/moment.js';
import { runNumber } from './options.js';
import { paint, plural, safeLine, type Look } from './output/index.js';

/** A command that decides about what a run held back. */
export interface DecisionCommand {
  readonly name: 'approve' | 'reject';
  readonly decision: Decision;
  readonly summary: string;
  readonly description: string;
}

/** Adds `approve RUN` or `reject RUN`. */
export function addDecision(program: Command, command: DecisionCommand): void {
  const { name, decision } = command;
  program
    .command(name)
    .summary(command.summary)
    .description(command.description)
    .argument('<run>', 'the number of the run that was held', runNumber)
    .option('--json', 'print JSON for scripts')
    .addHelpText(
      'after',
      `\nExample:\n  $ seller-mirror ${name} 42\n\nExit codes: 0 done, or decided so before; 1 there is nothing to decide, or a run works for the seller; 2 usage`,
    )
    .action((runId: bigint, { json }: { readonly json?: true }) =>
      execute((signal) =>
        withApp(name, 'store', signal, (app) => decide(app, name, runId, decision, json === true)),
      ),
    );
}

async function decide(
  { store }: App,
  name: string,
  runId: bigint,
  decision: Decision,
  json: boolean,
): Promise<ExitCode> {
  const holder = `${name} (process ${process.pid} on ${hostname()})`;
  try {
    const report = await decideRemovals({ store, holder, by: whoDecides() }, runId, decision);
    if (json) await printJson(report);
    else await print(decisionLines(report, stdoutLook()));
    return EXIT.done;
  } catch (error) {
    if (error instanceof DecisionRefused) throw new CommandError(error.message, error.remedy);
    throw error;
  }
}

/** The user of this system, and its name. */
function whoDecides(): string {
  return `${userName()} on ${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user that the system has no name for.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** A decision as lines for a person. */
export function decisionLines(report: DecisionReport, look: Look): string {
  const { runId, sellerId, decision, already, decidedAt, decidedBy } = report;
  const head = `${paint('green', '✓', look)} ${safeLine(sellerId)} · run ${runId} `;
  if (already) {
    const when = decidedAt === null ? '' : ` at ${moment(decidedAt)}`;
    return `${head}was ${decision} already${when} by ${safeLine(decidedBy ?? 'somebody')}; nothing was done\n`;
  }
  const lines = decision === 'approved' ? approvedLines(report) : rejectedLines(report);
  return lines.map((line, n) => `${n === 0 ? head : '  '}${safeLine(line)}\n`).join('');
}

function rejectedLines({ items }: DecisionReport): string[] {
  return [
    `rejected: ${plural(items, 'item')} stay missing`,
    'later runs are held only for further items; those that are found again become live',
  ];
}

function approvedLines({ items, removed, left, approvalRunId }: DecisionReport): string[] {
  const lines = [`approved: ${removed} of ${plural(items, 'item')} removed (run ${approvalRunId})`];
  if (left === null) return lines;
  if (left.found.length > 0) {
    const names = namesOf(left.found.slice(0, 3), left.found.length);
    lines.push(`${left.found.length} found again since, and left as they are: ${names}`);
  }
  if (left.removed > 0) lines.push(`${left.removed} removed before by a later run`);
  if (left.unproven > 0) {
    lines.push(
      `${left.unproven} stay missing, since it is not proven that they are gone: the next runs remove those that the marketplace denies, at most LOOKUPS_PER_RUN each, and are not held for them`,
    );
  }
  return lines;
}
