import { Option, type Command } from 'commander';
import type { App } from '../../app.js';
import { RESULT_FORMATS, type ResultFormat } from '../../intake/index.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { count, safeLine } from '../output/index.js';
import { withCommonOptions, type CommonOptions } from '../options.js';
import { findAudit } from './find-audit.js';
import { auditNumber, RESULT_HELP } from './options.js';
import { checkOut, formatOf, outPlace, STDOUT, type OutPlace } from './out-place.js';
import { writeResult } from './write-result.js';

interface ExportOptions extends CommonOptions {
  readonly out: string;
  readonly format?: ResultFormat;
}

/** `codes export ID`: the list with what came of it. */
export function addExport(codes: Command): void {
  const command = codes
    .command('export')
    .summary('write the result of an audit')
    .description(
      'Writes the list of an audit as it came, in its order and with its own columns, and beside them what is known of each code. Of an audit that has not ended too.',
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
      `${RESULT_HELP}\n\nExamples:\n  $ seller-mirror codes export 12 --out result.csv\n  $ seller-mirror codes export 12 --format ndjson | jq -r 'select(.verdict == "invalid").code'`,
    );
  withCommonOptions(command, { seller: true }).action((auditId: bigint, options: ExportOptions) =>
    execute(async (signal) => {
      const place = placeOf(options);
      await checkOut(place);
      return withApp('codes export', 'store', signal, (app) =>
        exportAudit(app, auditId, place, options.seller, signal),
      );
    }),
  );
}

/**
 * `--json` is for scripts here as everywhere: the result itself as JSON.
 * @throws {CommandError} when `--format` or the file's name says another format
 */
function placeOf({ out, format, json }: ExportOptions): OutPlace {
  if (json !== true) return outPlace(out, format, '--format');
  if (format !== undefined && format !== 'json') {
    throw new CommandError('--json and --format differ', 'leave one of them out', EXIT.usage);
  }
  const named = formatOf(out);
  if (format === undefined && named !== null && named !== 'json') {
    throw new CommandError(
      `--json and the ending of ${JSON.stringify(out)} differ`,
      'leave --json out, or name a file ending in .json',
      EXIT.usage,
    );
  }
  return outPlace(out, 'json', '--format');
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
    process.stderr.write(
      `The audit has not ended: ${count(audit.pending)} of ${count(audit.codes)} codes are "pending".\n`,
    );
  }
  if (place.path !== null) process.stderr.write(`written: ${safeLine(place.path)}\n`);
  return EXIT.done;
}
