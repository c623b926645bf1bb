import { addAbortSignal } from 'node:stream';
import { Option, type Command } from 'commander';
import { explainDatabaseError } from '../../store/errors.js';
import { queryReadOnly } from '../../store/read-only.js';
import { NoRowsError } from '../../store/text-cursor.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { queryProblem } from '../query-problem.js';
import { withTableOptions, type TableOptions } from '../options.js';
import { FORMATS, writeRows, type Format } from '../rows-out.js';

interface SqlOptions extends TableOptions {
  readonly format?: Format;
  readonly json?: true;
}

/** `sql "select …"`: for those without psql. */
export function addSql(program: Command): void {
  const command = program
    .command('sql')
    .description(
      'Runs one SQL statement that can only read. Views for reports are in schema reporting, tables in schema mirror. `-` reads the statement from stdin.',
    )
    .argument('<statement>', 'the statement, or - for stdin')
    .addOption(
      new Option('--format <format>', 'how to print rows (default: table)').choices(FORMATS),
    )
    .addOption(new Option('--json', 'the same as --format json').conflicts('format'))
    .addHelpText(
      'after',
      '\nIn CSV, NULL is empty and text that a spreadsheet would take for a formula gets an apostrophe.\nIn JSON, decimals such as money, and whole numbers beyond 2^53, are text. A table repeats its header every 500 rows.\n\nExamples:\n  $ seller-mirror sql "select name, price_regular from reporting.items"\n  $ seller-mirror sql --format csv - < report.sql > report.csv',
    );
  withTableOptions(command).action((statement: string, options: SqlOptions) =>
    execute((signal) => sql(statement, options, signal)),
  );
}

async function sql(argument: string, options: SqlOptions, signal: AbortSignal): Promise<ExitCode> {
  const format = options.json === true ? 'json' : (options.format ?? 'table');
  const statement = argument === '-' ? await readStdin(signal) : argument;
  return withApp('sql', 'store', signal, async ({ database }) => {
    const url = await database.readOnlyUrl(signal);
    try {
      await queryReadOnly(url, statement, (answer) => writeRows(answer, format, options), signal);
      return EXIT.done;
    } catch (error) {
      if (error instanceof NoRowsError) {
        throw new CommandError(error.message, error.remedy, EXIT.usage);
      }
      throw explainDatabaseError(error, url) ?? queryProblem(error, statement) ?? error;
    }
  });
}

const MOST_CHARACTERS = 16 * 1024 * 1024;

async function readStdin(signal: AbortSignal): Promise<string> {
  if (process.stdin.isTTY) process.stderr.write('Type the statement, then Ctrl-D:\n');
  let text = '';
  const input = addAbortSignal(signal, process.stdin).setEncoding('utf8');
  for await (const part of input as AsyncIterable<string>) {
    text += part;
    if (text.length > MOST_CHARACTERS) {
      throw new CommandError('the statement is too long', 'load data with psql', EXIT.usage);
    }
  }
  return text.replace(/^\uFEFF/, '');
}
