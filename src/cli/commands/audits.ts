import { UserError } from '../../domain/user-error.js';
import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { RESULT_FORMATS } from '../../codes/lists/write-result.js';
import { costOf } from '../../codes/enter-list.js';
import { describeReading } from '../../codes/layout.js';
import type { AuditProgress } from '../../codes/types.js';
import {
  auditDetails,
  CHECK_AGAIN,
  costText,
  summaryNotes,
  summaryLines,
} from '../codes/audit-view.js';
import {
  RESULT_HELP,
  VERDICT_EXIT_CODES,
  parseAuditId,
  findAudit,
  VERDICT_OPTIONS,
  type ResultOptions,
  checkConditions,
  type FailOptions,
} from '../codes/options.js';
import { runAudit } from '../codes/check.js';
import {
  checkResultRows,
  resultDestination,
  savedDestination,
  type ResultDestination,
  writeResult,
} from '../codes/result-file.js';
import { printNote, printResult, stdoutLook } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import type { ExitCode } from '../exit-codes.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { addListing } from '../listing.js';
import { checkDestination, destinationOf, formatOfFile, outOption, STDOUT } from '../out-file.js';
import { safeLine } from '../output/text.js';
import { count } from '../../domain/text.js';
import { AUDITS } from '../../codes/audits-listing.js';
import { readAuditList, resumeAudit, cancelAudit } from '../../codes/audits-store.js';
import { countUnproven } from '../../codes/results-store.js';
import { ownCommand } from '../own-command.js';

export function add(program: Command): void {
  const audits = describeCommand(program.command('audits'), {
    about:
      'Each `codes check` of a list and each `codes recheck` is an audit with a number. These commands list, show, resume, cancel and export audits.',
    examples: ['seller-mirror audits list', 'seller-mirror audits export 12 --out result.csv'],
  });
  const withNumber = (name: string): Command =>
    audits.command(name).argument('<audit>', 'the audit’s number', parseAuditId);
  addListing(audits.command('list', { isDefault: true }), AUDITS, {
    source: ({ db }) => db,
    summary: 'list the newest audits, with their figures',
    examples: ['seller-mirror audits list --limit 5'],
  });
  describeCommand(withNumber('show'), {
    summary: 'show one audit',
    about:
      'Shows one audit: how its list was read, its figures, why codes have no verdict, what the rest costs, and how to continue.',
    examples: ['seller-mirror audits show 12'],
    options: ['json', 'seller'],
  }).action(appAction('store', show));
  describeCommand(withNumber('resume'), {
    summary: 'continue an audit',
    about:
      'Continues an audit that was interrupted, cancelled or failed. While other processes work on it, only watches. Codes with an answer are not checked again. The result goes to the file that `--out` named before, unless it was written already; `--out` names another file.',
    notes: RESULT_HELP,
    examples: ['seller-mirror audits resume 12'],
    more: VERDICT_EXIT_CODES,
    options: [...VERDICT_OPTIONS, 'detach', 'json', 'seller'],
  }).action(appAction('sellers', resume));
  describeCommand(withNumber('cancel'), {
    summary: 'stop an audit for good, or until it is resumed',
    about:
      'Stops an audit in all processes that work on it, after the calls under way. Keeps its verdicts; `audits resume` continues with the rest.',
    examples: ['seller-mirror audits cancel 12'],
    options: ['json', 'seller'],
  }).action(appAction('store', cancel));
  const format = new Option('--format <format>', 'by default the ending of the file, else csv');
  describeCommand(withNumber('export'), {
    summary: 'write the result of an audit',
    about:
      'Writes the list of an audit, in its order and with its own columns, plus the verdict on each code. Also works before the audit ends. A file appears only when it is complete.',
    notes: RESULT_HELP,
    examples: [
      'seller-mirror audits export 12 --out result.csv',
      `seller-mirror audits export 12 --format ndjson | jq -r 'select(.verdict == "invalid").code'`,
    ],
    options: [
      ...outOption('the file; - is stdout', STDOUT),
      format.choices(RESULT_FORMATS),
      ...(['decimalComma', 'json', 'seller'] as const),
    ],
  }).action(appAction('store', exportAudit));
}

