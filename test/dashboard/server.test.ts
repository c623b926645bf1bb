import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as plainRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as secureRequest } from 'node:https';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { silentLog, type Log } from '../../src/domain/log.js';
import { UserError } from '../../src/domain/user-error.js';
import { selfSigned } from '../support/certificate.js';
import { useMirror } from '../support/mirror.js';
import { addAccount, formTokenIn, loginLink, startServer } from './dashboard.js';

const mirror = useMirror();
const closings: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close();
});

/** Serves the dashboard until the test ends. */
async function serve(settings: Readonly<Record<string, string>> = {}, log: Log = silentLog) {
  const server = await startServer(mirror(), settings, log);
  closings.push(() => server.close());
  return server;
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

interface SendOptions extends RequestOptions {
  readonly body?: string;
  readonly ca?: string;
  readonly servername?: string;
}

/** Sends a request with unchanged headers and path. @returns the response before its body */
async function open(url: string, { body, ...options }: SendOptions = {}): Promise<IncomingMessage> {
  const { hostname, port, protocol } = new URL(url);
  const requestTo = protocol === 'https:' ? secureRequest : plainRequest;
  const request = requestTo({ hostname, port, agent: false, path: '/login', ...options });
  request.end(body);
  const [reply] = (await once(request, 'response')) as [IncomingMessage];
  return reply;
}

async function send(url: string, options: SendOptions = {}): Promise<Reply> {
  const reply = await open(url, options);
  return { status: reply.statusCode ?? 0, headers: reply.headers, text: await text(reply) };
}

/** Logs an operator in. @returns the cookie */
async function logIn(url: string, options: SendOptions = {}): Promise<string> {
  const path = await loginLink(mirror());
  const { headers } = await send(url, { ...options, path });
  return headers['set-cookie']?.[0]?.split(';')[0] ?? '';
}

/** Writes a self-signed certificate for localhost. */
function certificate() {
  const folder = mkdtempSync(join(tmpdir(), `seller-mirror-tests-${process.pid}-tls-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const { cert, key } = selfSigned(['localhost']);
  writeFileSync(join(folder, 'cert.pem'), cert);
  writeFileSync(join(folder, 'key.pem'), key, { mode: 0o600 });
  const settings = {
    DASHBOARD_TLS_CERT_FILE: join(folder, 'cert.pem'),
    DASHBOARD_TLS_KEY_FILE: join(folder, 'key.pem'),
  };
  return { settings, trust: { ca: cert, servername: 'localhost' } };
}

describe('on an address that other machines can reach', () => {
  const OPEN = { DASHBOARD_LISTEN: '0.0.0.0:0' };

  it('the dashboard needs TLS and an account to start, and accepts only its own address as the host', async () => {
    const refused = async (settings: Readonly<Record<string, string>>): Promise<string> => {
      const error = await serve(settings).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(UserError);
      const { message, remedy } = error as UserError;
      return `${message}; ${remedy}`;
    };
    expect(await refused(OPEN)).toMatch(/without TLS; .*DASHBOARD_BEHIND_PROXY/);
    const proxied = { ...OPEN, DASHBOARD_BEHIND_PROXY: 'true' };
    expect(await refused(proxied)).toMatch(
      /nobody has an account; .*`seller-mirror users add NAME/,
    );
    await addAccount(mirror(), 'alice', 'operator');
    expect(await refused(OPEN)).toMatch(/without TLS/);
    const { settings, trust } = certificate();
    const unreadable = { ...settings, DASHBOARD_TLS_KEY_FILE: '/nowhere/key.pem' };
    expect(await refused(unreadable)).toMatch(
      /can’t read \/nowhere\/key\.pem .* set by DASHBOARD_TLS_KEY_FILE/,
    );
    const { url } = await serve({ ...OPEN, ...settings });
    const { port } = new URL(url);
    const hosts = [`127.0.0.1:${port}`, `localhost:${port}`, `10.1.2.3:${port}`, 'evil.example'];
    const statuses: number[] = [];
    for (const host of hosts) {
      const at = `https://127.0.0.1:${port}`;
      statuses.push((await send(at, { ...trust, headers: { host } })).status);
    }
    expect(statuses).toEqual([200, 200, 421, 421]);
  });
});

