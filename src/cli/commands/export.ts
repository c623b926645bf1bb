import { InvalidArgumentError, Option, type Command } from 'commander';
import { parseCursor, type FeedCursor } from '../../domain/feed-cursor.js';
import { EXPORT_FORMATS } from '../../export/index.js';
import { withExports } from '../../store/exports.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { findView } from '../export/find-view.js';
import { listViews } from '../export/list-views.js';
import { placeOf, type ExportOptions } from '../export/request.js';
import { runExport } from '../export/run-export.js';
import { withCommonOptions } from '../options.js';

const HELP = `
CSV is RFC 4180: NULL is an empty cell, an empty text "". Text that a spreadsheet would take for a
formula gets an apostrophe in front; for databases, --raw leaves it as it is. NDJSON and Parquet are
always exact. A file is written whole or not at all.

Views with a key can be followed: with --since, or a cursor file, only rows written after the cursor
come, and a column _deleted tells those that are gone. Nothing is missed, whoever writes meanwhile; a
row may come again, so load them by their key. A cursor file is read, and written once the export is.

Examples:
  $ seller-mirror export
  $ seller-mirror export purchases --out purchases.parquet
  $ seller-mirror export items --raw --since 4711 --out changed.csv
  $ seller-mirror export items --format ndjson --cursor-file items.cursor | gzip > "items-$(date +%F).ndjson.gz"`;

/** `export VIEW`: what other databases are fed with. */
export function addExport(program: Command): void {
  const command = program
    .command('export')
    .description(
      'Writes the rows of a view of schema reporting, all as they are at one moment. Without a view it lists those there are.',
    )
    .argument('[view]', 'the view, such as items')
    .addOption(
      new Option('--format <format>', 'by default the ending of --out, else csv').choices(
        EXPORT_FORMATS,
      ),
    )
    .option('--out <file>', 'the file; - is stdout (default: -)')
    .addOption(
      new Option('--since <cursor>', 'only what was written after this cursor').argParser(
        cursorArgument,
      ),
    )
    .addOption(
      new Option(
        '--cursor-file <file>',
        'go on from the cursor in this file, then write the next one into it',
      ).conflicts('since'),
    )
    .option('--next-cursor-file <file>', 'write the next cursor here instead')
    .option('--raw', 'in CSV, leave text that looks like a formula as it is')
    .addHelpText('after', HELP);
  withCommonOptions(command, { seller: true }).action(
    (view: string | undefined, options: ExportOptions) =>
      execute((signal) =>
        view === undefined ? list(options, signal) : exportView(view, options, signal),
      ),
  );
}

function cursorArgument(text: string): FeedCursor {
  const cursor = parseCursor(text);
  if (cursor !== null) return cursor;
  throw new InvalidArgumentError(
    `"${text}" is no cursor: an earlier export gave one, such as 4711.`,
  );
}

function list({ json }: ExportOptions, signal: AbortSignal): Promise<ExitCode> {
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withExports(url, signal, async (exports) => {
      await listViews(await exports.views(), json === true);
      return EXIT.done;
    }),
  );
}

function exportView(name: string, options: ExportOptions, signal: AbortSignal): Promise<ExitCode> {
  const place = placeOf(options, process.stdout.isTTY);
  return withApp('export', 'store', signal, ({ database: { url } }) =>
    withExports(url, signal, async (exports) => {
      const view = await findView(exports, name, options);
      return runExport(exports, view, place, options, signal);
    }),
  );
}
