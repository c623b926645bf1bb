import { describe, expect, it, onTestFinished } from 'vitest';
import { marketOf, run, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { startProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';

const mirror = useMirror();

describe('a run whose connection dies silently', () => {
  it('fails within two minutes without partial data, and the next one succeeds', async () => {
    const { sim, env } = await marketOf(mirror(), 400);
    sim.faults.next('list', { kind: 'slow', chunkBytes: 20_000, pauseMs: 500 });
    const url = new URL(mirror().databaseUrl);
    const proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
    onTestFinished(() => proxy.close());
    url.host = `${proxy.host}:${proxy.port}`;
    const running = start(['sync', 'items'], { ...env, DATABASE_URL: url.href });
    await until(() =>
      sim.log.some(({ operation, bytesSent }) => operation === 'list' && bytesSent > 0),
    );
    proxy.forget();
    // A server does so by itself, within a minute, when nothing answers its keepalives.
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_locks
        WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    );
    const ended = await running.ended;
    expect(ended.stdout + ended.stderr).toMatch(
      /the connection (?:to the database .* during a run|was cut)/,
    );
    expect(ended.code).toBe(1);
    expect(await mirror().items()).toEqual([]);
    expect((await run(['sync', 'items'], env)).code).toBe(0);
    expect(await mirror().items()).toHaveLength(400);
  });
});
