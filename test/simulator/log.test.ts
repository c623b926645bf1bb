import { expect, test } from 'vitest';
import { record } from '../../src/simulator/log.js';
import type { LogEntry } from '../../src/simulator/log.js';

test('the log keeps the last 100,000 requests and no more, or a long bench would fill memory', () => {
  const log: LogEntry[] = [];
  for (let at = 1; at <= 250_000; at++) record(log, { at } as LogEntry);
  expect(log.length).toBeGreaterThanOrEqual(100_000);
  expect(log.length).toBeLessThan(110_000);
  expect(log.at(-1)?.at).toBe(250_000);
  expect(log[0]?.at).toBe(250_000 - log.length + 1);
});
