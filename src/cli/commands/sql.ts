import { addAbortSignal } from 'node:stream';
import { Option, type Command } from 'commander';
import { explainDatabaseError } from '../../store/errors.js';
import { queryReadOnly } from '../../store/read-only.js';
import { CommandError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { writeAll } from '../output/index.js';
import { queryProblem } from '../query-problem.js';
import { FORMATS, linesOf, type Format } from '../rows-out.js';

interface SqlOptions {
  readonly format?: Format;
  readonly json?: true;
}

/** `sql "select …"`: for those without psql. */
export function addSql(program: Command): void {
  program
    .command('sql')
    .summary('ask the copy with SQL (read-only)')
    .description(
      'Runs one SQL statement in a read-only transaction. Views for reports are in schema reporting, tables in schema mirror. `-` reads the statement from stdin.',
    )
    .argument('<statement>', 'the statement, or - for stdin')
    .addOption(
      new Option('--format <format>', 'how to print rows (default: table)').choices(FORMATS),
    )
    .addOption(new Option('--json', 'the same as --format json').conflicts('format'))
    .addHelpText(
      'after',
      '\nIn CSV, NULL is empty and text that a spreadsheet would take for a formula gets an apostrophe.\nIn JSON, numbers that a double can’t hold exactly are text. A table repeats its header every 500 rows.\n\nExamples:\n  $ seller-mirror sql "select name, price_regular from reporting.items"\n  $ seller-mirror sql --format csv - < report.sql > report.csv',
    )
    .action((statement: string, options: SqlOptions) =>
      execute((signal) => sql(statement, options, signal)),
    );
}

/**
 * The arguments of the program, in which SQL that begins with a comment is no option: with a blank
 * before it, it means the same to PostgreSQL.
 */
export function withStatement(argv: readonly string[]): readonly string[] {
  if (argv[2] !== 'sql') return argv;
  return argv.map((argument) => (/^--\s/.test(argument) ? ` ${argument}` : argument));
}

async function sql(
  argument: string,
  { format, json }: SqlOptions,
  signal: AbortSignal,
): Promise<ExitCode> {
  const statement = argument === '-' ? await readStdin(signal) : argument;
  checkStatement(statement);
  return withApp('sql', 'store', signal, async (app) => {
    const { url } = app.database;
    try {
      await queryReadOnly(
        url,
        statement,
        (answer) =>
          writeAll(process.stdout, linesOf(answer, json === true ? 'json' : (format ?? 'table'))),
        signal,
      );
      return EXIT.done;
    } catch (error) {
      throw explainDatabaseError(error, url) ?? queryProblem(error, statement) ?? error;
    }
  });
}

/** What PostgreSQL can't say as well as we can. */
function checkStatement(statement: string): void {
  const start = statement.replace(/^(?:\s|--.*(?:\n|$)|\/\*[^]*?\*\/)+/, '');
  if (start.replaceAll(';', '').trim() === '') {
    throw new CommandError(
      'there is no statement to run',
      'for example: seller-mirror sql "select * from reporting.items"',
      EXIT.usage,
    );
  }
  if (/^copy\b/i.test(start)) {
    throw new CommandError(
      'COPY is for programs that speak its protocol',
      'select the rows, and say --format csv',
      EXIT.usage,
    );
  }
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
