import { stateWord } from '../../listing/listing.js';
import { hostname } from 'node:os';
import type { Command } from 'commander';
import type { App } from '../../app.js';
import { moment } from '../../domain/moment.js';
import type { Decision } from '../../catalogue/rules.js';
import { decideRemovals, type DecisionReport } from '../../catalogue/decide-removals.js';
import { heldRemedy, exampleNames, problemRemedy } from '../../catalogue/problem.js';
import { type Run, getRun } from '../../catalogue/runs-store.js';
import { RUN_COUNTS, RUN_FACTS, RUNS, shownState } from '../../catalogue/runs-listing.js';
import { printResult, stdoutLook, userName } from '../console.js';
import { CommandError } from '../errors.js';
import { appAction } from '../execute.js';
import {
  assertSeller,
  describeCommand,
  sellerSuffix,
  idParser,
  type CommonOptions,
} from '../options.js';
import {
  describeListing,
  fieldsOf,
  printListing,
  styleOf,
  type ListingOptions,
} from '../listing.js';
import { pairs, sections } from '../output/table.js';
import { cut, type Look, paint, safeLine } from '../output/text.js';
import { plural } from '../../domain/text.js';

const runNumber = idParser('Runs are numbered 1, 2, 3 and so on.');

export function add(program: Command): void {
  const runs = describeCommand(program.command('runs'), {
    about:
      'Lists the newest runs, or shows one: figures, warnings, problem. `approve` and `reject` decide a run that needs your decision.',
    examples: [
      'seller-mirror runs --limit 5',
      'seller-mirror runs show 42',
      'seller-mirror runs approve 42',
    ],
  });
  describeListing(runs.command('list', { isDefault: true }), RUNS, {
    summary: 'list the newest runs',
    examples: ['seller-mirror runs list --limit 5', 'seller-mirror runs list --state failed'],
  }).action(appAction('store', (app, options: ListingOptions) => printListing(app, RUNS, options)));
  describeCommand(runs.command('show').argument('<id>', 'the run’s number', runNumber), {
    summary: 'show one run: figures, warnings, problem, unreadable records',
    examples: ['seller-mirror runs show 42'],
    options: ['json', 'seller'],
  }).action(appAction('store', show));
  addDecision(runs, 'approved', 'approve', {
    summary: 'carry out the removals of a run that needs your decision',
    about:
      'Removes the items that a run proved to be gone and the removal guard held back. Items found again since then stay. Makes no request to the marketplace. History is kept, and an item that returns is restored.',
  });
  addDecision(runs, 'rejected', 'reject', {
    summary: 'keep the items of a run that needs your decision',
    about:
      'Keeps the items that the removal guard held back. They stay missing until they are found again; later runs stop only for other items. `runs approve` can revoke this.',
  });
}

async function show(app: App, id: bigint, options: CommonOptions): Promise<void> {
  const { seller } = options;
  await assertSeller(app, seller);
  const found = await getRun(app.db, id);
  if (found === null || (seller !== undefined && found.run.sellerId !== seller)) {
    throw new CommandError(
      `there is no run ${id}${sellerSuffix(seller)}`,
      '`seller-mirror runs` lists them',
    );
  }
  const { run, held } = found;
  const quarantine = found.quarantine.map((one) => ({ ...one, raw: beginning(one.raw) }));
  await printResult(options, { run, held, quarantine }, () =>
    runDetails(run, quarantine, stdoutLook()),
  );
}

type FoundRun = NonNullable<Awaited<ReturnType<typeof getRun>>>;
type QuarantinedRecord = FoundRun['quarantine'][number];

function runDetails(run: Run, quarantine: readonly QuarantinedRecord[], look: Look): string {
  const shown = shownState(run);
  const style = styleOf(shown);
  const state = style === null ? shown : paint(style, stateWord(shown), look);
  const parts = {
    problem:
      run.problem === null
        ? []
        : [run.problem, `→ ${problemRemedy(run.problemCode, run.sellerId)}`].map(safeLine),
    warnings: run.warnings.map(safeLine),
    decision: run.state === 'held' ? [safeLine(decisionOf(run))] : [],
    'tolerated notations': Object.entries(run.tolerated ?? {}).map(([name, number]) =>
      safeLine(`${name}: ${JSON.stringify(number)}`),
    ),
    'records that could not be read (all of them: select * from mirror.quarantine)':
      quarantine.map(recordLines),
  };
  return [
    `${paint('bold', `run ${run.runId}`, look)} · ${safeLine(run.sellerId)} · ${run.kind} · ${state}\n`,
    pairs(fieldsOf([...RUN_FACTS, ...RUN_COUNTS], run, new Date()), look),
    sections(parts, look),
  ].join('');
}