it('with its own TLS, the dashboard binds the cookie to the host, and answers no plain HTTP and no form from there', async () => {
  const { settings, trust } = certificate();
  const { url } = await serve(settings);
  expect(url).toMatch(/^https:/);
  const cookie = await logIn(url, trust);
  expect(cookie).toMatch(/^__Host-seller-mirror=/);
  const page = await send(url, { ...trust, path: '/', headers: { cookie } });
  expect(page.status).toBe(200);
  const token = formTokenIn(page.text);
  const post = (origin: string): Promise<Reply> =>
    send(url, {
      ...trust,
      method: 'POST',
      path: '/logout',
      body: `token=${token}`,
      headers: { cookie, origin, 'content-type': 'application/x-www-form-urlencoded' },
    });
  expect((await post(url.replace('https', 'http'))).status).toBe(403);
  expect((await post(url)).status).toBe(303);
  await expect(send(url.replace('https', 'http'))).rejects.toThrow();
});

describe('X-Forwarded-For', () => {
  /** Attempts to log in. @returns the status */
  async function attempt(url: string, origin: string, forwardedFor: string): Promise<number> {
    const reply = await send(url, {
      method: 'POST',
      body: 'name=alice',
      headers: {
        origin,
        'x-forwarded-for': forwardedFor,
        'content-type': 'application/x-www-form-urlencoded',
      },
    });
    return reply.status;
  }

  it('behind a proxy limits attempts by its last address, which the proxy wrote', async () => {
    const { url } = await serve({ DASHBOARD_BEHIND_PROXY: 'true' });
    const origin = url.replace('http:', 'https:');
    for (let n = 0; n < 5; n++) {
      expect(await attempt(url, origin, `10.0.0.${n}, 192.0.2.7`)).toBe(200);
    }
    expect(await attempt(url, origin, '10.0.0.99, 192.0.2.7')).toBe(429);
    expect(await attempt(url, origin, '192.0.2.7, 192.0.2.8')).toBe(200);
  });

  it('without a proxy is ignored', async () => {
    const { url } = await serve();
    for (let n = 0; n < 5; n++) await attempt(url, url, `192.0.2.${n}`);
    expect(await attempt(url, url, '192.0.2.99')).toBe(429);
  });
});

it('the host can be an IPv6 address of DASHBOARD_URL, and no full URL of a request sets it', async () => {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const address = `127.0.0.1:${(free.address() as AddressInfo).port}`;
  free.close();
  await serve({
    DASHBOARD_LISTEN: address,
    DASHBOARD_BEHIND_PROXY: 'true',
    DASHBOARD_URL: 'https://[2001:db8::7]',
  });
  for (const [host, status] of [
    ['[2001:db8::7]', 200],
    ['[2001:db8::8]', 421],
  ] as const) {
    expect((await send(`http://${address}`, { headers: { host } })).status).toBe(status);
  }
  for (const path of [
    'http://evil.example/login',
    'http://a:b@evil.example/login',
    'https://localhost/login',
  ]) {
    expect((await send(`http://${address}`, { path })).status, path).toBe(421);
  }
});

it('a port that is set must be free; the default one is replaced by a free one, and the log says which', async () => {
  const first = await serve({ DASHBOARD_LISTEN: '' });
  const taken = { DASHBOARD_LISTEN: `127.0.0.1:${new URL(first.url).port}` };
  await expect(serve(taken)).rejects.toThrow(/taken by another program/);
  const warnings: string[] = [];
  const second = await serve(
    { DASHBOARD_LISTEN: '' },
    { ...silentLog, warn: (line) => void warnings.push(line) },
  );
  expect(second.url).not.toBe(first.url);
  expect(warnings).toContainEqual(expect.stringContaining(second.url));
  expect((await send(second.url)).status).toBe(200);
});

