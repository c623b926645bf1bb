import { spawnSync } from 'node:child_process';
import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import {
  recordHeartbeat,
  listLiveProcesses,
  removeProcess,
} from '../../src/service/processes-store.js';
import { useMirror } from '../support/mirror.js';

const mirror = useMirror();

describe('the list of live processes', () => {
  const info = (n: number, ...roles: string[]) => ({
    processId: `00000000-0000-4000-8000-00000000000${n}`,
    roles,
    host: 'a host',
    pid: n,
    startedAt: new Date(Date.UTC(2026, 0, n)),
  });

  it('has the processes that sent a heartbeat, by role, until they end', async () => {
    const { db } = mirror();
    await recordHeartbeat(db, info(1, 'worker'));
    await recordHeartbeat(db, info(2, 'scheduler'));
    await recordHeartbeat(db, info(1, 'worker', 'scheduler'));
    expect(await listLiveProcesses(db)).toHaveLength(2);
    expect(await listLiveProcesses(db, 'worker')).toMatchObject([
      { ...info(1, 'worker', 'scheduler'), seenAt: expect.any(Date) as Date },
    ]);
    await removeProcess(db, info(1).processId);
    expect(await listLiveProcesses(db, 'worker')).toMatchObject([]);
  });

  it('leaves out processes without a recent heartbeat, and deletes them after a day', async () => {
    const { db } = mirror();
    await recordHeartbeat(db, info(1, 'worker'));
    await recordHeartbeat(db, info(2, 'worker'));
    await mirror().rows(
      `UPDATE mirror.processes
          SET seen_at = now() - CASE pid WHEN 1 THEN interval '25 hours' ELSE interval '2 minutes' END`,
    );
    expect(await listLiveProcesses(db, 'worker')).toMatchObject([]);
    await recordHeartbeat(db, info(3, 'worker'));
    expect(await mirror().rows('SELECT pid FROM mirror.processes ORDER BY pid')).toEqual([
      ...[{ pid: 2 }, { pid: 3 }],
    ]);
  });

  it('has processes of other machines whose pid no process here has, since pids are of one machine', async () => {
    const { db } = mirror();
    const { pid } = spawnSync(process.execPath, ['--version']);
    await recordHeartbeat(db, { ...info(1, 'worker'), pid });
    await recordHeartbeat(db, { ...info(2, 'worker'), pid, host: hostname() });
    expect(await listLiveProcesses(db)).toMatchObject([{ host: 'a host' }]);
  });
});
