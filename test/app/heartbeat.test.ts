import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import { startHeartbeat } from '../../src/app/heartbeat.js';
import { silentLog } from '../../src/domain/log.js';
import { useMirror } from '../support/mirror.js';

const mirror = useMirror();

const MINUTE_MS = 60_000;

describe('a process that works', () => {
  it('is known to live, with what it does, from its start to its end', async () => {
    const { processes } = mirror().store;
    const heartbeat = startHeartbeat(processes, ['worker', 'scheduler'], silentLog);
    const seen = async () => {
      for (;;) {
        const found = await processes.live(MINUTE_MS, 'worker');
        if (found.length > 0) return found;
      }
    };
    expect(await seen()).toMatchObject([
      { roles: ['worker', 'scheduler'], host: hostname(), pid: process.pid },
    ]);
    await heartbeat.stop();
    expect(await processes.live(MINUTE_MS)).toEqual([]);
  });

  it('goes on with its work when the store can’t be told', async () => {
    const away = {
      beat: () => Promise.reject(new Error('the store is away')),
      end: () => Promise.reject(new Error('the store is away')),
    };
    await expect(startHeartbeat(away, ['worker'], silentLog).stop()).resolves.toBeUndefined();
  });
});
