import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Log } from '../../src/domain/log.js';
import { UserError } from '../../src/domain/user-error.js';
import type { WebServer } from '../../src/service/listen.js';
import {
  type HealthLimits,
  type HealthServerOptions,
  startHealthServer,
} from '../../src/service/health.js';

const FREE = { host: '127.0.0.1', port: 0, chosen: false };

/** Short enough for tests to wait for them. */
const QUICK: HealthLimits = {
  headerBytes: 2_048,
  headersMs: 200,
  requestMs: 400,
  keepAliveMs: 200,
  idleMs: 1_000,
  responseMs: 1_000,
  connections: 8,
  burst: 100,
  sweepMs: 50,
  checkMs: 100,
  metricsMs: 100,
};
/** For `expect.poll` on slow machines. */
const PATIENTLY = { timeout: 20_000 };
/** For tests that are not about time limits. */
const PATIENT: HealthLimits = { ...QUICK, headersMs: 10_000, requestMs: 20_000, checkMs: 10_000 };

async function start(
  options: Partial<HealthServerOptions> = {},
  limits: HealthLimits = PATIENT,
): Promise<WebServer> {
  const server = await startHealthServer(
    {
      listen: FREE,
      checks: [],
      metrics: () => Promise.resolve('a 1\n'),
      log: collectingLog(),
      ...options,
    },
    limits,
  );
  onTestFinished(() => server.close());
  return server;
}

