import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { RESULT_FORMATS, type ResultFormat } from '../../intake/index.js';
import type { AuditProgress } from '../../store/audits/types.js';
import { auditDetails, auditsTable, costOf, costText, summaryOf } from '../codes/audit-view.js';
import {
  RESULT_HELP,
  VERDICT_EXIT_CODES,
  auditNumber,
  checkSeller,
  findAudit,
  type FailOptions,
  type OutOptions,
  withFailOption,
  withOutOptions,
} from '../codes/options.js';
import { runAudit } from '../codes/run-audit.js';
import {
  STDOUT,
  checkOut,
  formatOf,
  outPlace,
  placeOf,
  readingOf,
  rememberedPlace,
  type OutPlace,
  writeResult,
} from '../codes/result-file.js';
import { note, page, print, printJson, stdoutLook } from '../console.js';
import { CommandError, usageError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import {
  positiveInteger,
  type CommonOptions,
  type TableOptions,
  withCommonOptions,
  withTableOptions,
} from '../options.js';
import { count, safeLine } from '../output/text.js';
import { ownCommand } from '../own-command.js';

/** `audits [list|show|resume|cancel|export]`: audits of purchase codes. */
export function addAudits(program: Command): void {
  const audits = program
    .command('audits')
    .description(
      'Each `codes check` of a list, and each `codes recheck`, is an audit with a number. These commands list, show, resume, cancel and export audits.',
    )
    .addHelpText(
      'after',
      '\nExamples:\n  $ seller-mirror audits list\n  $ seller-mirror audits export 12 --out result.csv',
    );
  for (const add of [addList, addShow, addResume, addCancel, addExport]) add(audits);
}

const DEFAULT_LIMIT = 20;

function addList(audits: Command): void {
  const command = audits
    .command('list', { isDefault: true })
    .summary('list the newest audits')
    .description('Lists the newest audits with their figures.')
    .option('--limit <n>', 'how many to list', positiveInteger, DEFAULT_LIMIT)
    .addHelpText('after', '\nExample:\n  $ seller-mirror audits list --limit 5');
  withTableOptions(withCommonOptions(command, { seller: true })).action((options: ListOptions) =>
    execute((signal) => withApp('audits list', 'store', signal, (app) => list(app, options))),
  );
}

interface ListOptions extends CommonOptions, TableOptions {
  readonly limit: number;
}

async function list(app: App, options: ListOptions): Promise<ExitCode> {
  const { limit, seller, json, vertical } = options;
  await checkSeller(app, seller);
  const audits = await app.store.audits.list({
    limit,
    ...(seller === undefined ? {} : { sellerIds: [seller] }),
  });
  if (json === true) await printJson(audits);
  else if (audits.length > 0) await page([auditsTable(audits, stdoutLook(), vertical)], options);
  else await print(`There is no audit yet${seller === undefined ? '' : ' of this seller'}.\n`);
  return EXIT.done;
}

function addShow(audits: Command): void {
  const command = audits
    .command('show')
    .summary('show one audit')
    .description(
      'Shows one audit: how its list was read, its figures, why codes have no verdict, the cost of the rest, and how to continue.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .addHelpText('after', '\nExample:\n  $ seller-mirror audits show 12');
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: CommonOptions) =>
    execute((signal) =>
      withApp('audits show', 'store', signal, (app) => show(app, auditId, options)),
    ),
  );
}

async function show(app: App, auditId: bigint, { seller, json }: CommonOptions): Promise<ExitCode> {
  const audit = await findAudit(app, auditId, seller);
  const { audits } = app.store;
  const unproven = await audits.unprovenCounts(auditId);
  const list = await audits.listOf(auditId);
  if (json === true) {
    await printJson({ audit, unproven, list });
    return EXIT.done;
  }
  const notes = {
    unproven,
    reading: readingOf(list?.layout ?? null),
    costLeft: costLeft(app, audit),
    next: nextCommands(audit),
  };
  await print(auditDetails(audit, notes, stdoutLook(), new Date()));
  return EXIT.done;
}

/** The cost of the rest; null when there is none, or the seller is not configured here. */
function costLeft({ config }: App, { sellerId, pending, chunkSize }: AuditProgress): string | null {
  const seller = config.sellers.find(({ name }) => name === sellerId);
  if (pending === 0 || seller === undefined) return null;
  const cost = costOf(seller, pending, chunkSize, Date.now());
  return costText(cost, seller.requestsPerMinute, pending);
}

function nextCommands({ auditId, pending, result }: AuditProgress): readonly string[] {
  const program = ownCommand();
  const toWrite = result !== null && result.writtenAt === null;
  return [
    ...(pending > 0 || toWrite ? [`${program} audits resume ${auditId}`] : []),
    `${program} audits export ${auditId} --out result.csv`,
  ];
}

interface ResumeOptions extends CommonOptions, OutOptions, FailOptions {
  readonly detach?: true;
}

