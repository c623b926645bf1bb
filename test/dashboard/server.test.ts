import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request as plainRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as secureRequest } from 'node:https';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { readConfig } from '../../src/config/index.js';
import { newToken, tokenHash } from '../../src/dashboard/security.js';
import { startDashboard } from '../../src/dashboard/server.js';
import { silentLog, type Log } from '../../src/domain/log.js';
import { ListenError, type WebServer } from '../../src/web/listen.js';
import { selfSigned } from '../support/certificate.js';
import { useMirror } from '../support/mirror.js';
import { PASSWORD_HASH } from './dashboard.js';

const mirror = useMirror();
const closings: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close();
});

/** Serves the dashboard with these settings, until the test ends. */
async function serve(
  settings: Readonly<Record<string, string>> = {},
  log: Log = silentLog,
): Promise<WebServer> {
  const { store, databaseUrl } = mirror();
  const env = { DATABASE_URL: databaseUrl, DASHBOARD_LISTEN: '127.0.0.1:0', ...settings };
  const config = readConfig(env, { cwd: '/', needs: 'store', cronFault: () => null });
  const server = await startDashboard({
    config,
    store,
    database: { url: databaseUrl, location: null },
    log,
    queues: await mirror().queues(),
    mirror: await mirror().reader(),
    withJobs: () => Promise.reject(new Error('this dashboard has no seller')),
  });
  if (server === null) throw new Error('no dashboard');
  closings.push(() => server.close());
  return server;
}