interface Response {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends a request with exactly this path and these headers. */
async function fetchRaw(
  url: string,
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Response> {
  const { hostname, port } = new URL(url);
  const host = hostname.replaceAll(/[[\]]/g, '');
  const sent = request({ host, port, path, method, headers, agent: false }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: await text(response),
  };
}

function socketTo(url: string): Socket {
  const { port } = new URL(url);
  const socket = connect(Number(port), '127.0.0.1');
  // Expected: the server cuts these connections off.
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Sends bytes and returns everything that the server sends until it closes the connection. */
async function exchange(url: string, bytes: string): Promise<string> {
  const socket = socketTo(url);
  socket.write(bytes);
  return await readToEnd(socket);
}

async function readToEnd(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return Buffer.concat(chunks).toString();
}

describe('/healthz', () => {
  it('shows that the process is alive, its version and its uptime', async () => {
    const { url } = await start();
    const { status, headers, body } = await fetchRaw(url, '/healthz?probe=1');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/json');
    expect(JSON.parse(body)).toEqual({
      status: 'alive',
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      uptimeSeconds: expect.any(Number),
    });
  });

  it('is 200 even if checks fail: a database outage must not restart the process', async () => {
    const check = (): Promise<never> => Promise.reject(new Error('gone'));
    const { url } = await start({ checks: [{ name: 'store', check }] });
    expect((await fetchRaw(url, '/healthz')).status).toBe(200);
  });

  it('answers HEAD with the same head and no body', async () => {
    const { url } = await start();
    const head = await fetchRaw(url, '/', { method: 'HEAD' });
    const get = await fetchRaw(url, '/');
    expect(head.status).toBe(200);
    expect(head.body).toBe('');
    expect(head.headers['content-type']).toBe(get.headers['content-type']);
  });
});

describe('/readyz', () => {
  const passing = { name: 'store', check: () => Promise.resolve() };

  it('is 200 when every check passes', async () => {
    const { url } = await start({ checks: [passing] });
    const { status, body } = await fetchRaw(url, '/readyz');
    expect(status).toBe(200);
    expect(JSON.parse(body)).toEqual({
      status: 'ready',
      checks: [{ name: 'store', ok: true, why: null }],
    });
  });

  it('is 503 when a check fails, with the reason', async () => {
    const schema = { name: 'schema', check: () => Promise.resolve('a migration\nis pending') };
    const { url } = await start({ checks: [passing, schema] });
    const { status, body } = await fetchRaw(url, '/readyz');
    expect(status).toBe(503);
    expect(JSON.parse(body)).toEqual({
      status: 'not ready',
      checks: [
        { name: 'store', ok: true, why: null },
        { name: 'schema', ok: false, why: 'a migration is pending' },
      ],
    });
  });

  it('shows only the code of an error, since messages may contain passwords', async () => {
    const secret = 'postgresql://mirror:hunter2@db/mirror';
    const plain = new Error(secret);
    const coded = Object.assign(new Error(secret), { code: 'ECONNREFUSED' });
    const hostile = Object.assign(new Error(secret), { code: secret });
    const log = collectingLog();
    const failing = (name: string, error: unknown) => ({
      name,
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- whatever is thrown
      check: () => Promise.reject<string>(error),
    });
    const { url } = await start({
      log,
      checks: [
        failing('plain', plain),
        failing('coded', coded),
        failing('hostile', hostile),
        failing('many', new AggregateError([coded], secret)),
        failing('text', secret),
      ],
    });
    const { body } = await fetchRaw(url, '/readyz');
    const { checks } = JSON.parse(body) as { checks: { name: string; why: string }[] };
    expect(Object.fromEntries(checks.map(({ name, why }) => [name, why]))).toEqual({
      plain: 'failed',
      coded: 'failed (ECONNREFUSED)',
      hostile: 'failed',
      many: 'failed (ECONNREFUSED)',
      text: 'failed',
    });
    expect(body + log.lines.join()).not.toContain('hunter2');
  });

  it('times out a check that hangs, and shows the others', async () => {
    const hanging = { name: 'queue', check: () => new Promise<void>(() => undefined) };
    const { url } = await start({ checks: [hanging, passing] }, QUICK);
    const { status, body } = await fetchRaw(url, '/readyz');
    expect(status).toBe(503);
    expect(JSON.parse(body)).toMatchObject({
      checks: [
        { name: 'queue', ok: false, why: 'no answer within 0.1 s' },
        { name: 'store', ok: true },
      ],
    });
  });

  it('shares the checks between concurrent requests', async () => {
    let calls = 0;
    const check = (): Promise<void> => Promise.resolve(void calls++);
    const { url } = await start({ checks: [{ name: 'store', check }] });
    await Promise.all(Array.from({ length: 8 }, () => fetchRaw(url, '/readyz')));
    // Not exactly 1: a slow machine may take longer than a second for all requests.
    expect(calls).toBeLessThan(8);
  });

  it('is logged only when it changes', async () => {
    const log = collectingLog();
    let why: string | undefined = 'gone';
    const check = { name: 'store', check: () => Promise.resolve(why) };
    const { url } = await start({ log, checks: [check] });
    await fetchRaw(url, '/readyz');
    await fetchRaw(url, '/readyz');
    why = undefined;
    await expect.poll(async () => (await fetchRaw(url, '/readyz')).status, PATIENTLY).toBe(200);
    expect(log.lines).toEqual(['warn: not ready: store: gone', 'info: ready again']);
  });
});

describe('/metrics', () => {
  it('is the text of the metrics with Prometheus’s content type', async () => {
    const { url } = await start({ metrics: () => Promise.resolve('mirrored_total 1\n') });
    const { status, headers, body } = await fetchRaw(url, '/metrics');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(body).toBe('mirrored_total 1\n');
  });

  it.each([
    ['fails', () => Promise.reject(new Error('postgresql://mirror:hunter2@db'))],
    ['hangs', () => new Promise<string>(() => undefined)],
  ])('is 503 without details when it %s', async (_, metrics) => {
    const log = collectingLog();
    const { url } = await start({ log, metrics }, QUICK);
    const { status, body } = await fetchRaw(url, '/metrics');
    expect([status, body]).toEqual([503, 'not available right now; try again\n']);
    expect(log.lines).toEqual([]);
  });
});

describe('other requests', () => {
  it('get a list of all pages at /', async () => {
    const { url } = await start();
    const { status, body } = await fetchRaw(url, '/');
    expect(status).toBe(200);
    for (const path of ['/healthz', '/readyz', '/metrics']) expect(body).toContain(path);
  });

  it.each([
    ...['/favicon.ico', '/healthz/', '/healthz/../metrics', '//metrics', '/%6detrics'],
    ...['/metrics%00', '/../../etc/passwd', '/constructor', '/__proto__', '*'],
    'http://127.0.0.1/metrics',
  ])('get no page at %s', async (path) => {
    const { url } = await start();
    const { status, body } = await fetchRaw(url, path);
    expect(status).toBe(path === '*' ? 400 : 404);
    expect(body).not.toContain('a 1');
  });

  it('get 405 for methods other than GET and HEAD', async () => {
    const { url } = await start();
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'PATCH']) {
      const { status, headers } = await fetchRaw(url, '/metrics', { method });
      expect([method, status, headers['allow']]).toEqual([method, 405, 'GET, HEAD']);
    }
  });

  it('get responses that are never cached and don’t name the software', async () => {
    const { url } = await start();
    for (const path of ['/', '/healthz', '/readyz', '/metrics', '/nothing']) {
      const { headers } = await fetchRaw(url, path);
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(JSON.stringify(headers)).not.toContain(process.version.slice(1));
      expect(headers).not.toHaveProperty('server');
      expect(headers).not.toHaveProperty('x-powered-by');
    }
  });
});

describe('DNS rebinding: a request on a loopback address', () => {
  it.each(['evil.example', 'evil.example:8790', '127.0.0.1.evil.example', 'localhost.', '[::2]'])(
    'is refused for host %s',
    async (host) => {
      const { url } = await start();
      const { status, body } = await fetchRaw(url, '/metrics', { headers: { host } });
      expect(status).toBe(421);
      expect(body).not.toContain('a 1');
    },
  );

  it.each(['localhost', 'LOCALHOST:1', '127.0.0.1:9', '127.1.2.3', '[::1]:8790'])(
    'is answered for host %s, a name of this machine',
    async (host) => {
      const { url } = await start();
      expect((await fetchRaw(url, '/metrics', { headers: { host } })).status).toBe(200);
    },
  );

  it('is answered for HTTP/1.0 without a host', async () => {
    const { url } = await start();
    expect(await exchange(url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('may have any host if the server listens on all addresses', async () => {
    const { url } = await start({ listen: { host: '0.0.0.0', port: 0, chosen: true } });
    const headers = { host: 'worker:8790' };
    expect((await fetchRaw(url, '/metrics', { headers })).status).toBe(200);
  });
});

describe('a hostile client', () => {
  it.each([
    ['sends nothing', '', /^(?:HTTP\/1\.1 408 |$)/],
    [
      'sends its headers a byte at a time',
      'GET /healthz HTTP/1.1\r\nX: ',
      /^(?:HTTP\/1\.1 408 |$)/,
    ],
    [
      'stays after the response',
      'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n',
      /^HTTP\/1\.1 200 /,
    ],
  ])('that %s is disconnected', async (_, bytes, answer) => {
    const { url } = await start({}, QUICK);
    const socket = socketTo(url);
    socket.write(bytes);
    const drip = setInterval(() => bytes.endsWith(': ') && socket.write('x'), 20);
    onTestFinished(() => clearInterval(drip));
    expect(await readToEnd(socket)).toMatch(answer);
  });

  it('that announces a body gets a response and is disconnected, the body unread', async () => {
    const { url } = await start();
    const answer = await exchange(
      url,
      'GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toMatch(/^connection: close\r$/im);
  });

  it.each([
    ['never reads the response', 0],
    ['reads the response in small pieces', 16 * 1024],
  ])('that %s is disconnected', async (_, piece) => {
    const huge = 'x'.repeat(64 * 1024 * 1024);
    const metrics = (): Promise<string> => Promise.resolve(huge);
    const { url } = await start({ metrics }, QUICK);
    const socket = socketTo(url);
    socket.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(socket, 'readable');
    let taken = 0;
    const take = (): void => {
      const chunk = socket.read(piece) as Buffer | null;
      taken += chunk?.length ?? 0;
    };
    const taking = setInterval(() => void (piece > 0 && take()), 10);
    await new Promise((resolve) => setTimeout(resolve, 3 * QUICK.responseMs));
    clearInterval(taking);
    socket.on('data', (chunk) => (taken += chunk.length));
    if (!socket.closed) await once(socket, 'close');
    expect(taken).toBeLessThan(huge.length / 2);
  });

  it('that sends huge headers is refused', async () => {
    const { url } = await start();
    const big = 'x'.repeat(10_000);
    const answer = await exchange(url, `GET / HTTP/1.1\r\nHost: localhost\r\nX: ${big}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
  });

  it('that requests a tunnel or another protocol gets none', async () => {
    const { url } = await start({}, QUICK);
    expect(
      await exchange(url, 'CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n'),
    ).not.toMatch(/^HTTP\/1\.1 2/);
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
    expect(
      await exchange(url, `GET / HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n`),
    ).not.toContain('101 ');
  });

  it('that opens too many connections loses the oldest', async () => {
    const { url } = await start({}, { ...PATIENT, connections: 3 });
    const sockets = Array.from({ length: 10 }, () => socketTo(url));
    let open = sockets.length;
    for (const socket of sockets) socket.on('close', () => open--);
    await expect.poll(() => open, PATIENTLY).toBe(3);
  });

  it('that is slow does not lock out probes, even with 300 connections that it keeps reopening', async () => {
    const server = await startHealthServer({
      ...{ listen: FREE, checks: [], log: collectingLog() },
      metrics: () => Promise.resolve(''),
    });
    const { url } = server;
    onTestFinished(() => server.close());
    let isOver = false;
    onTestFinished(() => void (isOver = true));
    const dawdle = (): void => {
      if (isOver) return;
      const socket = connect(Number(new URL(url).port), '127.0.0.1');
      socket.on('error', () => undefined);
      socket.write('GET /healthz HTTP/1.1\r\nX-Slow: ');
      const writing = setInterval(() => socket.write('x'), 50);
      socket.on('close', () => {
        clearInterval(writing);
        dawdle();
      });
    };
    for (let i = 0; i < 300; i++) dawdle();
    for (let i = 0; i < 60; i++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(await fetchRaw(url, '/healthz')).toMatchObject({ status: 200 });
    }
  });

  it('that disconnects early does no harm', async () => {
    const { url } = await start({
      metrics: () => new Promise((resolve) => setTimeout(() => resolve('late 1\n'), 50)),
    });
    for (let i = 0; i < 5; i++) {
      const socket = socketTo(url);
      socket.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n', () =>
        socket.resetAndDestroy(),
      );
    }
    await expect
      .poll(async () => (await fetchRaw(url, '/metrics')).body, PATIENTLY)
      .toBe('late 1\n');
  });
});

describe('listening', () => {
  /** Returns a port that is in use. */
  async function takenPort(): Promise<number> {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    return (other.address() as AddressInfo).port;
  }

  it('uses another port if the default one is taken, and logs it', async () => {
    const log = collectingLog();
    const port = await takenPort();
    const { url } = await start({ log, listen: { host: '127.0.0.1', port, chosen: false } });
    expect(new URL(url).port).not.toBe(String(port));
    expect(log.lines).toEqual([`warn: port ${port} is taken: health and metrics are at ${url}`]);
    expect((await fetchRaw(url, '/healthz')).status).toBe(200);
  });

  it('fails with a remedy if a configured port is taken', async () => {
    const port = await takenPort();
    const failure = await start({ listen: { host: '127.0.0.1', port, chosen: true } }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(UserError);
    const { message, remedy } = failure as UserError;
    expect(message).toContain(`127.0.0.1:${port}`);
    expect(message).toContain('is taken');
    expect(remedy).toContain('HEALTH_LISTEN');
  });

  it.each(['192.0.2.1', 'no-such-host.invalid'])(
    'fails at %s, which is not an address of this machine',
    async (host) => {
      const starting = start({ listen: { host, port: 0, chosen: true } });
      await expect(starting).rejects.toThrow(/is not an address of this machine/);
    },
  );

  it('works on an IPv6 address', async () => {
    const { url } = await start({ listen: { host: '::1', port: 0, chosen: true } });
    expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/);
    expect((await fetchRaw(url, '/healthz')).status).toBe(200);
  });
});

describe('closing', () => {
  it('ends idle, silent and hanging connections at once', async () => {
    const server = await start({ metrics: () => new Promise<string>(() => undefined) });
    const { url } = server;
    const idle = socketTo(url);
    const silent = socketTo(url);
    const hanging = socketTo(url);
    idle.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    hanging.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(idle, 'data');
    const ends = [idle, silent, hanging].map((socket) => readToEnd(socket));
    await server.close();
    await Promise.all(ends);
    await expect(fetchRaw(url, '/healthz')).rejects.toThrow(/ECONNREFUSED/);
    await server.close();
  });
});

/** A log that collects its lines as `level: message`. */
function collectingLog(): Log & { readonly lines: string[] } {
  const lines: string[] = [];
  const at = (level: string) => (message: string) => void lines.push(`${level}: ${message}`);
  const log = {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}
