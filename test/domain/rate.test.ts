import { describe, expect, it } from 'vitest';
import { Rate } from '../../src/domain/rate.js';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

/** A phase of the work at one speed. */
interface Phase {
  /** Milliseconds; the last phase lasts until all is done. */
  readonly forMs: number;
  readonly perSecond: number;
  /** The work is known to be paused. */
  readonly isPaused?: boolean;
}

/** Milliseconds between two samples. */
const SAMPLE_MS = 250;
/** Estimates with fewer steps left are not checked: the last step is under way and not visible yet. */
const MIN_STEPS_LEFT = 8;

/** The work done at each sample, up to `total`. */
function simulate(phases: readonly Phase[], total: number) {
  const samples = [{ done: 0, isPaused: false }];
  let done = 0;
  for (const { forMs, perSecond, isPaused = false } of phases) {
    for (let ms = 0; ms < forMs && done < total; ms += SAMPLE_MS) {
      done = Math.min(total, done + (perSecond * SAMPLE_MS) / 1_000);
      samples.push({ done, isPaused });
    }
  }
  return samples;
}

/**
 * The error of the worst estimate, relative to the real time left.
 * @param step progress is reported in steps of this size
 * @param from seconds; earlier samples are not checked
 */
function worstError(phases: readonly Phase[], total: number, step: number, from: number) {
  const samples = simulate(phases, total);
  const rate = new Rate(0, 0);
  let worst = 0;
  let workLeft = samples.filter(({ isPaused }) => !isPaused).length;
  for (const [index, { done, isPaused }] of samples.entries()) {
    const at = index * SAMPLE_MS;
    const known = Math.floor(done / step) * step;
    rate.note(known, at);
    if (isPaused) {
      rate.pause(at);
      continue;
    }
    workLeft--;
    if (at < from * SECOND || total - known < MIN_STEPS_LEFT * step) continue;
    const leftMs = workLeft * SAMPLE_MS;
    worst = Math.max(worst, Math.abs((total - known) / rate.perMs(at) - leftMs) / leftMs);
  }
  return worst;
}

const FOREVER = Infinity;

describe('the time left by a rate', () => {
  it.each([
    ['at a steady speed', [{ forMs: FOREVER, perSecond: 800 }], 20_000, 250, 3],
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
    ['at one code a second', [{ forMs: FOREVER, perSecond: 1 }], 200, 1, 5],
    ['in rare large steps', [{ forMs: FOREVER, perSecond: 1 }], 600, 25, 60],
    [
      'that slows down to a third',
      [
        { forMs: 30 * SECOND, perSecond: 300 },
        { forMs: FOREVER, perSecond: 100 },
      ],
      24_000,
      50,
      75,
    ],
    [
      'that becomes three times as fast',
      [
        { forMs: 60 * SECOND, perSecond: 50 },
        { forMs: FOREVER, perSecond: 150 },
      ],
      24_000,
      50,
      100,
    ],
    [
      'with pauses requested by the marketplace',
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
  ] as const)('is off by less than a fifth for work %s', (_, phases, total, step, from) => {
    expect(worstError(phases, total, step, from)).toBeLessThan(0.2);
  });

  it('is unknown before anything is done, and grows without progress', () => {
    const rate = new Rate(500, 0);
    expect(rate.perMs(5_000)).toBe(0);
    rate.note(600, 5_000);
    rate.note(700, 6_000);
    expect(rate.perMs(6_000)).toBe(0.1);
    expect(rate.perMs(7_000)).toBe(0.1);
    expect(rate.perMs(26_000)).toBeLessThan(0.01);
  });

  it('is unknown until the second step of work under way: the first step may seem fast, since it began earlier', () => {
    const rate = new Rate(60, 0, true);
    rate.note(110, 500);
    expect(rate.perMs(500)).toBe(0);
    rate.note(160, 13_000);
    expect(rate.perMs(13_000)).toBe(50 / 12_500);
  });

  it('starts over when less is done, because that is other work', () => {
    const rate = new Rate(0, 0);
    rate.note(1_000, 1_000);
    rate.note(10, 2_000);
    expect(rate.perMs(2_000)).toBe(0);
    rate.note(30, 3_000);
    expect(rate.perMs(3_000)).toBe(0.02);
  });
});
