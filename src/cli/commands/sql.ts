import { addAbortSignal } from 'node:stream';
import { Option, type Command } from 'commander';
import { errorCode, explainDatabaseError } from '../../store/errors.js';
import { queryReadOnly } from '../../store/read-only.js';
import { NoRowsError } from '../../store/text-cursor.js';
import { CommandError, usageError } from '../errors.js';
import { execute, withApp } from '../execute.js';
import { EXIT, type ExitCode } from '../exit-codes.js';
import { type TableOptions, withTableOptions } from '../options.js';
import { FORMATS, type Format, writeRows } from '../rows.js';

interface SqlOptions extends TableOptions {
  readonly format?: Format;
  readonly json?: true;
}

/** `sql "select …"`: a read-only query, also where psql is not installed. */
export function addSql(program: Command): void {
  const command = program
    .command('sql')
    .description(
      'Runs one read-only SQL statement. Views for reports are in schema reporting, tables in schema mirror. `-` reads the statement from stdin.',
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
        throw usageError(error.message, error.remedy);
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
      throw usageError('the statement is too long', 'load data with psql');
    }
  }
  return text.replace(/^\uFEFF/, '');
}

// Codes of PostgreSQL's errors.
const READ_ONLY = '25006';
const SYNTAX = '42601';
const DENIED = '42501';
const CANCELLED = '57014';

/** PostgreSQL's error about a statement, with its place and hint; null for any other error. */
function queryProblem(error: unknown, statement: string): CommandError | null {
  const code = errorCode(error);
  if (!(error instanceof Error) || !/^[0-9A-Z]{5}$/.test(code)) return null;
  const message = error.message;
  if (code === READ_ONLY) {
    return new CommandError(
      `this command only reads: ${message}`,
      'to change data, connect with psql; `seller-mirror db start` tells how',
    );
  }
  if (code === SYNTAX && message.includes('multiple commands')) {
    return new CommandError(
      'there is more than one statement',
      'run them one after the other, each with its own `seller-mirror sql`',
    );
  }
  return new CommandError(
    `${message}${placeOf(error, statement)}`,
    textOf(error, 'hint') ?? textOf(error, 'detail') ?? remedyOf(code),
  );
}

/** The line and character of an error. PostgreSQL counts characters from 1, without lines. */
function placeOf(error: Error, statement: string): string {
  const position = Number(textOf(error, 'position'));
  if (!Number.isInteger(position) || position < 1) return '';
  const before = Array.from(statement)
    .slice(0, position - 1)
    .join('')
    .split('\n');
  const column = Array.from(before.at(-1) ?? '').length + 1;
  return before.length === 1
    ? ` (character ${column})`
    : ` (line ${before.length}, character ${column})`;
}

function textOf(error: Error, field: 'hint' | 'detail' | 'position'): string | null {
  const value: unknown = (error as Error & Partial<Record<typeof field, unknown>>)[field];
  return typeof value === 'string' && value !== '' ? value : null;
}

function remedyOf(code: string): string | null {
  if (code === '42P01' || code === '3F000') {
    return 'views are in schema reporting, such as reporting.items; tables in schema mirror';
  }
  if (code === DENIED) return 'this command reads schemas reporting and mirror, and nothing else';
  return code === CANCELLED ? 'the server cancelled it; ask for less at a time' : null;
}