function addResume(audits: Command): void {
  const command = audits
    .command('resume')
    .summary('continue an audit')
    .description(
      'Continues an audit that was interrupted, failed or was cancelled; watches it while other processes work on it. Codes with an answer are not asked for again. The result goes to the file that `--out` named before, unless it is there already; `--out` names another one.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .addOption(
      new Option('--detach', 'leave the work to `run` or `worker`').conflicts(['out', 'format']),
    );
  withOutOptions(withFailOption(command, ['detach'])).addHelpText(
    'after',
    `${RESULT_HELP}\n\nExample:\n  $ seller-mirror audits resume 12\n\n${VERDICT_EXIT_CODES}`,
  );
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: ResumeOptions) =>
    execute(async (signal) => {
      const place = placeOf(options);
      await checkOut(place);
      return withApp('audits resume', 'sellers', signal, (app) =>
        resume(app, auditId, place, options, signal),
      );
    }),
  );
}

async function resume(
  app: App,
  auditId: bigint,
  asked: OutPlace | null,
  { seller, json, detach, failOn }: ResumeOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const audit = await findAudit(app, auditId, seller);
  const { sellerId, state } = audit;
  if (!app.config.sellers.some(({ name }) => name === sellerId)) {
    throw usageError(
      `audit ${auditId} is of seller "${sellerId}", who is not configured`,
      `configure the seller; \`${ownCommand()} audits export ${auditId}\` works without`,
    );
  }
  const place = asked ?? (detach === true ? null : await rememberedPlace(audit));
  if (state !== 'running') await app.store.audits.resume(auditId);
  const how = { json: json === true, detach: detach === true, afresh: true, place, failOn };
  return runAudit(app, auditId, how, signal);
}

function addCancel(audits: Command): void {
  const command = audits
    .command('cancel')
    .summary('stop an audit for good, or until it is resumed')
    .description(
      'Stops an audit in all processes that work on it; calls under way are finished. Its verdicts are kept, and `audits resume` continues with the rest.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .addHelpText('after', '\nExample:\n  $ seller-mirror audits cancel 12');
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: CommonOptions) =>
    execute((signal) =>
      withApp('audits cancel', 'store', signal, (app) => cancel(app, auditId, options)),
    ),
  );
}

async function cancel(
  app: App,
  auditId: bigint,
  { seller, json }: CommonOptions,
): Promise<ExitCode> {
  await findAudit(app, auditId, seller);
  await app.store.audits.cancel(auditId);
  const audit = await findAudit(app, auditId, seller);
  if (audit.state === 'finished') {
    throw new CommandError(
      `audit ${auditId} is finished: there is nothing to cancel`,
      `\`${ownCommand()} audits export ${auditId}\` writes its result`,
    );
  }
  if (json === true) await printJson({ audit });
  else await print(await summaryOf(app, audit, null, stdoutLook()));
  return EXIT.done;
}

interface ExportOptions extends CommonOptions {
  readonly out: string;
  readonly format?: ResultFormat;
}

function addExport(audits: Command): void {
  const command = audits
    .command('export')
    .summary('write the result of an audit')
    .description(
      'Writes the list of an audit, in its order and with its own columns, with the verdict about each code beside them. Also works before the audit ends.',
    )
    .argument('<audit>', 'the audit’s number', auditNumber)
    .option('--out <file>', 'the file, which is written whole or not at all; - is stdout', STDOUT)
    .addOption(
      new Option('--format <format>', 'by default the ending of --out, else csv').choices(
        RESULT_FORMATS,
      ),
    )
    .addHelpText(
      'after',
      `${RESULT_HELP}\n\nExamples:\n  $ seller-mirror audits export 12 --out result.csv\n  $ seller-mirror audits export 12 --format ndjson | jq -r 'select(.verdict == "invalid").code'`,
    );
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: ExportOptions) =>
    execute(async (signal) => {
      const place = exportPlace(options);
      await checkOut(place);
      return withApp('audits export', 'store', signal, (app) =>
        exportAudit(app, auditId, place, options.seller, signal),
      );
    }),
  );
}

/**
 * `--json` is for scripts here as everywhere: the result itself as JSON.
 * @throws {CommandError} when `--format` or the file's name says another format
 */
function exportPlace({ out, format, json }: ExportOptions): OutPlace {
  if (json !== true) return outPlace(out, format);
  if (format !== undefined && format !== 'json') {
    throw usageError('--json and --format differ', 'leave one of them out');
  }
  const named = formatOf(out);
  if (format === undefined && named !== null && named !== 'json') {
    throw usageError(
      `--json and the ending of ${JSON.stringify(out)} differ`,
      'leave --json out, or name a file ending in .json',
    );
  }
  return outPlace(out, 'json');
}

async function exportAudit(
  app: App,
  auditId: bigint,
  place: OutPlace,
  seller: string | undefined,
  signal: AbortSignal,
): Promise<ExitCode> {
  const audit = await findAudit(app, auditId, seller);
  await writeResult(app, auditId, place, signal);
  if (audit.pending > 0) {
    note(
      `The audit has not ended: ${count(audit.pending)} of ${count(audit.codes)} codes are "pending".\n`,
    );
  }
  if (place.path !== null) note(`written: ${safeLine(place.path)}\n`);
  return EXIT.done;
}
