import { errorCode } from '../store/errors.js';
import { CommandError } from './errors.js';

const READ_ONLY = '25006';
const SYNTAX = '42601';
const DENIED = '42501';

/**
 * What PostgreSQL says against a statement, with its place and hint; null when the error is no
 * answer of PostgreSQL's.
 */
export function queryProblem(error: unknown, statement: string): CommandError | null {
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

/** PostgreSQL counts characters from 1; people count lines. */
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
  return code === '57014' ? 'the server ended it; ask for less at a time' : null;
}
