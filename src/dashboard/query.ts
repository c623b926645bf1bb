import type { Config } from '../config/index.js';
import { readCell } from '../marketplace/code.js';
import { cellMasker } from '../domain/redact.js';
import { type DashboardContext, Problem } from './context.js';

/** Reads the fields of a form. @throws {Problem} when the body is malformed */
export async function readForm(c: DashboardContext): Promise<Readonly<Record<string, unknown>>> {
  return c.req.parseBody().catch(() => {
    throw new Problem('Nothing was changed', 'The form arrived incomplete. Send it again.');
  });
}

/** Returns a path of this dashboard; `/` for anything that could lead elsewhere. */
export function localPath(to: unknown): string {
  return typeof to === 'string' && /^\/(?![/\\])[!-[\]-~]*$/.test(to) ? to : '/';
}

/** Path of the page that sent the request, such as the page of a form; `/` if unknown. */
export function pageBefore(c: DashboardContext): string {
  const referrer = c.req.header('referer') ?? '';
  if (!URL.canParse(referrer)) return '/';
  const { host, pathname, searchParams } = new URL(referrer);
  if (host !== (c.req.header('host') ?? new URL(c.req.url).host)) return '/';
  searchParams.delete('notice');
  return localPath(`${pathname}${searchParams.size === 0 ? '' : '?'}${searchParams.toString()}`);
}

/** Parses an id in a path. @throws {Problem} (404) when it is not a number */
export function parseId(text: string): bigint {
  const id = parseNumber(text);
  if (id === null) throw new Problem('Page not found', 'Check the address.', 404);
  return id;
}

/** Parses a whole number in a query; null when it is not one. */
export function parseNumber(text: string | undefined): bigint | null {
  return text !== undefined && /^\d{1,18}$/.test(text) ? BigInt(text) : null;
}

/** Parses a day such as `2026-11-23`. @returns its start in the server's time zone; null when invalid */
export function parseDay(text: string): Date | null {
  const [, date] = /^\d{4}-\d\d-(\d\d)$/.exec(text) ?? [];
  const start = new Date(`${text}T00:00:00`);
  // `Date` turns February 31 into a day in March.
  return date !== undefined && start.getDate() === Number(date) ? start : null;
}

/** Returns the text if it is one of the values. */
export function oneOf<const T extends string>(values: readonly T[], text: unknown): T | undefined {
  return values.find((value) => value === text);
}

/**
 * Parses a purchase code from a form.
 * @param label names the field, at the start of a sentence
 * @throws {Problem} when it is no code, or an API key
 */
export function parseCode(
  input: unknown,
  { sellers }: Pick<Config, 'sellers'>,
  label: string,
): string {
  const reading = readCell(typeof input === 'string' ? input : '');
  if ('reason' in reading) {
    const remedy = 'Copy the code exactly as the buyer sent it.';
    throw new Problem(`${label} ${reading.fault}`, remedy);
  }
  const mask = cellMasker(sellers.map(({ key }) => key));
  if (mask(reading.code) === reading.code) return reading.code;
  throw new Problem(
    'That is an API key, not a purchase code. It was neither sent nor saved',
    'Enter a purchase code.',
  );
}
