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

/** The one of some words that a text is. */
export function oneOf<const T extends string>(
  all: readonly T[],
  text: string | undefined,
): T | undefined {
  return all.find((one) => one === text);
}

/** A query with one value changed. */
export function withValue(query: URLSearchParams, name: string, value: string): string {
  const changed = new URLSearchParams(query);
  changed.set(name, value);
  changed.delete('notice');
  return changed.toString();
}

/** A query without one of its values. */
export function without(query: URLSearchParams, name: string): string {
  const changed = new URLSearchParams(query);
  changed.delete(name);
  changed.delete('notice');
  return changed.toString();
}
