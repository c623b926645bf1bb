import { afterEach, expect, it, vi } from 'vitest';
import { LiveProgress } from '../../src/dashboard/live.js';

afterEach(() => {
  vi.useRealTimers();
});

it('the version of pages changes each minute, since their ages do', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: new Date('2026-11-25T10:00:59Z') });
  const live = new LiveProgress(() => Promise.resolve({ runs: [], audits: [], newest: '1/1/1' }));
  const version = await live.version();
  expect(await live.version()).toBe(version);
  vi.setSystemTime(new Date('2026-11-25T10:01:00Z'));
  expect(await live.version()).not.toBe(version);
});
