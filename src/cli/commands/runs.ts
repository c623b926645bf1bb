import { stateWord } from '../../listing/listing.js';
import type { Command } from 'commander';
import type { App } from '../../app.js';
import { describeAcceptance } from '../../catalogue/rules.js';
import { heldRemedy, problemRemedy } from '../../catalogue/problem.js';
import { getRun } from '../../catalogue/runs-store.js';
import { RUN_COUNTS, RUN_FACTS, RUNS } from '../../catalogue/runs-listing.js';
import { printResult, stdoutLook } from '../console.js';
import { usageError } from '../errors.js';
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

const runNumber = idParser('Runs are numbered 1, 2, 3 and so on.');

export function add(program: Command): void {
  const runs = describeCommand(program.command('runs'), {
    about: 'Lists the newest runs, or shows one: figures, warnings, problem.',
    examples: ['seller-mirror runs --limit 5', 'seller-mirror runs show 42'],
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
}

async function show(app: App, id: bigint, options: CommonOptions): Promise<void> {
  const { seller } = options;
  await assertSeller(app, seller);
  const found = await getRun(app.db, id);
  if (found === null || (seller !== undefined && found.run.sellerId !== seller)) {
    throw usageError(
      `there is no run ${id}${sellerSuffix(seller)}`,
      '`seller-mirror runs` lists them',
    );
  }
  const { run, shown: held, acceptedBy } = found;
  const quarantine = found.quarantine.map((one) => ({ ...one, raw: beginning(one.raw) }));
  await printResult(options, { run, held, acceptedBy, quarantine }, () =>
    runDetails({ ...found, quarantine }, stdoutLook()),
  );
}

type FoundRun = NonNullable<Awaited<ReturnType<typeof getRun>>>;
type QuarantinedRecord = FoundRun['quarantine'][number];

function runDetails(found: FoundRun, look: Look): string {
  const { run, quarantine } = found;
  const style = styleOf(run.state);
  const state = style === null ? run.state : paint(style, stateWord(run.state), look);
  const parts = {
    problem:
      run.problem === null
        ? []
        : [run.problem, `→ ${problemRemedy(run.problemCode, run.sellerId)}`].map(safeLine),
    warnings: run.warnings.map(safeLine),
    'held removals': heldLines(found),
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

/** The held items that a run shows: the command that accepts them, or what became of them. */
function heldLines({ run, shown, acceptedBy }: FoundRun): readonly string[] {
  if (shown.length === 0) return [];
  const isOpen = shown.some(({ now, kept }) => !kept && (now === 'gone' || now === 'unproven'));
  const { gone, rest } = describeAcceptance(run.runId, shown);
  return [
    ...(gone.length > 0 ? [`${gone.length} of ${shown.length} are proven to be gone`] : []),
    ...rest,
    ...(acceptedBy === null ? [] : [`run ${acceptedBy} removed what was accepted`]),
    ...(isOpen ? [`→ ${heldRemedy(run.runId)}`] : []),
  ].map(safeLine);
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
