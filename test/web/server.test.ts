import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Log } from '../../src/domain/log.js';
import { ListenError, type WebServer } from '../../src/web/listen.js';
import {
  type HealthLimits,
  type HealthServerOptions,
  startHealthServer,
} from '../../src/web/server.js';

const FREE = { host: '127.0.0.1', port: 0, chosen: false };

/** Short enough to be waited out by a test. */
const QUICK: HealthLimits = {
  headerBytes: 2_048,
  headersMs: 200,
  requestMs: 400,
  keepAliveMs: 200,
  silenceMs: 1_000,
  answerMs: 1_000,
  connections: 8,
  burst: 100,
  sweepMs: 50,
  checkMs: 100,
  metricsMs: 100,
};
/** For what must come in the end. */
const PATIENTLY = { timeout: 20_000 };
/** For tests that are not about time. */
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
      log: logBook(),
      ...options,
    },
    limits,
  );
  onTestFinished(() => server.close());
  return server;
}

interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends a request as it is: path and headers are not tidied up. */
async function ask(
  url: string,
  path: string,
  { method = 'GET', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<Got> {
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
  // Being cut off is what these tests wait for.
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  return socket;
}

/** Writes to a connection and returns what came until its end. */
async function exchange(url: string, bytes: string): Promise<string> {
  const socket = socketTo(url);
  socket.write(bytes);
  return await received(socket);
}

async function received(socket: Socket): Promise<string> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk) => chunks.push(chunk));
  await new Promise<void>((resolve) => socket.once('close', () => resolve()));
  return Buffer.concat(chunks).toString();
}

describe('/healthz', () => {
  it('tells that the process is alive, which version it is, and for how long', async () => {
    const { url } = await start();
    const { status, headers, body } = await ask(url, '/healthz?probe=1');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('application/json');
    expect(JSON.parse(body)).toEqual({
      status: 'alive',
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      uptimeSeconds: expect.any(Number),
    });
  });

  it('answers whatever state the checks are in, or a lost database would restart the process', async () => {
    const check = (): Promise<never> => Promise.reject(new Error('gone'));
    const { url } = await start({ checks: [{ name: 'store', check }] });
    expect((await ask(url, '/healthz')).status).toBe(200);
  });

  it('answers HEAD with the same head and no body', async () => {
    const { url } = await start();
    const head = await ask(url, '/', { method: 'HEAD' });
    const get = await ask(url, '/');
    expect(head.status).toBe(200);
    expect(head.body).toBe('');
    expect(head.headers['content-type']).toBe(get.headers['content-type']);
  });
});