describe('slow, many or broken clients', () => {
  function openSocket(url: string): Promise<Socket> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
    return new Promise((resolve) => socket.once('connect', () => resolve(socket)));
  }

  it('600 silent connections leave room for a request, and end no event stream of somebody who is logged in', async () => {
    const { url } = await serve();
    const cookie = await logIn(url);
    const stream = await open(url, { path: '/events', headers: { cookie } });
    let received = 0;
    stream.on('data', () => (received += 1)).on('error', () => undefined);
    onTestFinished(() => void stream.destroy());
    await expect.poll(() => received, { timeout: 20_000 }).toBeGreaterThan(0);
    const sockets = await Promise.all(Array.from({ length: 600 }, () => openSocket(url)));
    expect((await send(url)).status).toBe(200);
    await expect
      .poll(() => sockets.filter((socket) => !socket.destroyed && !socket.readableEnded).length, {
        timeout: 10_000,
      })
      .toBeLessThanOrEqual(256);
    const before = received;
    await expect.poll(() => received, { timeout: 20_000 }).toBeGreaterThan(before + 1);
    expect(stream.destroyed).toBe(false);
  });

  it('headers that arrive byte by byte or are 20 kB, an endless body and invalid HTTP only end their own connection', async () => {
    const { url } = await serve();
    const slow = await openSocket(url);
    const drip = setInterval(() => slow.write('x'), 200);
    onTestFinished(() => clearInterval(drip));
    slow.write('GET /login HTTP/1.1\r\nx-slow: ');
    const closed = once(slow.resume(), 'close');
    const { status } = await send(url, { headers: { 'x-large': 'x'.repeat(20_000) } });
    expect(status).toBe(431);
    const socket = await openSocket(url);
    socket.write(
      `POST /login HTTP/1.1\r\nhost: ${new URL(url).host}\r\norigin: ${url}\r\ntransfer-encoding: chunked\r\n` +
        'content-type: multipart/form-data; boundary=x\r\n\r\n',
    );
    const flood = setInterval(() => socket.write(`4000\r\n${'x'.repeat(0x4000)}\r\n`), 1);
    onTestFinished(() => clearInterval(flood));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 411 /);
    // Chunked forms are refused whatever their size.
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const headers = { ...type, origin: url, 'transfer-encoding': 'chunked' };
    const short = await send(url, { method: 'POST', headers, body: 'name=alice' });
    expect(short.status).toBe(411);
    (await openSocket(url)).end('\0\0\0 nonsense\r\n\r\n');
    await closed;
    expect((await send(url)).status).toBe(200);
  });
});

describe('the event stream', () => {
  /** Opens `/events` and collects its messages. */
  async function watch(url: string, cookie: string, headers: Record<string, string> = {}) {
    const reply = await open(url, { path: '/events', headers: { cookie, ...headers } });
    /** Ids of the messages. */
    const messages: number[] = [];
    let buffer = '';
    reply.setEncoding('utf8').on('data', (part: string) => {
      const parts = (buffer + part).split('\n\n');
      buffer = parts.pop() ?? '';
      for (const message of parts) messages.push(Number(/^id: (\d+)$/m.exec(message)?.[1]));
    });
    reply.on('error', () => undefined);
    const ended = new Promise<void>((resolve) => reply.once('close', resolve));
    return { reply, messages, ended };
  }

  it('needs a session, and ends soon after it', async () => {
    const { url } = await serve();
    const cookie = await logIn(url);
    const { messages, ended } = await watch(url, cookie);
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(0);
    await mirror().rows('DELETE FROM mirror.sessions');
    const headers = { accept: 'text/event-stream' };
    expect((await send(url, { path: '/events', headers })).status).toBe(401);
    await ended;
  });

  it('sends a message every second, numbered on from Last-Event-ID, also after an outage of the database, until the dashboard stops', async () => {
    const server = await serve();
    const cookie = await logIn(server.url);
    const { reply, messages, ended } = await watch(server.url, cookie, { 'last-event-id': '41' });
    expect(reply.headers['content-type']).toMatch(/^text\/event-stream/);
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(1);
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'test'`,
    );
    const before = messages.length;
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(before + 1);
    expect(messages.slice(0, 3)).toEqual([42, 43, 44]);
    await Promise.all([server.close(), ended]);
    await expect(send(server.url)).rejects.toThrow(/ECONNREFUSED/);
  });
});
