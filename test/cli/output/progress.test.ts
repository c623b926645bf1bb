import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Progress } from '../../../src/cli/output/progress.js';
import type { Output } from '../../../src/cli/output/text.js';

const CLEAR = '\r\u001B[2K';

function collector(terminal: { isTTY?: boolean; columns?: number }): {
  output: Output;
  writes: string[];
} {
  const writes: string[] = [];
  const output = new Writable({
    decodeStrings: false,
    write(chunk: string, _encoding, done) {
      writes.push(chunk);
      done();
    },
  });
  return { output: Object.assign(output, terminal), writes };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('progress on a terminal', () => {
  it('counts what was done before for no rate, so that the time left is true after a restart', () => {
    const { output, writes } = collector({ isTTY: true, columns: 100 });
    const progress = new Progress({ output, label: 'audit 1', total: 1000, from: 500 });
    vi.advanceTimersByTime(950);
    progress.update(600);
    vi.advanceTimersByTime(50);
    expect(writes.at(-1)).toContain('600 of 1,000 · 100/s · 4 s left');
    progress.finish();
  });

  it('promises no time while it is paused, since the time left would only grow', () => {
    const { output, writes } = collector({ isTTY: true, columns: 100 });
    const progress = new Progress({ output, label: 'audit 1', total: 4 });
    progress.update(3, { detail: '3 valid', paused: true });
    vi.advanceTimersByTime(30_000);
    expect(writes.at(-1)).toMatch(/ 3 of 4 · 3 valid$/);
    progress.update(3);
    vi.advanceTimersByTime(100);
    expect(writes.at(-1)).toContain('left');
    progress.finish();
  });

  it('redraws one line with rate and time left, and clears it at the end', () => {
    const { output, writes } = collector({ isTTY: true, columns: 100 });
    const progress = new Progress({ output, label: 'main: items', total: 1000 });
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

  it('draws at most ten times a second, however often it is told', () => {
    const { output, writes } = collector({ isTTY: true });
    const progress = new Progress({ output, label: 'items' });
    for (let done = 0; done < 5000; done++) {
      progress.update(done);
      if (done % 5 === 0) vi.advanceTimersByTime(1);
    }
    expect(writes).toHaveLength(10);
    progress.finish();
  });

  it('stays within the line, because a wrapped line can’t be redrawn', () => {
    const { output, writes } = collector({ isTTY: true, columns: 20 });
    const progress = new Progress({ output, label: 'a label that is long \u001B[31m', total: 10 });
    vi.advanceTimersByTime(100);
    expect(writes[0]).toBe(`${CLEAR}a label that is lo…`);
    progress.finish();
  });

  it('lets other lines through without mixing', () => {
    const { output, writes } = collector({ isTTY: true });
    const progress = new Progress({ output, label: 'items' });
    vi.advanceTimersByTime(100);
    progress.note('careful\u001B[2J');
    expect(writes.slice(1, 3)).toEqual([CLEAR, 'careful\n']);
    progress.finish();
  });

  it('shows nothing for work that is over at once', () => {
    const { output, writes } = collector({ isTTY: true });
    new Progress({ output, label: 'items' }).finish();
    vi.advanceTimersByTime(60_000);
    expect(writes).toEqual([]);
  });
});

describe('progress elsewhere', () => {
  it('is a plain line every ten seconds, so that logs stay short', () => {
    const { output, writes } = collector({});
    const progress = new Progress({ output, label: 'main: list', unit: 'bytes' });
    vi.advanceTimersByTime(9999);
    progress.update(20_000_000, { detail: 'page' });
    expect(writes).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(writes).toEqual(['main: list 20 MB · 2 MB/s · page\n']);
    progress.update(20_000_000, { total: 40_000_000, detail: '' });
    vi.advanceTimersByTime(10_000);
    expect(writes[1]).toBe('main: list 20 MB of 40 MB · 2 MB/s · 10 s left\n');
    progress.finish();
    expect(writes).toHaveLength(2);
  });

  it('counts slow work by the minute', () => {
    const { output, writes } = collector({});
    const progress = new Progress({ output, label: 'look-ups', total: 100 });
    progress.update(10);
    vi.advanceTimersByTime(10_000);
    expect(writes).toEqual(['look-ups 10 of 100 · 60/min · 1 min 30 s left\n']);
    progress.finish();
  });
});