function decisionOf({ runId, decision, decidedAt, decidedBy, approvalRunId }: Run): string {
  if (decision === null) return `→ ${heldRemedy(runId)}`;
  const did =
    decision === 'approved' ? 'carried it out' : 'had removed items when it was approved before';
  const approval = approvalRunId === null ? '' : `; run ${approvalRunId} ${did}`;
  return `${decision}${byWhom(decidedAt, decidedBy)}${approval}`;
}

/** ` at 2026-11-23 02:00:00Z by ada on shop`. */
function byWhom(at: Date | null, by: string | null): string {
  return `${at === null ? '' : ` at ${moment(at)}`} by ${by ?? 'somebody'}`;
}

const RAW_CHARACTERS = 2_000;

/** The beginning of a record as received, which may be a megabyte. */
function beginning(raw: string): string {
  return raw.length > RAW_CHARACTERS ? `${raw.slice(0, RAW_CHARACTERS)}…` : raw;
}

const RAW_COLUMNS = 200;

function recordLines({ itemId, reason, raw }: QuarantinedRecord): string {
  const id = itemId === null ? 'no id' : `item ${itemId}`;
  return `${id}: ${safeLine(reason)}\n    ${cut(safeLine(raw), RAW_COLUMNS)}`;
}

function addDecision(
  runs: Command,
  decision: Decision,
  name: string,
  parts: { readonly summary: string; readonly about: string },
): void {
  const command = runs.command(name).argument('<id>', 'the number of the run', runNumber);
  describeCommand(command, {
    ...parts,
    examples: [`seller-mirror runs ${name} 42`],
    more: 'Exit codes: 0 done, or already decided this way; 1 nothing to decide, or a run of the seller is under way; 2 usage',
    options: ['json'],
  }).action(
    appAction('store', async ({ db }, runId: bigint, options: CommonOptions) => {
      const holder = `${name} (process ${process.pid} on ${hostname()})`;
      const by = `${userName()} on ${hostname()}`;
      const report = await decideRemovals({ db, holder, by }, runId, decision);
      await printResult(options, report, () => decisionLines(report, stdoutLook()));
    }),
  );
}

function decisionLines(report: DecisionReport, look: Look): string {
  const { runId, sellerId, decision, already, decidedAt, decidedBy } = report;
  const head = `${paint('green', '✓', look)} ${safeLine(sellerId)} · run ${runId} `;
  if (already) {
    return `${head}was already ${decision}${safeLine(byWhom(decidedAt, decidedBy))}; nothing was done\n`;
  }
  const lines = decision === 'approved' ? approvedLines(report) : rejectedLines(report);
  return `${head}${lines.map((line) => `${safeLine(line)}\n`).join('  ')}`;
}

function rejectedLines(report: DecisionReport): string[] {
  const { items, missing, removedBefore, approvalRunId } = report;
  const others = items - missing - removedBefore;
  const by = approvalRunId === null ? '' : ` by run ${approvalRunId}, when it was approved`;
  return [
    `rejected: ${plural(missing, 'item')} ${missing === 1 ? 'stays' : 'stay'} missing`,
    removedBefore > 0 ? `${removedBefore} already removed${by}; this does not restore them` : '',
    others > 0 ? `${others} found again since then, and unchanged` : '',
    'later runs stop only for other items; items that are found again become live',
  ].filter(Boolean);
}

function approvedLines({ items, removed, left, approvalRunId }: DecisionReport): string[] {
  const { found = [], removed: later = 0, unproven = 0 } = left ?? {};
  const names = exampleNames(found.slice(0, 3), found.length);
  return [
    `approved: ${removed} of ${plural(items, 'item')} removed (run ${approvalRunId})`,
    found.length > 0 ? `${found.length} found again since then, and unchanged: ${names}` : '',
    later > 0 ? `${later} already removed by a later run` : '',
    unproven > 0
      ? `${unproven} not proven gone yet, so they stay missing: the next runs look up at most LOOKUPS_PER_RUN each, remove those that the marketplace denies, and need no further decision for them`
      : '',
  ].filter(Boolean);
}
