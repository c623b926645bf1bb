import { spawnSync } from 'node:child_process';
import { startPostgres, startRedis } from '../soak/servers.js';
import type { Line } from '../table.js';
import { AuditRounds } from './rounds.js';

/** Measures audits of purchase codes against plain ways of doing the same. */
export async function auditLines(million: boolean): Promise<Line[]> {
  const hasRedis = spawnSync('redis-server', ['--version']).status === 0;
  const postgres = await startPostgres();
  const redis = hasRedis ? await startRedis() : null;
  const say = (text: string): void => void process.stderr.write(`  ${text}\n`);
  try {
    if (!hasRedis) say('redis-server is not there: its lines are left out');
    return await new AuditRounds(postgres, redis, say).all(million);
  } finally {
    await redis?.close();
    await postgres.close();
  }
}
