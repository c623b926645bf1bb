import { describe, expect, it } from 'vitest';
import { Rate } from '../../src/domain/rate.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** What one stretch of the work is like. */
interface Stretch {
  /** Milliseconds; the last stretch lasts until all is done. */
  readonly forMs: number;
  readonly perSecond: number;
  /** The work is known to be paused. */
  readonly isPaused?: boolean;
}

/** Time between two looks at the work, milliseconds. */
const LOOK_MS = 250;
/** Estimates are not looked at where fewer steps than these are left: the last one is under way, unseen. */
const STEPS_LEFT = 8;

/** How much is done at each look, until `total` is. */
function course(stretches: readonly Stretch[], total: number) {
  const looks = [{ done: 0, isPaused: false }];
  let done = 0;
  for (const { forMs, perSecond, isPaused = false } of stretches) {
    for (let ms = 0; ms < forMs && done < total; ms += LOOK_MS) {
      done = Math.min(total, done + (perSecond * LOOK_MS) / 1_000);
      looks.push({ done, isPaused });
    }
  }
  return looks;
}

/**
 * How far off the worst estimate is, as a part of what was left.
 * @param step what is done becomes known in steps of so much
 * @param from looks before this are left out, seconds
 */
function worstEstimate(stretches: readonly Stretch[], total: number, step: number, from: number) {
  const looks = course(stretches, total);
  const rate = new Rate(0, 0);
  let worst = 0;
  let workLeft = looks.filter(({ isPaused }) => !isPaused).length;
  for (const [index, { done, isPaused }] of looks.entries()) {
    const at = index * LOOK_MS;
    const known = Math.floor(done / step) * step;
    rate.note(known, at);
    if (isPaused) {
      rate.pause(at);
      continue;
    }
    workLeft--;
    if (at < from * SECOND || total - known < STEPS_LEFT * step) continue;
    const leftMs = workLeft * LOOK_MS;
    worst = Math.max(worst, Math.abs((total - known) / rate.perMs(at) - leftMs) / leftMs);
  }
  return worst;
}

const FOREVER = Infinity;

describe('the time left that a rate tells', () => {
  it.each([
    ['that is steady', [{ forMs: FOREVER, perSecond: 800 }], 20_000, 250, 3],
    [
      'without a budget, after a slow start',
      [
        { forMs: 2_500, perSecond: 0 },
        { forMs: 1_500, perSecond: 400 },
        { forMs: FOREVER, perSecond: 900 },
      ],
      20_000,
      200,
      12,
    ],
    ['of one code a second', [{ forMs: FOREVER, perSecond: 1 }], 200, 1, 5],
    ['of large steps that are seldom', [{ forMs: FOREVER, perSecond: 1 }], 600, 25, 60],
    [
      'that becomes a third on the way',
      [
        { forMs: 30 * SECOND, perSecond: 300 },
        { forMs: FOREVER, perSecond: 100 },
      ],
      24_000,
      50,
      75,
    ],
    [
      'that becomes three times as high',
      [
        { forMs: 60 * SECOND, perSecond: 50 },
        { forMs: FOREVER, perSecond: 150 },
      ],
      24_000,
      50,
      100,
    ],
    [
      'with pauses that the marketplace asks for',
      [
        { forMs: 20 * SECOND, perSecond: 20 },
        { forMs: MINUTE, perSecond: 0, isPaused: true },
        { forMs: 20 * SECOND, perSecond: 20 },
        { forMs: MINUTE, perSecond: 0, isPaused: true },
        { forMs: FOREVER, perSecond: 20 },
      ],
      1_600,
      5,
      5,
    ],
  ] as const)('is within a fifth of what work takes %s', (_, stretches, total, step, from) => {
    const worst = worstEstimate(stretches, total, step, from);
    expect(worst).toBeLessThan(0.2);
  });

  it('is unknown before anything is done, and grows while nothing comes', () => {
    const rate = new Rate(500, 0);
    expect(rate.perMs(5_000)).toBe(0);
    rate.note(600, 5_000);
    rate.note(700, 6_000);
    expect(rate.perMs(6_000)).toBe(0.1);
    expect(rate.perMs(7_000)).toBe(0.1);
    expect(rate.perMs(26_000)).toBeLessThan(0.01);
  });

  it('begins afresh with another piece of work, of which less is done', () => {
    const rate = new Rate(0, 0);
    rate.note(1_000, 1_000);
    rate.note(10, 2_000);
    expect(rate.perMs(2_000)).toBe(0);
    rate.note(30, 3_000);
    expect(rate.perMs(3_000)).toBe(0.02);
  });
});
