import { hostname, userInfo } from 'node:os';
import type { Command } from 'commander';
import type { App } from '../../app.js';
import { moment } from '../../domain/moment.js';
import type { Decision } from '../../domain/removals.js';
import {
  DecisionRefused,
  decideRemovals,
  type DecisionReport,
} from '../../jobs/decide-removals.js';
import { namesOf } from '../../jobs/problem.js';
import { page, print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  positiveInteger,
  runNumber,
  withCommonOptions,
  withTableOptions,
  type CommonOptions,
  type TableOptions,
} from '../options.js';
import { paint, plural, safeLine, type Look } from '../output/index.js';
import { runDetails, runsTable, shortened } from '../run-view.js';

interface RunsOptions extends CommonOptions, TableOptions {
  readonly limit: number;
}

const DEFAULT_LIMIT = 20;

/** `runs [ID]`, `runs show|approve|reject ID`: what runs did, and what to do about held ones. */
export function addRuns(program: Command): void {
  const runs = program
    .command('runs')
    .description(
      'Lists the newest runs, or shows one whole: figures, warnings, what went wrong. `approve` and `reject` decide about a run that the removal guard held.',
    )
    .argument('[id]', 'a run’s number: the same as `runs show ID`', runNumber)
    .option('--limit <n>', 'how many to list', positiveInteger, DEFAULT_LIMIT)
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror runs --limit 5\n  $ seller-mirror runs show 42\n  $ seller-mirror runs approve 42',
    );
  withTableOptions(withCommonOptions(runs, { seller: true })).action(
    (id: bigint | undefined, options: RunsOptions) =>
      execute((signal) =>
        withApp('runs', 'store', signal, (app) =>
          id === undefined ? list(app, options) : show(app, id, options),
        ),
      ),
  );
  addShow(runs);
  addDecision(runs, {
    name: 'approve',
    decision: 'approved',
    summary: 'remove what a held run held back',
    description:
      'Removes the items that a run proved to be gone and that the removal guard held back. Items that were found again since are left. The marketplace is not asked; history is kept, and an item that returns is restored.',
  });
  addDecision(runs, {
    name: 'reject',
    decision: 'rejected',
    summary: 'keep what a held run held back',
    description:
      'Keeps the items that the removal guard held back: they stay missing until they are found again, and later runs are held only for further ones. `runs approve` can take it back.',
  });
}

async function list(app: App, options: RunsOptions): Promise<ExitCode> {
  const { seller, limit, json, vertical } = options;
  const runs = await app.store.runs.list({
    limit,
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  });
  if (json === true) await printJson(runs);
  else if (runs.length > 0) await page([runsTable(runs, stdoutLook(), vertical)], options);
  else await print(`There is no run yet${seller === undefined ? '' : ' of this seller'}.\n`);
  return EXIT.done;
}

function addShow(runs: Command): void {
  const command = runs
    .command('show')
    .summary('show one run')
    .description('Shows one run whole: figures, warnings, what went wrong, unreadable records.')
    .argument('<id>', 'the run’s number', runNumber)
    .addHelpText('after', '\nExample:\n  $ seller-mirror runs show 42');
  withCommonOptions(command, { seller: true }).action((id: bigint, options: CommonOptions) =>
    execute((signal) => withApp('runs show', 'store', signal, (app) => show(app, id, options))),
  );
}

async function show(app: App, id: bigint, { seller, json }: CommonOptions): Promise<ExitCode> {
  const found = await app.store.runs.get(id);
  if (found === null || (seller !== undefined && found.run.sellerId !== seller)) {
    throw new CommandError(
      `there is no run ${id}${seller === undefined ? '' : ' of this seller'}`,
      '`seller-mirror runs` lists them',
    );
  }
  const { run, quarantine, held } = found;
  if (json === true) {
    const records = quarantine.map((record) => ({ ...record, raw: shortened(record.raw) }));
    await printJson({ run, held, quarantine: records });
  } else {
    await print(runDetails(run, quarantine, stdoutLook()));
  }
  return EXIT.done;
}

/** A command that decides about what a run held back. */
interface DecisionCommand {
  readonly name: 'approve' | 'reject';
  readonly decision: Decision;
  readonly summary: string;
  readonly description: string;
}

function addDecision(runs: Command, command: DecisionCommand): void {
  const { name, decision } = command;
  runs
    .command(name)
    .summary(command.summary)
    .description(command.description)
    .argument('<id>', 'the number of the run that was held', runNumber)
    .option('--json', 'print JSON for scripts')
    .addHelpText(
      'after',
      `\nExample:\n  $ seller-mirror runs ${name} 42\n\nExit codes: 0 done, or decided so before; 1 there is nothing to decide, or a run works for the seller; 2 usage`,
    )
    .action((runId: bigint, { json }: { readonly json?: true }) =>
      execute((signal) =>
        withApp(`runs ${name}`, 'store', signal, (app) =>
          decide(app, name, runId, decision, json === true),
        ),
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

function rejectedLines(report: DecisionReport): string[] {
  const { items, missing, removedBefore, approvalRunId } = report;
  const others = items - missing - removedBefore;
  const by = approvalRunId === null ? '' : `, by run ${approvalRunId} when it was approved`;
  return [
    `rejected: ${plural(missing, 'item')} ${missing === 1 ? 'stays' : 'stay'} missing`,
    ...(removedBefore > 0
      ? [`${removedBefore} removed before${by}, and not restored by this`]
      : []),
    ...(others > 0 ? [`${others} found again since, and left as they are`] : []),
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
