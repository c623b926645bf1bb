import type { Config } from '../config/index.js';
import { describeCodeFault, readCode } from '../domain/codes/code.js';
import { cellMasker } from '../domain/redact.js';
import { Problem, type DashboardContext } from './context.js';

/** The fields of a form. @throws {Problem} when it is broken */
export async function formIn(c: DashboardContext): Promise<Readonly<Record<string, unknown>>> {
  return c.req.parseBody().catch(() => {
    throw new Problem('Nothing was done', 'The form did not arrive whole: send it again.');
  });
}

/** A number in a path. @throws {Problem} when it is none */
export function idIn(text: string): bigint {
  const id = numberIn(text);
  if (id === null) throw new Problem('There is no such page', 'The address may be mistyped.', 404);
  return id;
}

/** A whole number in a query; null when it is none. */
export function numberIn(text: string | undefined): bigint | null {
  return text !== undefined && /^\d{1,18}$/.test(text) ? BigInt(text) : null;
}

/** The first moment of a day such as `2026-11-23`, in the server's time zone; null when it is none. */
export function dayIn(text: string): Date | null {
  const [, date] = /^\d{4}-\d\d-(\d\d)$/.exec(text) ?? [];
  const start = new Date(`${text}T00:00:00`);
  // The 31st of February would be a day in March.
  return date !== undefined && start.getDate() === Number(date) ? start : null;
}

/** The one of some words that a text is. */
export function oneOf<const T extends string>(
  all: readonly T[],
  text: string | undefined,
): T | undefined {
  return all.find((one) => one === text);
}

/**
 * A purchase code that somebody typed.
 * @param what it is, at the start of a sentence
 * @throws {Problem} when it is none, or an API key
 */
export function codeIn(given: unknown, { sellers }: Pick<Config, 'sellers'>, what: string): string {
  const reading = readCode(typeof given === 'string' ? given : '');
  if ('reason' in reading) {
    throw new Problem(`${what} ${describeCodeFault(reading.reason)}`, 'Type it as you have it.');
  }
  const mask = cellMasker(sellers.map(({ key }) => key));
  if (mask(reading.code) === reading.code) return reading.code;
  throw new Problem(
    'An API key was given in place of a purchase code: it was not sent, and is not kept',
    'Give the code of a purchase.',
  );
}
