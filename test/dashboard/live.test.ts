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

it('no time left is told by a first step that began before anybody watched: purchases are recorded 75 at a time', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const live = new LiveProgress(() => Promise.reject(new Error('not asked')));
  const endAt = (valid: number): string | null => {
    const audit = {
      auditId: '1',
      sellerId: 'main',
      source: 'a list',
      problem: null,
      resumeAt: null,
    };
    const counts = {
      codes: 240,
      reused: 0,
      valid,
      invalid: 0,
      noLongerValid: 0,
      unproven: 0,
      pending: 240 - valid,
    };
    const denials = { denied: 0, asked: null };
    const audits = [{ ...audit, ...counts, ...denials }];
    return live.barsOf({ runs: [], audits, newest: '' })[0]?.endsAt ?? null;
  };
  expect(endAt(10)).toBeNull();
  vi.advanceTimersByTime(1_000);
  expect(endAt(85)).toBeNull();
  vi.advanceTimersByTime(20_000);
  expect(endAt(160)).not.toBeNull();
});
