import fc from 'fast-check';
import { Secret } from '../../src/domain/secret.js';
import { createLog, type LogOptions } from '../../src/log/index.js';

/** Creates a log that collects its lines. `last` parses the last line. */
export function useLog(
  options: Partial<Omit<LogOptions, 'secrets'>> & { secrets?: string[] } = {},
) {
  const lines: string[] = [];
  const log = createLog({
    level: 'info',
    format: 'json',
    colors: false,
    write: (line) => lines.push(line),
    ...options,
    secrets: (options.secrets ?? []).map((text) => new Secret(text)),
  });
  return {
    log,
    lines,
    last: () => JSON.parse(lines.at(-1) ?? 'null') as Record<string, unknown>,
  };
}

/** Values that contain a given text, by description. */
export const CONTAINERS: Readonly<Record<string, (text: string) => unknown>> = {
  'a text': (text) => text,
  'a list': (text) => [1, [text]],
  'an object': (text) => ({ a: { b: text } }),
  'a name': (text) => ({ [text]: 1 }),
  'an error': (text) => new Error(`failed with ${text}`),
  'a cause': (text) => new Error('failed', { cause: new TypeError(text) }),
  'errors together': (text) => new AggregateError([new Error(text)], 'failed'),
  'an address': (text) => new URL(`https://a.example/?key=${encodeURIComponent(text)}`),
  'a query': (text) => `https://a.example/?${new URLSearchParams({ key: text }).toString()}`,
  'a login': (text) => `redis://me:${encodeURIComponent(text)}@cache`,
};

/** Texts that could be keys or passwords, too long to occur in a line by chance. */
export const secretText = fc
  .string({ unit: 'grapheme-ascii', minLength: 12, maxLength: 80 })
  .filter((text) => text.trim() === text && text.isWellFormed());

/** Purchase codes in their two usual forms. */
export const purchaseCode = fc.oneof(
  fc.uuid(),
  fc.string({
    unit: fc.constantFrom(...'0123456789abcdef'.split('')),
    minLength: 32,
    maxLength: 64,
  }),
);
