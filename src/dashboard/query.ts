import { Problem } from './context.js';

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