async function show(app: App, auditId: bigint, options: CommonOptions): Promise<void> {
  const audit = await findAudit(app, auditId, options.seller);
  const unproven = await countUnproven(app.db, auditId);
  const list = await readAuditList(app.db, auditId);
  const left = await costLeft(app, audit);
  await printResult(options, { audit, unproven, list }, () => {
    const notes = {
      unproven,
      reading: describeReading(list?.layout ?? null),
      costLeft: left,
      next: nextCommands(audit),
    };
    return auditDetails(audit, notes, stdoutLook(), new Date());
  });
}

/** The cost of the codes that are left; null when none is left, or the seller is not configured here. */
async function costLeft(
  { config, db }: App,
  { sellerId, pending, denied }: AuditProgress,
): Promise<string | null> {
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (pending === 0 || seller === undefined) return null;
  const cost = await costOf(db, seller, pending - denied, undefined, denied);
  return costText(cost, seller.requestsPerMinute, pending);
}

function nextCommands(audit: AuditProgress): readonly string[] {
  const { auditId, state, pending, unproven, result } = audit;
  const program = ownCommand();
  const isResultDue = result !== null && result.writtenAt === null;
  return [
    ...(pending > 0 || isResultDue ? [`${program} audits resume ${auditId}`] : []),
    `${program} audits export ${auditId} --out result.csv`,
    ...(state === 'finished' && unproven > 0 ? [CHECK_AGAIN] : []),
  ];
}

interface ResumeOptions extends CommonOptions, ResultOptions, FailOptions {
  readonly detach?: boolean;
}

async function resume(app: App, auditId: bigint, options: ResumeOptions): Promise<ExitCode> {
  const { seller, json = false, detach = false, failOn, item } = options;
  checkConditions(options);
  const newDestination = resultDestination(options);
  await checkDestination(newDestination);
  const audit = await findAudit(app, auditId, seller);
  const { sellerId, state } = audit;
  if (!app.config.sellers.some(({ name }) => name === sellerId)) {
    throw usageError(
      `audit ${auditId} belongs to seller "${sellerId}", which is not configured`,
      `configure the seller; \`seller-mirror audits export ${auditId}\` works without it`,
    );
  }
  const destination = newDestination ?? (detach ? null : await savedDestination(audit));
  if (destination !== null) checkResultRows(destination, audit.lines);
  if (state !== 'running') await resumeAudit(app.db, auditId);
  return runAudit(app, auditId, {
    json,
    detach,
    force: true,
    destination,
    failOn,
    item,
  });
}

async function cancel(app: App, auditId: bigint, options: CommonOptions): Promise<void> {
  await findAudit(app, auditId, options.seller);
  await cancelAudit(app.db, auditId);
  const audit = await findAudit(app, auditId, options.seller);
  if (audit.state === 'finished') {
    throw new UserError(
      `audit ${auditId} is finished: there is nothing to cancel`,
      `\`seller-mirror audits export ${auditId}\` writes its result`,
      'FAILED',
    );
  }
  const notes = await summaryNotes(app.db, audit);
  await printResult(options, { audit }, () => summaryLines(audit, notes, null, stdoutLook()));
}

interface ExportOptions extends CommonOptions, ResultOptions {
  readonly out: string;
}

async function exportAudit(app: App, auditId: bigint, options: ExportOptions): Promise<void> {
  const destination = exportDestination(options);
  await checkDestination(destination);
  const audit = await findAudit(app, auditId, options.seller);
  checkResultRows(destination, audit.lines);
  await writeResult(app, [audit], destination, app.signal);
  if (audit.pending > 0) {
    printNote(
      `The audit has not ended yet: ${count(audit.pending)} of ${count(audit.codes)} codes are "pending".\n`,
    );
  }
  if (destination.path !== null) printNote(`written: ${safeLine(destination.path)}\n`);
}

/** `--json` writes the result as JSON. @throws {UserError} when another format is named */
function exportDestination(options: ExportOptions): ResultDestination {
  const { json, out, format } = options;
  if (json !== true) return destinationOf(options, RESULT_FORMATS);
  const named = format ?? formatOfFile(out, RESULT_FORMATS) ?? 'json';
  if (named === 'json') return destinationOf({ ...options, format: named }, RESULT_FORMATS);
  const other = format === undefined ? `the ending of ${JSON.stringify(out)}` : '--format';
  throw usageError(`--json and ${other} differ`, 'leave --json out, or choose JSON in both places');
}