describe('/readyz', () => {
  const fine = { name: 'store', check: () => Promise.resolve() };

  it('is 200 when every check is well', async () => {
    const { url } = await start({ checks: [fine] });
    const { status, body } = await ask(url, '/readyz');
    expect(status).toBe(200);
    expect(JSON.parse(body)).toEqual({
      status: 'ready',
      checks: [{ name: 'store', ok: true, why: null }],
    });
  });

  it('is 503 otherwise and says why, one by one', async () => {
    const { url } = await start({
      checks: [fine, { name: 'schema', check: () => Promise.resolve('a migration\nis pending') }],
    });
    const { status, body } = await ask(url, '/readyz');
    expect(status).toBe(503);
    expect(JSON.parse(body)).toEqual({
      status: 'not ready',
      checks: [
        { name: 'store', ok: true, why: null },
        { name: 'schema', ok: false, why: 'a migration is pending' },
      ],
    });
  });

  it('shows of an error its code alone, since drivers put addresses and passwords into texts', async () => {
    const secret = 'postgresql://mirror:hunter2@db/mirror';
    const plain = new Error(secret);
    const coded = Object.assign(new Error(secret), { code: 'ECONNREFUSED' });
    const hostile = Object.assign(new Error(secret), { code: secret });
    const log = logBook();
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
    const { body } = await ask(url, '/readyz');
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

  it('gives up on a check that hangs, and tells of the others all the same', async () => {
    const hanging = { name: 'queue', check: () => new Promise<void>(() => undefined) };
    const { url } = await start({ checks: [hanging, fine] }, QUICK);
    const { status, body } = await ask(url, '/readyz');
    expect(status).toBe(503);
    expect(JSON.parse(body)).toMatchObject({
      checks: [
        { name: 'queue', ok: false, why: 'no answer within 0.1 s' },
        { name: 'store', ok: true },
      ],
    });
  });

  it('costs one look, however many ask at once', async () => {
    let looks = 0;
    const check = (): Promise<void> => Promise.resolve(void looks++);
    const { url } = await start({ checks: [{ name: 'store', check }] });
    await Promise.all(Array.from({ length: 8 }, () => ask(url, '/readyz')));
    // A slow machine may take longer than a second for all of them.
    expect(looks).toBeLessThan(8);
  });

  it('is logged when it changes, not every time that somebody asks', async () => {
    const log = logBook();
    let why: string | undefined = 'gone';
    const check = { name: 'store', check: () => Promise.resolve(why) };
    const { url } = await start({ log, checks: [check] });
    await ask(url, '/readyz');
    await ask(url, '/readyz');
    why = undefined;
    await expect.poll(async () => (await ask(url, '/readyz')).status, PATIENTLY).toBe(200);
    expect(log.lines).toEqual(['warn: not ready: store: gone', 'info: ready again']);
  });
});

describe('/metrics', () => {
  it('is the text of the metrics, as Prometheus wants it labelled', async () => {
    const { url } = await start({ metrics: () => Promise.resolve('mirrored_total 1\n') });
    const { status, headers, body } = await ask(url, '/metrics');
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(body).toBe('mirrored_total 1\n');
  });

  it.each([
    ['fails', () => Promise.reject(new Error('postgresql://mirror:hunter2@db'))],
    ['hangs', () => new Promise<string>(() => undefined)],
  ])('is 503 and tells nothing when it %s', async (_, metrics) => {
    const log = logBook();
    const { url } = await start({ log, metrics }, QUICK);
    const { status, body } = await ask(url, '/metrics');
    expect([status, body]).toEqual([503, 'not available just now\n']);
    expect(log.lines).toEqual([]);
  });
});

describe('whatever else is asked', () => {
  it('is told what there is at /', async () => {
    const { url } = await start();
    const { status, body } = await ask(url, '/');
    expect(status).toBe(200);
    for (const path of ['/healthz', '/readyz', '/metrics']) expect(body).toContain(path);
  });

  it.each(
    '/favicon.ico /healthz/ /healthz/../metrics //metrics /%6detrics'
      .split(' ')
      .concat(
        '/metrics%00 /../../etc/passwd /constructor /__proto__ * http://127.0.0.1/metrics'.split(
          ' ',
        ),
      ),
  )('is not there: %s', async (path) => {
    const { url } = await start();
    const { status, body } = await ask(url, path);
    expect(status).toBe(path === '*' ? 400 : 404);
    expect(body).not.toContain('a 1');
  });

  it('is refused to methods that change something, with what is allowed', async () => {
    const { url } = await start();
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'PATCH']) {
      const { status, headers } = await ask(url, '/metrics', { method });
      expect([method, status, headers['allow']]).toEqual([method, 405, 'GET, HEAD']);
    }
  });

  it('is never cached, and says nothing of what it runs on', async () => {
    const { url } = await start();
    for (const path of ['/', '/healthz', '/readyz', '/metrics', '/nothing']) {
      const { headers } = await ask(url, path);
      expect(headers['cache-control']).toBe('no-store');
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(JSON.stringify(headers)).not.toContain(process.version.slice(1));
      expect(headers).not.toHaveProperty('server');
      expect(headers).not.toHaveProperty('x-powered-by');
    }
  });
});

