import { afterEach, expect, it, vi } from 'vitest';
import { RunLog } from '../../src/app/run-log.js';
import { silentLog, type Log } from '../../src/domain/log.js';

afterEach(() => vi.useRealTimers());

it('tells of look-ups as they begin, and then once a minute, since there is no bar in a log', () => {
  vi.useFakeTimers();
  const lines: unknown[][] = [];
  const log: Log = { ...silentLog, info: (...line) => lines.push(line), child: () => log };
  const runLog = new RunLog(log);
  const begin = (): void => runLog.run({ phase: 'started', runId: 7n, kind: 'items' });
  const lookUp = (done: number): void =>
    runLog.progress({ phase: 'look-up', done, total: 180, saved: 0, leastMs: 376_000 });
  begin();
  runLog.progress({ phase: 'list', records: 1, bytes: 1, expected: null });
  for (let second = 0; second <= 120; second++) {
    lookUp(Math.floor(second / 2));
    vi.advanceTimersByTime(1_000);
  }
  begin();
  lookUp(90);
  const line = (checked: number): unknown[] => [
    ...['checking missing items', { items: 180, checked, atLeastSeconds: 376 }],
  ];
  expect(lines).toEqual([['run started'], line(0), line(30), line(60), ['run started'], line(90)]);
});
