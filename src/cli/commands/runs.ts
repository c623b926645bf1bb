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
import { heldRemedy, namesOf, remedyFor } from '../../jobs/problem.js';
import type { Run } from '../../store/status.js';
import { page, print, printJson, stdoutLook } from '../console.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  positiveInteger,
  runNumber,
  type CommonOptions,
  type TableOptions,
  withCommonOptions,
  withTableOptions,
} from '../options.js';
import { pairs, table } from '../output/table.js';
import {
  bytes,
  count,
  cut,
  duration,
  type Look,
  momentCell,
  paint,
  plural,
  safeLine,
  type Style,
} from '../output/text.js';
import { asTyped } from '../own-command.js';

interface RunsOptions extends CommonOptions, TableOptions {
  readonly limit: number;
}

const DEFAULT_LIMIT = 20;

/** `runs [ID]`, `runs show|approve|reject ID`: lists and shows runs, decides about held ones. */
export function addRuns(program: Command): void {
  const runs = program
    .command('runs')
    .description(
      'Lists the newest runs, or shows one: figures, warnings, problem. `approve` and `reject` decide about a run that the removal guard held.',
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
      'Removes the items that a run proved to be gone and that the removal guard held back. Items found again since stay. The marketplace is not asked; history is kept, and an item that returns is restored.',
  });
  addDecision(runs, {
    name: 'reject',
    decision: 'rejected',
    summary: 'keep what a held run held back',
    description:
      'Keeps the items that the removal guard held back: they stay missing until they are found again, and later runs are held only for further ones. `runs approve` can revoke it.',
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

const STYLES: Readonly<Record<Run['state'], Style | null>> = {
  running: null,
  succeeded: 'green',
  held: 'yellow',
  failed: 'red',
  interrupted: 'yellow',
};

/** Formats runs as a table, one line each. */
function runsTable(runs: readonly Run[], look: Look, vertical?: boolean): string {
  // Saves room on a terminal.
  const isOfOne = look.columns !== null && new Set(runs.map((run) => run.sellerId)).size === 1;
  return table(
    runs,
    [
      { header: 'run', value: (run) => run.runId },
      ...(isOfOne ? [] : [{ header: 'seller', value: (run: Run) => run.sellerId }]),
      { header: 'kind', value: (run) => run.kind },
      { header: 'state', value: (run) => run.state, style: (run) => STYLES[run.state] },
      { header: 'started', value: ({ startedAt }) => momentCell(startedAt, new Date(), look) },
      { header: 'took', value: (run) => took(run), align: 'right' },
      { header: 'listed', value: (run) => run.listed },
      { header: 'added', value: (run) => run.added },
      { header: 'changed', value: (run) => run.changed + run.extraChanged },
      { header: 'removed', value: (run) => run.removed },
      {
        header: 'problem',
        value: (run) => asTyped(run.problem ?? run.warnings[0] ?? ''),
        isNote: true,
      },
    ],
    look,
    { vertical, isWhole: vertical === true },
  );
}

function took({ startedAt, finishedAt }: Run): string {
  return finishedAt === null ? '' : duration(finishedAt.getTime() - startedAt.getTime());
}

function addShow(runs: Command): void {
  const command = runs
    .command('show')
    .summary('show one run')
    .description('Shows one run: figures, warnings, problem, unreadable records.')
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

/** A record of a list that could not be read. */
interface UnreadRecord {
  readonly itemId: bigint | null;
  readonly reason: string;
  readonly raw: string;
}

/** Formats one run with all its details. */
function runDetails(run: Run, unread: readonly UnreadRecord[], look: Look): string {
  const style = STYLES[run.state];
  const state = style === null ? run.state : paint(style, run.state, look);
  return [
    `${paint('bold', `run ${run.runId}`, look)} · ${safeLine(run.sellerId)} · ${run.kind} · ${state}\n`,
    pairs(figures(run), look),
    section('problem', problemLines(run), look),
    section('warnings', run.warnings, look),
    section('decision', decidedLines(run), look),
    section('tolerated notations', toleratedLines(run), look),
    section(
      'records that could not be read (all of them: select * from mirror.quarantine)',
      unread.map(recordLine),
      look,
    ),
  ].join('');
}

function figures(run: Run): (readonly [string, string])[] {
  const end = run.finishedAt;
  const numbers = [
    ['listed', run.listed],
    ['added', run.added],
    ['changed', run.changed],
    ['changed in unknown fields only', run.extraChanged],
    ['unchanged', run.unchanged],
    ['restored', run.restored],
    ['missing', run.missing],
    ['removed', run.removed],
    ['quarantined', run.quarantined],
    ['duplicates', run.duplicates],
    ['requests', run.apiCalls],
  ] as const;
  return [
    ['started', moment(run.startedAt)],
    ['finished', end === null ? '' : `${moment(end)} (${took(run)})`],
    ['by', run.holder],
    ...numbers.map(([name, number]) => [name, count(number)] as const),
    ['list', bytes(Number(run.bytes))],
  ];
}

function problemLines({ problem, problemCode, sellerId }: Run): string[] {
  return problem === null ? [] : [problem, `→ ${remedyFor(problemCode, sellerId)}`];
}

function decidedLines(run: Run): string[] {
  const { runId, state, decision, decidedAt, decidedBy, approvalRunId } = run;
  if (state !== 'held') return [];
  if (decision === null) return [`→ ${heldRemedy(runId)}`];
  const when = decidedAt === null ? '' : ` at ${moment(decidedAt)}`;
  const did =
    decision === 'approved' ? 'carried it out' : 'removed items before, when it was approved';
  const where = approvalRunId === null ? '' : `; run ${approvalRunId} ${did}`;
  return [`${decision}${when} by ${decidedBy ?? 'somebody'}${where}`];
}

function toleratedLines({ tolerated }: Run): string[] {
  if (typeof tolerated !== 'object' || tolerated === null) return [];
  return Object.entries(tolerated).map(([name, number]) => `${name}: ${JSON.stringify(number)}`);
}

const RAW_COLUMNS = 200;

function recordLine({ itemId, reason, raw }: UnreadRecord): string {
  const id = itemId === null ? 'no id' : `item ${itemId}`;
  return `${id}: ${safeLine(reason)}\n    ${cut(safeLine(shortened(raw)), RAW_COLUMNS)}`;
}

function section(title: string, lines: readonly string[], look: Look): string {
  if (lines.length === 0) return '';
  const shown = lines.map((line) => `  ${line.split('\n    ').map(safeLine).join('\n    ')}\n`);
  return `${paint('bold', title, look)}\n${shown.join('')}`;
}

const RAW_CHARACTERS = 2_000;

/** The beginning of a raw record, which may be a megabyte. */
function shortened(raw: string): string {
  return raw.length > RAW_CHARACTERS ? `${raw.slice(0, RAW_CHARACTERS)}…` : raw;
}

/** A command that decides about the removals that a run held back. */
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

/** The user and the machine on which the command runs. */
function whoDecides(): string {
  return `${userName()} on ${hostname()}`;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container, the user may have no name.
    return `user ${process.getuid?.() ?? 'unknown'}`;
  }
}

/** Formats a decision as lines for a person. */
function decisionLines(report: DecisionReport, look: Look): string {
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