async function addAccount(): Promise<void> {
  const account = { name: 'alice', role: 'operator', passwordHash: PASSWORD_HASH } as const;
  await mirror().store.access.addUser(account);
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

interface Asked extends RequestOptions {
  readonly body?: string;
  readonly ca?: string;
  readonly servername?: string;
}

/** Sends a request; headers and path go out as they are. */
async function begin(url: string, { body, ...options }: Asked = {}): Promise<IncomingMessage> {
  const { hostname, port, protocol } = new URL(url);
  const send = protocol === 'https:' ? secureRequest : plainRequest;
  const request = send({ hostname, port, agent: false, path: '/login', ...options });
  request.end(body);
  const [reply] = (await once(request, 'response')) as [IncomingMessage];
  return reply;
}

async function ask(url: string, options: Asked = {}): Promise<Answer> {
  const reply = await begin(url, options);
  return { status: reply.statusCode ?? 0, headers: reply.headers, text: await text(reply) };
}

/** Logs an operator in and returns the cookie. */
async function logIn(url: string, options: Asked = {}): Promise<string> {
  const token = newToken();
  await mirror().store.access.addLink(tokenHash(token), 'a test');
  const { headers } = await ask(url, { ...options, path: `/login?token=${token}` });
  return headers['set-cookie']?.[0]?.split(';')[0] ?? '';
}

/** Files of a self-signed certificate for localhost. */
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

describe('a dashboard that other machines could reach', () => {
  const OPEN = { DASHBOARD_LISTEN: '0.0.0.0:0' };

  it.each([
    ['without TLS or a proxy', OPEN, /without TLS$/, /DASHBOARD_BEHIND_PROXY/],
    [
      'without an account',
      { ...OPEN, DASHBOARD_BEHIND_PROXY: 'true' },
      /nobody has an account$/,
      /`seller-mirror users add NAME/,
    ],
  ])('does not start %s', async (_, settings, problem, remedy) => {
    const error = await serve(settings).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ListenError);
    expect((error as ListenError).message).toMatch(problem);
    expect((error as ListenError).remedy).toMatch(remedy);
  });

  it('does not start without TLS though somebody has an account', async () => {
    await addAccount();
    await expect(serve(OPEN)).rejects.toThrow(/without TLS$/);
  });

  it('starts with both, and takes the address that it was reached at for its host, no other', async () => {
    await addAccount();
    const { settings, trust } = certificate();
    const { url } = await serve({ ...OPEN, ...settings });
    const { port } = new URL(url);
    const hosts = [`127.0.0.1:${port}`, `localhost:${port}`, `10.1.2.3:${port}`, 'evil.example'];
    const statuses: number[] = [];
    for (const host of hosts) {
      const at = `https://127.0.0.1:${port}`;
      statuses.push((await ask(at, { ...trust, headers: { host } })).status);
    }
    expect(statuses).toEqual([200, 200, 421, 421]);
  });
});

describe('TLS of its own', () => {
  it('binds the cookie to the host, and takes forms of its https origin only', async () => {
    const { settings, trust } = certificate();
    const { url } = await serve(settings);
    expect(url).toMatch(/^https:/);
    const cookie = await logIn(url, trust);
    expect(cookie).toMatch(/^__Host-seller-mirror=/);
    const page = await ask(url, { ...trust, path: '/', headers: { cookie } });
    expect(page.status).toBe(200);
    const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
    const post = (origin: string): Promise<Answer> =>
      ask(url, {
        ...trust,
        method: 'POST',
        path: '/logout',
        body: `token=${token}`,
        headers: { cookie, origin, 'content-type': 'application/x-www-form-urlencoded' },
      });
    expect((await post(url.replace('https', 'http'))).status).toBe(403);
    expect((await post(url)).status).toBe(303);
  });

  it('answers nobody who speaks plain HTTP', async () => {
    const { settings } = certificate();
    const { url } = await serve(settings);
    await expect(ask(url.replace('https', 'http'))).rejects.toThrow();
  });

  it('names the file and its setting when it can’t be read', async () => {
    const { settings } = certificate();
    const error = await serve({ ...settings, DASHBOARD_TLS_KEY_FILE: '/nowhere/key.pem' }).catch(
      (reason: unknown) => reason,
    );
    expect(String(error)).toMatch(
      /can’t read \/nowhere\/key\.pem .* set by DASHBOARD_TLS_KEY_FILE/,
    );
  });
});

describe('behind a proxy', () => {
  it('tries to log in are counted by what the proxy saw, not by what the browser says', async () => {
    const { url } = await serve({ DASHBOARD_BEHIND_PROXY: 'true' });
    const { host } = new URL(url);
    const tryFrom = (forwarded: string): Promise<Answer> =>
      ask(url, {
        method: 'POST',
        body: 'name=alice',
        headers: {
          origin: `https://${host}`,
          'x-forwarded-for': forwarded,
          'content-type': 'application/x-www-form-urlencoded',
        },
      });
    for (let n = 0; n < 5; n++) expect((await tryFrom(`10.0.0.${n}, 192.0.2.7`)).status).toBe(200);
    expect((await tryFrom('10.0.0.99, 192.0.2.7')).status).toBe(429);
    expect((await tryFrom('192.0.2.7, 192.0.2.8')).status).toBe(200);
  });

  it('but without the setting X-Forwarded-For is anybody’s word', async () => {
    const { url } = await serve();
    const tryFrom = (forwarded: string): Promise<Answer> =>
      ask(url, {
        method: 'POST',
        body: 'name=alice',
        headers: {
          origin: url,
          'x-forwarded-for': forwarded,
          'content-type': 'application/x-www-form-urlencoded',
        },
      });
    for (let n = 0; n < 5; n++) await tryFrom(`192.0.2.${n}`);
    expect((await tryFrom('192.0.2.99')).status).toBe(429);
  });
});

describe('the host', () => {
  it('of a DASHBOARD_URL may be an address of IPv6', async () => {
    const free = createServer().listen(0, '127.0.0.1');
    await once(free, 'listening');
    const address = `127.0.0.1:${(free.address() as AddressInfo).port}`;
    free.close();
    await serve({
      DASHBOARD_LISTEN: address,
      DASHBOARD_BEHIND_PROXY: 'true',
      DASHBOARD_URL: 'https://[2001:db8::7]',
    });
    const asked = (host: string): Promise<Answer> =>
      ask(`http://${address}`, { headers: { host } });
    expect((await asked('[2001:db8::7]')).status).toBe(200);
    expect((await asked('[2001:db8::8]')).status).toBe(421);
  });

  it.each([
    'http://evil.example/login',
    'http://a:b@evil.example/login',
    'https://localhost/login',
  ])('is not taken from a target that is a whole URL: %s', async (path) => {
    const { url } = await serve();
    expect((await ask(url, { path })).status).toBe(421);
  });
});

describe('the port', () => {
  async function taken(): Promise<number> {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    closings.push(async () => {
      other.close();
      await once(other, 'close');
    });
    return (other.address() as AddressInfo).port;
  }

  it('that somebody chose and another program has ends the start', async () => {
    const port = await taken();
    await expect(serve({ DASHBOARD_LISTEN: `127.0.0.1:${port}` })).rejects.toThrow(
      /taken by another program/,
    );
  });

  it('that nobody chose is a free one when the usual one is taken, which the log says', async () => {
    const first = await serve({ DASHBOARD_LISTEN: '' });
    const said: string[] = [];
    const second = await serve(
      { DASHBOARD_LISTEN: '' },
      { ...silentLog, warn: (line) => void said.push(line) },
    );
    expect(second.url).not.toBe(first.url);
    expect(said).toContainEqual(expect.stringContaining(second.url));
    expect((await ask(second.url)).status).toBe(200);
  });
});

describe('clients that are slow, many or broken', () => {
  /** A connection that was closed by the server, or is still open. */
  function open(url: string): Promise<Socket> {
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
    return new Promise((resolve) => socket.once('connect', () => resolve(socket)));
  }

  it('600 connections that say nothing leave room for one that asks', async () => {
    const { url } = await serve();
    const sockets = await Promise.all(Array.from({ length: 600 }, () => open(url)));
    expect((await ask(url)).status).toBe(200);
    await expect
      .poll(() => sockets.filter((socket) => !socket.destroyed && !socket.readableEnded).length, {
        timeout: 10_000,
      })
      .toBeLessThanOrEqual(256);
    expect((await ask(url)).status).toBe(200);
  });

  it('headers that come a byte at a time are not waited for', async () => {
    const { url } = await serve();
    const socket = await open(url);
    const drip = setInterval(() => socket.write('x'), 200);
    onTestFinished(() => clearInterval(drip));
    socket.write('GET /login HTTP/1.1\r\nx-slow: ');
    socket.resume();
    await once(socket, 'close');
  });

  it('a header of 20 kB, a body without end and bytes that are no HTTP end only themselves', async () => {
    const { url } = await serve();
    const { status } = await ask(url, { headers: { 'x-large': 'x'.repeat(20_000) } });
    expect(status).toBe(431);
    const socket = await open(url);
    socket.write(
      `POST /login HTTP/1.1\r\nhost: ${new URL(url).host}\r\norigin: ${url}\r\ntransfer-encoding: chunked\r\n` +
        'content-type: multipart/form-data; boundary=x\r\n\r\n',
    );
    const flood = setInterval(() => socket.write(`4000\r\n${'x'.repeat(0x4000)}\r\n`), 1);
    onTestFinished(() => clearInterval(flood));
    const [answer] = (await once(socket, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 411 /);
    // Also a short one: what it lacks is its length, not the database.
    const headers = { origin: url, 'transfer-encoding': 'chunked' };
    const short = await ask(url, { method: 'POST', headers, body: 'name=alice' });
    expect(short.status).toBe(411);
    (await open(url)).end('\0\0\0 nonsense\r\n\r\n');
    expect((await ask(url)).status).toBe(200);
  });
});

describe('the stream of live figures', () => {
  /** Opens `/events` and returns what it says, message by message. */
  async function watch(url: string, cookie: string, headers: Record<string, string> = {}) {
    const reply = await begin(url, { path: '/events', headers: { cookie, ...headers } });
    const messages: { id: number; at: number }[] = [];
    let waiting = '';
    reply.setEncoding('utf8').on('data', (part: string) => {
      waiting += part;
      for (let end = waiting.indexOf('\n\n'); end >= 0; end = waiting.indexOf('\n\n')) {
        const id = Number(/^id: (\d+)$/m.exec(waiting.slice(0, end))?.[1] ?? NaN);
        messages.push({ id, at: Date.now() });
        waiting = waiting.slice(end + 2);
      }
    });
    reply.on('error', () => undefined);
    const ended = new Promise<void>((resolve) => reply.once('close', resolve));
    return { reply, messages, ended };
  }

  it('says something each second, counted on from the last that the browser had', async () => {
    const { url } = await serve();
    const cookie = await logIn(url);
    const { reply, messages } = await watch(url, cookie, { 'last-event-id': '41' });
    expect(reply.headers['content-type']).toMatch(/^text\/event-stream/);
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThanOrEqual(3);
    expect(messages.slice(0, 3).map(({ id }) => id)).toEqual([42, 43, 44]);
    reply.destroy();
  });

  it('ends soon after its session, so that who was logged out sees nothing more', async () => {
    const { url } = await serve();
    const cookie = await logIn(url);
    const { messages, ended } = await watch(url, cookie);
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(0);
    await mirror().store.access.endSession(tokenHash(cookie.split('=')[1] ?? ''));
    await ended;
  });

  it('is for those who are logged in', async () => {
    const { url } = await serve();
    const headers = { accept: 'text/event-stream' };
    expect((await ask(url, { path: '/events', headers })).status).toBe(401);
  });

  it('ends when the dashboard stops, which waits for nobody', async () => {
    const server = await serve();
    const cookie = await logIn(server.url);
    const { messages, ended } = await watch(server.url, cookie);
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(0);
    await Promise.all([server.close(), ended]);
    await expect(ask(server.url)).rejects.toThrow(/ECONNREFUSED/);
  });

  it('tells watchers nothing while the store does not answer, and goes on afterwards', async () => {
    const { url } = await serve();
    const cookie = await logIn(url);
    const { messages, reply } = await watch(url, cookie);
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(0);
    await mirror().rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'test'`,
    );
    const before = messages.length;
    await expect.poll(() => messages.length, { timeout: 20_000 }).toBeGreaterThan(before + 1);
    reply.destroy();
  });
});
