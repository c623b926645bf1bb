import { isUserError, UserError } from '../../domain/user-error.js';
import { addAbortSignal } from 'node:stream';
import type { Command } from 'commander';
import { errorCode } from '../../domain/error-code.js';
import { explainDatabaseError } from '../../db/errors.js';
import { assertOrdinaryRole, queryReadOnly } from '../../db/read-only.js';
import { usageError } from '../errors.js';
import { action, withApp } from '../execute.js';
import { describeCommand } from '../options.js';
import { formatOption, type FormatOptions } from '../rows.js';
import { printQuery } from '../query.js';
import { outOption } from '../out-file.js';

export function add(program: Command): void {
  const command = program
    .command('sql')
    .argument('<statement>', 'the statement, or - for stdin')
    .addOption(formatOption('rows'))
    .option('--json', 'the same as --format json');
  describeCommand(command, {
    about:
      'Runs one read-only SQL statement. Views for reports are in schema reporting, tables in schema mirror. `-` reads the statement from stdin.',
    notes:
      'In CSV, NULL is an empty cell, and text that a spreadsheet would run as a formula gets an apostrophe.\nIn JSON, decimals such as money, and whole numbers beyond 2^53, are text. A table repeats its header every 500 rows.',
    examples: [
      'seller-mirror sql "select name, price_regular from reporting.items"',
      'seller-mirror sql --format csv - < report.sql > report.csv',
    ],
    options: [
      ...outOption('write the rows to this file, in the format of its ending'),
      'decimalComma',
      'quiet',
      'vertical',
      'pager',
    ],
  }).action(action(sql));
}

async function sql(signal: AbortSignal, argument: string, options: FormatOptions): Promise<void> {
  const statement = argument === '-' ? await readStdin(signal) : argument;
  await withApp('sql', 'store', signal, async ({ database: { url } }) => {
    await assertOrdinaryRole(url, signal);
    try {
      await queryReadOnly(url, statement, (rows) => printQuery(rows, options, signal), signal);
    } catch (error) {
      if (isUserError(error, 'NO_ROWS')) throw usageError(error.message, error.remedy);
      throw explainDatabaseError(error, url) ?? queryProblem(error, statement) ?? error;
    }
  });
}

const MAX_CHARACTERS = 16 * 1024 * 1024;

async function readStdin(signal: AbortSignal): Promise<string> {
  if (process.stdin.isTTY) process.stderr.write('Type the statement, then Ctrl-D:\n');
  let text = '';
  const input = addAbortSignal(signal, process.stdin).setEncoding('utf8');
  for await (const part of input as AsyncIterable<string>) {
    text += part;
    if (text.length > MAX_CHARACTERS) {
      throw usageError('the statement is too long', 'load data with psql');
    }
  }
  return text.replace(/^\uFEFF/, '');
}

interface QueryError extends Error {
  readonly hint?: string;
  readonly detail?: string;
  readonly position?: string;
}

/** Explains PostgreSQL's error about a statement, with its position and hint; null for other errors. */
function queryProblem(error: unknown, statement: string): UserError | null {
  const code = errorCode(error);
  if (!(error instanceof Error) || !/^[0-9A-Z]{5}$/.test(code)) return null;
  const { message, hint, detail, position } = error as QueryError;
  if (code === '25006') {
    return new UserError(
      `this command only reads: ${message}`,
      'to change data, connect with psql; `seller-mirror db start` says how',
      'FAILED',
    );
  }
  if (code === '42601' && message.includes('multiple commands')) {
    return new UserError(
      'there is more than one statement',
      'run each with its own `seller-mirror sql`',
      'FAILED',
    );
  }
  const remedy = hint || detail || REMEDIES[code] || '';
  return new UserError(`${message}${placeOf(Number(position), statement)}`, remedy, 'FAILED');
}

/** ` (line 2, character 6)`. PostgreSQL gives a position in characters from 1, without lines. */
function placeOf(position: number, statement: string): string {
  if (!Number.isInteger(position) || position < 1) return '';
  const before = Array.from(statement)
    .slice(0, position - 1)
    .join('')
    .split('\n');
  const character = `character ${Array.from(before.at(-1) ?? '').length + 1}`;
  return before.length === 1 ? ` (${character})` : ` (line ${before.length}, ${character})`;
}

const VIEWS = 'views are in schema reporting, such as reporting.items; tables in schema mirror';

const REMEDIES: Readonly<Record<string, string>> = {
  '42P01': VIEWS,
  '3F000': VIEWS,
  '57014': 'the server cancelled it; ask for fewer rows at a time',
};
