import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { marketOf } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { freePort, hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { startJobs, useServices } from './support.js';

const mirror = useMirror();
useServices();

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs the program of docs/queues.md. @returns asks bull-board's own API; null while it does not answer */
async function startRecipe(env: Readonly<Record<string, string>>) {
  const docs = readFileSync(join(ROOT, 'docs/queues.md'), 'utf8');
  const recipe = docs.split('```js\n')[1]?.split('```')[0] ?? '';
  // In a folder from which the packages are found.
  const folder = mkdtempSync(join(ROOT, 'node_modules/.bull-board-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'board.mjs');
  writeFileSync(file, recipe);
  const PORT = String(await freePort());
  const child = spawn(process.execPath, [file], {
    env: { PATH: process.env['PATH'], ...env, PORT },
    stdio: 'inherit',
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return async (path: string): Promise<unknown> => {
    const answer = await fetch(`http://127.0.0.1:${PORT}${path}`).catch(() => null);
    return answer === null || !answer.ok ? null : answer.json();
  };
}

interface Queue {
  readonly name: string;
  readonly readOnlyMode: boolean;
  readonly counts: Readonly<Record<string, number>>;
  readonly jobs: readonly { readonly name: string; readonly processedBy: string }[];
}

/** What bull-board shows after one job of a service. */
async function shown(env: Readonly<Record<string, string>>) {
  const { sim } = await marketOf(mirror());
  const { queues } = await startJobs(mirror(), sim.url, env);
  await until(async () => (await queues.counts()).mirror.completed === 1);
  const ask = await startRecipe(env);
  await until(async () => (await ask('/api/queues')) !== null);
  const { queues: found } = (await ask('/api/queues?activeQueue=mirror')) as {
    readonly queues: readonly Queue[];
  };
  const workers = await ask('/api/queues/mirror/workers');
  const throughput = await ask('/api/queues/mirror/metrics');
  return { found, workers, throughput };
}

describe('bull-board, as the docs set it up', () => {
  const checked = ({ found, workers, throughput }: Awaited<ReturnType<typeof shown>>): void => {
    expect(found.map(({ name }) => name)).toEqual(['mirror', 'audits', 'alerts', 'feeds']);
    const [queue] = found;
    expect(queue).toMatchObject({ readOnlyMode: true, counts: { completed: 1 } });
    expect(queue?.jobs).toMatchObject([
      { name: 'sync', processedBy: expect.stringContaining(`${process.pid}`) as string },
    ]);
    expect(throughput).toMatchObject({ completed: { meta: { count: 1 } } });
    const name = expect.stringContaining(String(process.pid)) as string;
    expect(workers).toMatchObject({ workers: [{ name }] });
  };

  it('shows queues, jobs, workers and throughput in PostgreSQL', async () => {
    checked(await shown({ DATABASE_URL: mirror().databaseUrl }));
  });

  it.skipIf(!hasRedis)(redisTitle('shows them in Redis'), async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.dispose());
    checked(await shown({ REDIS_URL: `redis://127.0.0.1:${redis.port}` }));
  });
});
