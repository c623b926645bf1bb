import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Victim } from '../soak/servers.js';

/** Bytes that a Redis says it uses. */
export async function usedMemory(redis: Victim): Promise<number> {
  const { port } = new URL(redis.url);
  const { stdout } = await promisify(execFile)('redis-cli', ['-p', port, 'info', 'memory']);
  return Number(/^used_memory:(\d+)/m.exec(stdout)?.[1]);
}
