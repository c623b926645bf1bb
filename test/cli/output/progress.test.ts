import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Progress } from '../../../src/cli/output/progress.js';

const CLEAR = '\r\u001B[2K';

/** Starts a progress on an output that collects what is written. */
function progressOn(
  place: { readonly isTTY?: boolean; readonly columns?: number },
  { label, ...options }: { label: string; total?: number; from?: number },
) {
  const writes: string[] = [];
  const output = new Writable({
    decodeStrings: false,
    write(chunk: string, _encoding, done) {
      writes.push(chunk);
      done();
    },
  });
  const progress = new Progress(label, { output: Object.assign(output, place), ...options });
  onTestFinished(() => progress.finish());
  return { progress, writes };
}

const TERMINAL = { isTTY: true, columns: 100 };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('progress on a terminal', () => {
  it('writes no escape sequences if TERM is dumb', () => {
    vi.stubEnv('TERM', 'dumb');
    onTestFinished(() => void vi.unstubAllEnvs());
    const { progress, writes } = progressOn(TERMINAL, { label: 'audit 1', total: 4 });
    progress.update(3);
    progress.note('paused');
    vi.advanceTimersByTime(10_000);
    progress.finish();
    expect(writes).toEqual(['paused\n', expect.stringMatching(/^audit 1 3 of 4.*\n$/)]);
  });

  it('does not count earlier work for the rate, so that the time left is right after a restart', () => {
    const { progress, writes } = progressOn(TERMINAL, { label: 'audit 1', total: 1000, from: 500 });
    vi.advanceTimersByTime(950);
    progress.update(600);
    vi.advanceTimersByTime(50);
    expect(writes.at(-1)).toContain('600 of 1,000 · 100/s · 4 s left');
  });

  it('shows no time left during a pause', () => {
    const { progress, writes } = progressOn(TERMINAL, { label: 'audit 1', total: 4 });
    progress.update(3, { detail: '3 valid', paused: true });
    vi.advanceTimersByTime(30_000);
    expect(writes.at(-1)).toMatch(/ 3 of 4 · 3 valid$/);
    progress.update(3);
    vi.advanceTimersByTime(100);
    expect(writes.at(-1)).toContain('left');
  });

  it('redraws one line with rate and time left, and clears it at the end', () => {
    const { progress, writes } = progressOn(TERMINAL, { label: 'main: items', total: 1000 });
    vi.advanceTimersByTime(950);
    progress.update(250);
    vi.advanceTimersByTime(50);
    expect(writes.at(-1)).toBe(
      `${CLEAR}main: items ${'█'.repeat(5)}${'░'.repeat(15)} 250 of 1,000 · 250/s · 3 s left`,
    );
    progress.finish();
    progress.finish();
    expect(writes.at(-1)).toBe(CLEAR);
    expect(writes.join('')).not.toContain('\n');
  });

  it('is redrawn at most ten times a second', () => {
    const { progress, writes } = progressOn({ isTTY: true }, { label: 'items' });
    for (let done = 0; done < 5000; done++) {
      progress.update(done);
      if (done % 5 === 0) vi.advanceTimersByTime(1);
    }
    expect(writes).toHaveLength(10);
  });

  it('is cut to one line, because a wrapped line can’t be redrawn', () => {
    const { writes } = progressOn(
      { isTTY: true, columns: 20 },
      { label: 'a label that is long \u001B[31m', total: 10 },
    );
    vi.advanceTimersByTime(100);
    expect(writes[0]).toBe(`${CLEAR}a label that is lo…`);
  });

  it('writes notes on separate lines', () => {
    const { progress, writes } = progressOn({ isTTY: true }, { label: 'items' });
    vi.advanceTimersByTime(100);
    progress.note('careful\u001B[2J');
    expect(writes.slice(1, 3)).toEqual([CLEAR, 'careful\n']);
  });

  it('shows nothing for short work', () => {
    const { progress, writes } = progressOn({ isTTY: true }, { label: 'items' });
    progress.finish();
    vi.advanceTimersByTime(60_000);
    expect(writes).toEqual([]);
  });
});

describe('progress elsewhere', () => {
  it('is a plain line every ten seconds', () => {
    const { progress, writes } = progressOn({}, { label: 'main: list' });
    vi.advanceTimersByTime(9999);
    progress.update(20_000, { detail: 'page' });
    expect(writes).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(writes).toEqual(['main: list 20,000 · 2,000/s · page\n']);
    progress.update(20_000, { total: 40_000, detail: '' });
    vi.advanceTimersByTime(10_000);
    expect(writes[1]).toBe('main: list 20,000 of 40,000 · 2,000/s · 10 s left\n');
    progress.finish();
    expect(writes).toHaveLength(2);
  });

  it('shows slow work per minute', () => {
    const { progress, writes } = progressOn({}, { label: 'look-ups', total: 100 });
    progress.update(10);
    vi.advanceTimersByTime(10_000);
    expect(writes).toEqual(['look-ups 10 of 100 · 60/min · 1 min 30 s left\n']);
  });
});