describe('a web page whose name was made to point to this machine', () => {
  it.each(['evil.example', 'evil.example:8790', '127.0.0.1.evil.example', 'localhost.', '[::2]'])(
    'is refused, since it asks for %s',
    async (host) => {
      const { url } = await start();
      const { status, body } = await ask(url, '/metrics', { headers: { host } });
      expect(status).toBe(421);
      expect(body).not.toContain('a 1');
    },
  );

  it.each(['localhost', 'LOCALHOST:1', '127.0.0.1:9', '127.1.2.3', '[::1]:8790'])(
    'is not meant by %s, a name of this machine',
    async (host) => {
      const { url } = await start();
      expect((await ask(url, '/metrics', { headers: { host } })).status).toBe(200);
    },
  );

  it('is not meant by a probe of HTTP/1.0, which names no host', async () => {
    const { url } = await start();
    expect(await exchange(url, 'GET /healthz HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('is no danger where others are to ask: there any name will do', async () => {
    const { url } = await start({ listen: { host: '0.0.0.0', port: 0, chosen: true } });
    const headers = { host: 'worker:8790' };
    expect((await ask(url, '/metrics', { headers })).status).toBe(200);
  });
});

describe('a hostile client', () => {
  it.each([
    ['that says nothing at all', '', /^(?:HTTP\/1\.1 408 |$)/],
    [
      'that sends its headers a byte at a time',
      'GET /healthz HTTP/1.1\r\nX: ',
      /^(?:HTTP\/1\.1 408 |$)/,
    ],
    [
      'that stays after its answer',
      'GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n',
      /^HTTP\/1\.1 200 /,
    ],
  ])('%s is cut off', async (_, bytes, answer) => {
    const { url } = await start({}, QUICK);
    const socket = socketTo(url);
    socket.write(bytes);
    const drip = setInterval(() => bytes.endsWith(': ') && socket.write('x'), 20);
    onTestFinished(() => clearInterval(drip));
    expect(await received(socket)).toMatch(answer);
  });

  it('that promises a body gets its answer and is cut off, the body unread', async () => {
    const { url } = await start();
    const answer = await exchange(
      url,
      'GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    expect(answer).toMatch(/^connection: close\r$/im);
  });

  it.each([
    ['never takes its answer', 0],
    ['takes its answer in small pieces', 16 * 1024],
  ])('that %s is cut off', async (_, piece) => {
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
    await new Promise((resolve) => setTimeout(resolve, 3 * QUICK.answerMs));
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

  it('that wants a tunnel or another protocol gets none', async () => {
    const { url } = await start({}, QUICK);
    expect(
      await exchange(url, 'CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n'),
    ).not.toMatch(/^HTTP\/1\.1 2/);
    const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
    expect(
      await exchange(url, `GET / HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n`),
    ).not.toContain('101 ');
  });

  it('that opens connections without end gets no more than a few', async () => {
    const { url } = await start({}, { ...PATIENT, connections: 3 });
    const sockets = Array.from({ length: 10 }, () => socketTo(url));
    let open = sockets.length;
    for (const socket of sockets) socket.on('close', () => open--);
    await expect.poll(() => open, PATIENTLY).toBe(3);
  });

  it('that is slow keeps no probe from its answer, with 299 others like it that come back when cut off', async () => {
    const none = (): Promise<string> => Promise.resolve('');
    const server = await startHealthServer({
      listen: FREE,
      checks: [],
      metrics: none,
      log: logBook(),
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
      expect(await ask(url, '/healthz')).toMatchObject({ status: 200 });
    }
  });

  it('that goes away in the middle does no harm', async () => {
    const { url } = await start({
      metrics: () => new Promise((resolve) => setTimeout(() => resolve('late 1\n'), 50)),
    });
    for (let i = 0; i < 5; i++) {
      const socket = socketTo(url);
      socket.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n', () =>
        socket.resetAndDestroy(),
      );
    }
    await expect.poll(async () => (await ask(url, '/metrics')).body, PATIENTLY).toBe('late 1\n');
  });
});

describe('listening', () => {
  /** A port that is taken. */
  async function takenPort(): Promise<number> {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    onTestFinished(() => void other.close());
    return (other.address() as AddressInfo).port;
  }

  it('goes to another port when the usual one is taken, and says where', async () => {
    const log = logBook();
    const port = await takenPort();
    const { url } = await start({ log, listen: { host: '127.0.0.1', port, chosen: false } });
    expect(new URL(url).port).not.toBe(String(port));
    expect(log.lines).toEqual([`warn: port ${port} is taken: health and metrics are at ${url}`]);
    expect((await ask(url, '/healthz')).status).toBe(200);
  });

  it('fails when the port that was chosen is taken, with what to do', async () => {
    const port = await takenPort();
    const failure = await start({ listen: { host: '127.0.0.1', port, chosen: true } }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(ListenError);
    const { message, remedy } = failure as ListenError;
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

  it('works at an IPv6 address, written as URLs have it', async () => {
    const { url } = await start({ listen: { host: '::1', port: 0, chosen: true } });
    expect(url).toMatch(/^http:\/\/\[::1\]:\d+$/);
    expect((await ask(url, '/healthz')).status).toBe(200);
  });
});

describe('closing', () => {
  it('ends connections that are kept alive, hang or say nothing, at once', async () => {
    const server = await start({ metrics: () => new Promise<string>(() => undefined) });
    const { url } = server;
    const idle = socketTo(url);
    const silent = socketTo(url);
    const hanging = socketTo(url);
    idle.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
    hanging.write('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await once(idle, 'data');
    const ends = [idle, silent, hanging].map((socket) => received(socket));
    await server.close();
    await Promise.all(ends);
    await expect(ask(url, '/healthz')).rejects.toThrow(/ECONNREFUSED/);
  });

  it('may be asked for twice', async () => {
    const server = await start();
    await server.close();
    await server.close();
  });
});

/** A log that keeps its lines, `level: message`. */
function logBook(): Log & { readonly lines: string[] } {
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
