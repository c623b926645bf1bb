import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { AUDIT } from '../../codes/audits-resource.js';
import { resumeAudit } from '../../codes/audits-store.js';
import { RESULT_FORMATS } from '../../codes/lists/write-result.js';
import { count } from '../../domain/text.js';
import { runAudit } from '../codes/check.js';
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
import {
  checkResultRows,
  resultDestination,
  savedDestination,
  type ResultDestination,
  writeResult,
} from '../codes/result-file.js';
import { printNote } from '../console.js';
import { usageError } from '../errors.js';
import { appAction } from '../execute.js';
import type { ExitCode } from '../exit-codes.js';
import { describeCommand, type CommonOptions } from '../options.js';
import { checkDestination, destinationOf, jsonOf, outOption, STDOUT } from '../out-file.js';
import { safeLine } from '../output/text.js';
import { addResource, resourceCommand } from '../resource.js';

const AUDITS = resourceCommand({
  resource: AUDIT,
  source: ({ db }) => db,
  about:
    'Each check of a list, by `codes check` or `codes recheck`, has a number. These commands list, show, resume, cancel and export checks.',
  example: '12',
  list: {
    summary: 'list the newest checks, with their figures',
    examples: ['seller-mirror audits list --limit 5'],
  },
  show: {
    about:
      'Shows one check: how its list was read, its figures, why codes have no verdict, and how to continue.',
  },
});

export function add(program: Command): void {
  const audits = addResource(program, AUDITS);
  const withNumber = (name: string): Command =>
    audits.command(name).argument('<id>', 'the check’s number', parseAuditId);
  describeCommand(withNumber('resume'), {
    summary: 'continue a check',
    about:
      'Continues a check that was interrupted, cancelled or failed. While other processes work on it, only watches. Codes with an answer are not checked again. The result goes to the file that `--out` named before, unless it was written already; `--out` names another file.',
    notes: RESULT_HELP,
    examples: ['seller-mirror audits resume 12'],
    more: VERDICT_EXIT_CODES,
    options: [...VERDICT_OPTIONS, 'detach', 'json', 'seller'],
  }).action(appAction('sellers', resume));
  const format = new Option('--format <format>', 'by default the ending of the file, else csv');
  describeCommand(withNumber('export'), {
    summary: 'write the result of a check',
    about:
      'Writes the list of a check, in its order and with its own columns, plus the verdict on each code. Also works before the check ends. A file appears only when it is complete.',
    notes: RESULT_HELP,
    examples: [
      'seller-mirror audits export 12 --out result.csv',
      `seller-mirror audits export 12 --format ndjson | jq -r 'select(.verdict == "invalid").code'`,
    ],
    options: [
      ...outOption('the file; - is stdout', STDOUT),
      format.choices(RESULT_FORMATS),
      ...(['decimalComma', 'json', 'quiet', 'seller'] as const),
    ],
  }).action(appAction('store', exportAudit));
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
      `check ${auditId} belongs to seller "${sellerId}", which is not configured`,
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
      `The check has not ended yet: ${count(audit.pending)} of ${count(audit.codes)} codes are "pending".\n`,
    );
  }
  if (destination.path !== null) printNote(`written: ${safeLine(destination.path)}\n`);
}

/** `--json` writes the result as JSON. @throws {UserError} when another format is named */
function exportDestination(options: ExportOptions): ResultDestination {
  const { json, out, format } = options;
  if (json !== true) return destinationOf(options, RESULT_FORMATS);
  const named = format ?? jsonOf(out, RESULT_FORMATS);
  if (named === 'json') return destinationOf({ ...options, format: named }, RESULT_FORMATS);
  throw usageError('--json and --format differ', 'leave --json out, or choose JSON in both places');
}
