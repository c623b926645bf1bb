import type { LogFields } from '../domain/log.js';

/** What a line has of itself; fields of these names get another. */
export const OWN_NAMES: ReadonlySet<string> = new Set(['level', 'time', 'msg', 'pid']);

export const UNREADABLE = '[unreadable]';

/** The fields as they are now, under names that the log does not use itself. */
export function copied(fields: LogFields): LogFields {
  const names = Object.keys(fields);
  return Object.fromEntries(
    names.map((name) => [OWN_NAMES.has(name) ? `${name}_` : name, read(fields, name)]),
  );
}

/** A member of an object whose getters may throw. */
export function read(source: object, name: string): unknown {
  try {
    return (source as Record<string, unknown>)[name];
  } catch {
    return UNREADABLE;
  }
}
