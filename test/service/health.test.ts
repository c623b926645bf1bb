import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { run, settings, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { hasRedis, redisTitle, startRedis } from '../support/redis.js';
import { until } from '../support/until.js';

const mirror = useMirror();

const env = (more: Readonly<Record<string, string>> = {}) =>
  settings(mirror().databaseUrl, 'http://127.0.0.1:1', {
    ...{ HEALTH_LISTEN: '127.0.0.1:0', SYNC_CRON: 'off', ...more },
  });

/** Starts a worker. @returns where its health is, and its log */
async function startWorker(more: Readonly<Record<string, string>> = {}) {
  const service = start(['worker'], env(more));
  const lines = () =>
    service.stdout().split('\n').filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>); // prettier-ignore
  const begun = () => lines().find(({ msg }) => msg === 'service started');
  await until(() => begun() !== undefined || service.process.exitCode !== null);
  return { url: String(begun()?.['health']), lines, service };
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends a request with exactly this path and these headers. */
async function send(
  url: string,
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Reply> {
  const { hostname, port } = new URL(url);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const sent = request({ host, port, path, method, headers, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const { statusCode = 0 } = response;
  return { status: statusCode, headers: response.headers, body: await text(response) };
}

function socketTo(url: string): Socket {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  // Expected: the server cuts these connections off.
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Sends bytes and returns everything that the server sends until it closes the connection. */
async function exchange(url: string, bytes: string): Promise<string> {
  const socket = socketTo(url);
  socket.write(bytes);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return Buffer.concat(chunks).toString();
}

describe('health and metrics', () => {
  it('answer probes and Prometheus at their paths, and nothing else, whatever hostile clients do', async () => {
    const { url } = await startWorker();
    await expectOwnNamesOnly(url);
    const ready = await send(url, '/readyz');
    const names = ['running', 'store', 'schema', 'queue'];
    expect(JSON.parse(ready.body)).toEqual({
      status: 'ready',
      checks: names.map((name) => ({ name, ok: true, why: null })),
    });
    const alive = await send(url, '/healthz?probe=1');
    expect(alive.headers['content-type']).toBe('application/json');
    expect(JSON.parse(alive.body)).toEqual({
      status: 'alive',
      version: expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
      uptimeSeconds: expect.any(Number) as number,
    });
    const metrics = await send(url, '/metrics');
    expect(metrics.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(metrics.body).toMatch(/^seller_mirror_last_success_age_seconds\{/m);
    const index = await send(url, '/');
    for (const path of ['/healthz', '/readyz', '/metrics']) expect(index.body).toContain(path);
    const head = await send(url, '/', { method: 'HEAD' });
    expect([head.status, head.body]).toEqual([200, '']);
    const others = [
      ...['/favicon.ico', '/healthz/', '/healthz/../metrics', '//metrics', '/%6detrics'],
      ...['/metrics%00', '/../../etc/passwd', '/__proto__', 'http://127.0.0.1/metrics'],
    ];
    for (const path of others) expect([path, (await send(url, path)).status]).toEqual([path, 404]);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'PATCH']) {
      const { status, headers } = await send(url, '/metrics', { method });
      expect([method, status, headers.allow]).toEqual([method, 405, 'GET, HEAD']);
    }
    for (const { headers } of [ready, alive, metrics, index, await send(url, '/nothing')]) {
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(headers).not.toHaveProperty('server');
      expect(headers).not.toHaveProperty('x-powered-by');
    }
    const get = 'GET /healthz HTTP/1.1\r\nHost: localhost\r\n';
    const withBody = await exchange(url, `${get}Content-Length: 1000000000\r\n\r\n`);
    expect(withBody).toMatch(/^HTTP\/1\.1 200 [^]*connection: close\r/i);
    expect(await exchange(url, `${get}X: ${'x'.repeat(10_000)}\r\n\r\n`)).toMatch(/^HTTP\/1\.1 431/);
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
    expect(await exchange(url, `${get}${upgrade}\r\n`)).not.toContain('101 ');
    const tunnel = await exchange(url, 'CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(tunnel).not.toMatch(/^HTTP\/1\.1 2/);
    const slow = Array.from({ length: 300 }, () => socketTo(url));
    for (const socket of slow) socket.write('GET /healthz HTTP/1.1\r\nX-Slow: ');
    for (let n = 0; n < 30; n++) expect((await send(url, '/healthz')).status).toBe(200);
    // The oldest beyond 64 are closed.
    await until(() => slow.filter(({ closed }) => !closed).length <= 64);
  }); // prettier-ignore
});

/** Only names of this machine are right on a loopback address: a web page may point its own name here. */
async function expectOwnNamesOnly(url: string): Promise<void> {
  for (const [host, status] of [
    ['evil.example', 421], ['evil.example:8790', 421], ['127.0.0.1.evil.example', 421], ['localhost.', 421],
    ['[::2]', 421], ['localhost', 200], ['LOCALHOST:1', 200], ['127.0.0.1:9', 200], ['127.1.2.3', 200],
    ['[::1]:8790', 200],
  ] as const) {
    expect([host, (await send(url, '/metrics', { headers: { host } })).status]).toEqual([host, status]);
  }
  // Without a host, as HTTP/1.0 allows.
  expect(await exchange(url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
} // prettier-ignore

describe('/readyz', () => {
  const failing = async (url: string) => {
    const { status, body } = await send(url, '/readyz');
    const { checks } = JSON.parse(body) as { checks: { name: string; why: string | null }[] };
    return { status, body, why: checks.flatMap(({ name, why }) => (why === null ? [] : [name, why])) };
  }; // prettier-ignore

  it('is 503 with the reason while the schema is of another version, and the log says so once', async () => {
    const { url: all, lines } = await startWorker({ HEALTH_LISTEN: '0.0.0.0:0' });
    const url = all.replace('0.0.0.0', '127.0.0.1');
    // On all addresses, any host name is right.
    const headers = { host: 'worker:8790' };
    expect((await send(url, '/metrics', { headers })).status).toBe(200);
    await mirror().rows(
      `INSERT INTO mirror._prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)
       VALUES ('x', 'x', '29990101000000_later', now(), 1)`,
    );
    onTestFinished(async () => {
      await mirror().rows(`DELETE FROM mirror._prisma_migrations WHERE id = 'x'`);
    });
    await until(async () => (await failing(url)).status === 503);
    expect((await failing(url)).why).toEqual(['schema', 'a newer version migrated the database']);
    expect((await send(url, '/healthz')).status).toBe(200);
    await mirror().rows(`DELETE FROM mirror._prisma_migrations WHERE id = 'x'`);
    await until(async () => (await failing(url)).status === 200);
    const told = lines().flatMap(({ msg }) => (/ready/.test(String(msg)) ? [msg] : []));
    expect(told).toEqual([
      'not ready: schema: a newer version migrated the database',
      'ready again',
    ]);
  });

  it.skipIf(!hasRedis)(
    redisTitle('shows only the code of an error, since messages may contain passwords'),
    async () => {
      const redis = await startRedis({ requirepass: 'hunter2' });
      onTestFinished(() => redis.dispose());
      const { url, lines } = await startWorker({
        REDIS_URL: `redis://:hunter2@127.0.0.1:${redis.port}`,
        HEALTH_LISTEN: '[::1]:0',
      });
      expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/);
      expect((await failing(url)).status).toBe(200);
      await redis.stop();
      await until(async () => (await failing(url)).status === 503);
      const { why, body } = await failing(url);
      expect(why).toEqual(['queue', 'failed (QUEUE)']);
      expect(body + JSON.stringify(lines())).not.toContain('hunter2');
      // An outage must not restart the process, and metrics say what they can.
      expect((await send(url, '/healthz')).status).toBe(200);
      expect((await send(url, '/metrics')).body).toContain('scrape_errors_total{source="queue"}');
    },
  );
});

describe('HEALTH_LISTEN', () => {
  it('must be free, and an address of this machine', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    const taken = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    for (const [address, fault] of [
      [taken, /is taken by another program[^]*HEALTH_LISTEN/],
      ['192.0.2.1:8790', /is not an address of this machine/],
    ] as const) {
      const { code, stderr } = await run(['worker'], env({ HEALTH_LISTEN: address }));
      expect(code).toBe(1);
      expect(stderr).toMatch(fault);
    }
  });
});
