import { expect, it } from 'vitest';
import { describeDenials } from '../../../src/domain/codes/second-look.js';

const firstAt = new Date('2026-11-21T10:00:00.400Z');
const after = (seconds: number): Date => new Date(firstAt.getTime() + seconds * 1_000);

it.each([
  [1, 0, 'denied once, at 2026-11-21 10:00:00Z'],
  [2, 5.2, 'denied twice, 5 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:00:05Z'],
  [2, 61, 'denied twice, 61 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:01:01Z'],
  [2, 119, 'denied twice, 119 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 10:01:59Z'],
  [2, 7_100, 'denied twice, 118 min apart, at 2026-11-21 10:00:00Z and 2026-11-21 11:58:20Z'],
  [2, 108_000, 'denied twice, 30 h apart, at 2026-11-21 10:00:00Z and 2026-11-22 16:00:00Z'],
  [4, 185, 'denied 4 times within 3 min, from 2026-11-21 10:00:00Z to 2026-11-21 10:03:05Z'],
  // A clock that was set back.
  [2, -3, 'denied twice, 0 s apart, at 2026-11-21 10:00:00Z and 2026-11-21 09:59:57Z'],
])('%i denials, the last after %f s, are told in one sentence', (times, seconds, sentence) => {
  expect(describeDenials({ times, firstAt, lastAt: after(seconds) })).toBe(sentence);
});
