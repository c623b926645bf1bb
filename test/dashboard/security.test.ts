import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { LoginLimit } from '../../src/dashboard/security.js';
import { changePassword, deleteUser, listActions } from '../../src/dashboard/access-store.js';
import {
  expectNothingQueued,
  formTokenIn,
  HOST,
  logIn,
  loginLink,
  openDashboard,
  PASSWORD,
  PASSWORD_HASH,
  useDashboard,
} from './dashboard.js';

const { mirror, dashboard } = useDashboard();

describe('login and sessions', () => {
  it.each([
    ...['/', '/runs', '/runs/1', '/items', '/changes', '/changes.csv', '/sellers/main', '/system'],
    ...['/audits', '/audits/new', '/audits/1/result.csv', '/codes', '/codes/1', '/reports'],
    ...['/reports/revenue-by-month.csv', '/nothing'],
  ])('%s without a session redirects to the login', async (path) => {
    const reply = await dashboard().request(path);
    expect(reply.status).toBe(303);
    expect(reply.headers.get('location')).toMatch(/^\/login/);
  });

  it('a login link works once', async () => {
    const path = await loginLink(mirror().db);
    const first = await dashboard().request(path);
    expect(first.status).toBe(303);
    expect(first.headers.get('location')).toBe('/');
    const second = await dashboard().request(path);
    expect(second.status).toBe(410);
    expect(second.headers.get('set-cookie')).toBeNull();
  });

  it('a login link expires', async () => {
    const path = await loginLink(mirror().db);
    await mirror().rows(`UPDATE mirror.login_links SET expires_at = now() - interval '1 second'`);
    expect((await dashboard().request(path)).status).toBe(410);
  });

  it.each([
    [5, 303],
    [11, 410],
    // It was made by a clock that was ahead, and would be valid as long.
    [-5, 410],
  ])(
    'a login link that is %i minutes old gets %i, since terminals and chats keep links for long',
    async (minutes, status) => {
      const path = await loginLink(mirror().db);
      await mirror().rows(
        `UPDATE mirror.login_links SET expires_at = expires_at - interval '${minutes} minutes'`,
      );
      expect((await dashboard().request(path)).status).toBe(status);
    },
  );

  it('the database contains hashes, but no tokens or passwords', async () => {
    const [, token = ''] = (await loginLink(mirror().db)).split('=');
    const { cookie } = await dashboard().login('viewer');
    for (const table of ['users', 'sessions', 'login_links', 'actions']) {
      const text = JSON.stringify(await mirror().rows(`SELECT t::text FROM mirror.${table} t`));
      for (const secret of [token, PASSWORD, cookie.split('=')[1] ?? '']) {
        expect(text).not.toContain(secret);
        expect(text).not.toContain(Buffer.from(secret).toString('hex'));
      }
    }
  });

  it.each([
    [
      'after twelve hours without use',
      () => mirror().rows(`UPDATE mirror.sessions SET seen_at = now() - interval '721 minutes'`),
    ],
    [
      'if a clock that was ahead recorded its last use, since it would last as long',
      () => mirror().rows(`UPDATE mirror.sessions SET seen_at = now() + interval '2 minutes'`),
    ],
    ['when the password changes', () => changePassword(mirror().db, 'operator', PASSWORD_HASH)],
    ['when its account is removed', () => deleteUser(mirror().db, 'operator')],
  ])('a session ends %s', async (_, change) => {
    const visitor = await dashboard().login('operator');
    expect((await visitor.get('/')).status).toBe(200);
    await change();
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('logging out ends the session in the store', async () => {
    const visitor = await dashboard().login('viewer');
    expect((await visitor.post('/logout')).headers.get('location')).toBe('/login');
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('logging out works in a tab of an earlier session, but not from another site', async () => {
    const earlier = formTokenIn(await (await dashboard().login()).page('/'));
    const visitor = await dashboard().login();
    const logOut = (origin: string): Promise<Response> =>
      dashboard().request('/logout', {
        method: 'POST',
        headers: { cookie: visitor.cookie, origin },
        body: new URLSearchParams({ token: earlier }),
      });
    expect((await logOut('https://evil.example')).status).toBe(403);
    expect((await logOut(HOST)).headers.get('location')).toBe('/login');
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('a form sent after the session ended gets a link to the login, which leads back to its page', async () => {
    const send = (headers: Record<string, string>): Promise<Response> =>
      dashboard().request('/runs/7/decide', {
        method: 'POST',
        headers: { origin: HOST, ...headers },
        body: new URLSearchParams(),
      });
    const reply = await send({ referer: `${HOST}/runs/7?state=held` });
    expect(reply.status).toBe(401);
    expect(await reply.text()).toContain(
      '<a href="/login?to=%2Fruns%2F7%3Fstate%3Dheld">Log in</a>',
    );
    for (const referer of ['https://evil.example/x', `${HOST}//evil.example`, 'x', '']) {
      expect(await (await send({ referer })).text(), referer).toContain('<a href="/login">');
    }
  });

  it('requests renew a session; an open tab that refreshes its page does not', async () => {
    const [used, open] = [await dashboard().login(), await dashboard().login()];
    for (let hours = 0; hours < 18; hours += 6) {
      await mirror().rows(`UPDATE mirror.sessions SET seen_at = seen_at - interval '6 hours'`);
      await used.get('/runs');
      await open.get('/runs', { 'x-refresh': 'live' });
    }
    expect((await used.get('/runs')).status).toBe(200);
    expect((await open.get('/runs')).status).toBe(303);
  });

  it('a wrong password keeps the name, and the page to return to', async () => {
    const more = { to: '/runs/7?state=held' };
    const page = await (await logIn(dashboard().request, 'viewer', 'wrong', more)).text();
    expect(page).toContain('name="name" value="viewer"');
    expect(page).toContain('name="to" value="/runs/7?state=held"');
  });

  it('the sixth attempt within a minute gets 429, even with the right password', async () => {
    await dashboard().login('viewer');
    const { request } = dashboard();
    for (let n = 0; n < 4; n++) expect((await logIn(request, 'viewer', 'wrong')).status).toBe(401);
    const reply = await logIn(request, 'viewer', PASSWORD);
    expect(reply.status).toBe(429);
    expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('attempts are blocked for a minute, also if the clock is set back', () => {
    onTestFinished(() => void vi.useRealTimers());
    const limit = new LoginLimit();
    for (let n = 0; n < 5; n++) expect(limit.attempt('192.0.2.1')).toBe(0);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
    expect(limit.attempt('192.0.2.1')).toBeLessThanOrEqual(60);
  });
});

describe('requests', () => {
  it.each(['evil.example', 'evil.example:8791', '127.0.0.1.evil.example', '10.0.0.1', ''])(
    'for the host %j are refused',
    async (host) => {
      expect((await dashboard().request('/login', { headers: { host } })).status).toBe(421);
    },
  );

  it.each(['localhost:8791', '127.0.0.1:8791', '[::1]:8791', 'LOCALHOST'])(
    'for the local host %s are accepted',
    async (host) => {
      expect((await dashboard().request('/login', { headers: { host } })).status).toBe(200);
    },
  );

  it.each([
    ['no origin', {}],
    ['another site', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://127.0.0.1:9999' }],
    ['an opaque origin', { origin: 'null' }],
    ['another scheme', { origin: 'https://127.0.0.1:8791' }],
  ])('from %s can’t change anything', async (_, headers) => {
    const visitor = await dashboard().login();
    const reply = await dashboard().request('/sync', {
      method: 'POST',
      headers: { cookie: visitor.cookie, ...headers },
      body: new URLSearchParams({ token: formTokenIn(await visitor.page('/')) }),
    });
    expect(reply.status).toBe(403);
  });

  it('with a wrong form token, or that of another session, are refused', async () => {
    const [visitor, other] = [await dashboard().login(), await dashboard().login()];
    for (const token of ['', 'x', 'AAAA', formTokenIn(await other.page('/'))]) {
      expect((await visitor.post('/sync', { token })).status, token).toBe(403);
    }
  });

  it('that are refused name the origin that they had and the right one, since a proxy may change the host', async () => {
    const { cookie } = await dashboard().login();
    const send = (headers: Record<string, string>): Promise<Response> =>
      dashboard().request('/sync', {
        method: 'POST',
        headers: { cookie, ...headers },
        body: new URLSearchParams(),
      });
    expect(await (await send({ origin: 'https://shop.example' })).text()).toBe(
      'refused: the form came from "https://shop.example", and this dashboard is "http://127.0.0.1:8791". A proxy must forward the Host header\n',
    );
    expect(await (await send({})).text()).toContain('came from no page');
    // Only TLS makes it sure that a browser says where the form came from.
    expect((await send({ 'sec-fetch-site': 'same-origin' })).status).toBe(403);
    const host = await dashboard().request('/login', { headers: { host: 'mirror.example' } });
    expect(await host.text()).toContain(
      'unknown host "mirror.example": this dashboard is reached as localhost, 127.0.0.1. Set DASHBOARD_HOSTS',
    );
  });

  it('with JSON instead of a form are refused, since browsers send it across sites', async () => {
    const { cookie } = await dashboard().login();
    const reply = await dashboard().request('/sync', {
      method: 'POST',
      headers: { cookie, origin: HOST, 'content-type': 'application/json' },
      body: '{}',
    });
    expect(reply.status).toBe(403);
  });

  it('with a form of more than 64 kB are refused', async () => {
    const visitor = await dashboard().login();
    expect((await visitor.post('/sync', { more: 'x'.repeat(70_000) })).status).toBe(413);
  });
});

describe('responses', () => {
  it.each([
    ['a form', 'POST', '/sync', '/?notice=queued', '<a href="/">Go to the overview</a>'],
    ['a form', 'POST', '/sync', '/sellers/main', '<a href="/sellers/main">Go back</a>'],
    ['a filter', 'GET', '/items?as-of=2026-02-31', '/items', '<a href="/items">Go back</a>'],
    ['a wrong address', 'GET', '/nothing', null, '<a href="/">Go to the overview</a>'],
  ])('to %s with an error keep the navigation and lead back: %s %s', async (...given) => {
    const [, method, path, from, link] = given;
    const visitor = await dashboard().login();
    const token = formTokenIn(await visitor.page('/'));
    const reply = await dashboard().request(path, {
      method,
      headers: {
        cookie: visitor.cookie,
        origin: HOST,
        ...(from === null ? {} : { referer: HOST + from }),
      },
      ...(method === 'POST' ? { body: new URLSearchParams({ token, seller: 'nobody' }) } : {}),
    });
    expect(reply.status).toBeGreaterThanOrEqual(400);
    const text = await reply.text();
    expect(text).toContain('<nav aria-label="Sections">');
    expect(text).toContain(link);
  });

  it.each([
    ['a mistake in the program', new TypeError('x is undefined'), 500, 'a fault in seller-mirror'],
    ['an outage', new Error('Connection terminated'), 503, 'did not respond'],
  ])('name the cause of %s', async (_, error, status, text) => {
    const visitor = await dashboard().login();
    const { pool } = mirror().db;
    const query = pool.query.bind(pool);
    const failing = (...given: Parameters<typeof query>): unknown =>
      String(given.at(0)).includes('mirror.sellers') ? Promise.reject(error) : query(...given);
    const read = vi.spyOn(pool, 'query').mockImplementation(failing);
    onTestFinished(() => read.mockRestore());
    const reply = await visitor.get('/');
    expect(reply.status).toBe(status);
    expect(await reply.text()).toContain(text);
  });

  it('forbid foreign resources, framing and caching', async () => {
    const visitor = await dashboard().login();
    for (const path of ['/login', '/', '/nothing', '/changes.csv']) {
      const { headers } = await visitor.get(path);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
      );
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('same-origin');
    }
  });

  it('the event stream is not cached, and does not start for HEAD', async () => {
    const visitor = await dashboard().login();
    const stream = await visitor.get('/events');
    expect(stream.headers.get('cache-control')).toBe('no-store');
    await stream.body?.cancel();
    const { cookie } = visitor;
    const reply = await dashboard().request('/events', { method: 'HEAD', headers: { cookie } });
    expect(reply.headers.get('content-type')).toBeNull();
  });

  it('a session has at most eight event streams, so that one tab after the other takes no connection', async () => {
    const visitor = await dashboard().login();
    const streams = await Promise.all(Array.from({ length: 8 }, () => visitor.get('/events')));
    expect(streams.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect((await visitor.get('/events')).status).toBe(429);
    expect((await (await dashboard().login()).get('/events')).status).toBe(200);
    await streams[0]?.body?.cancel();
    await expect.poll(async () => (await visitor.get('/events')).status).toBe(200);
  });

  it('the cookie is hidden from scripts and other sites', async () => {
    const reply = await dashboard().request(await loginLink(mirror().db));
    const cookie = reply.headers.get('set-cookie');
    expect(cookie).toMatch(/; HttpOnly/);
    expect(cookie).toMatch(/; SameSite=Strict/);
  });

  it('on TLS the cookie is bound to the host, and browsers refuse plain HTTP for a year', async () => {
    const secure = await openDashboard(mirror(), { isSecure: true });
    const reply = await secure.request(await loginLink(mirror().db));
    expect(reply.headers.get('strict-transport-security')).toBe('max-age=31536000');
    const plain = await dashboard().request('/login');
    expect(plain.headers.get('strict-transport-security')).toBeNull();
    expect(reply.headers.get('set-cookie')).toMatch(/^__Host-seller-mirror=.*; Path=\/.*; Secure/);
  });
});

describe('viewers and the action log', () => {
  it('a viewer sees every page, and each route refuses actions', async () => {
    const viewer = await dashboard().login('viewer');
    for (const path of ['/', '/system', '/audits', '/audits/new', '/codes']) {
      expect((await viewer.get(path)).status, path).toBe(200);
    }
    for (const path of [
      ...['/sync', '/runs/1/again', '/runs/1/decide', '/system/retry', '/anything'],
      ...['/sellers/main/sync', '/sellers/main/pause', '/sellers/main/resume'],
      ...['/audits/new', '/audits/1/read', '/audits/1/start', '/audits/1/cancel', '/codes/check'],
    ]) {
      expect((await viewer.post(path)).status, path).toBe(403);
    }
    await expectNothingQueued(dashboard());
  });

  it('the event stream masks codes for viewers, since the problem of an audit may quote one', async () => {
    const code = '86781236-23d0-4b3c-7dfa-c1c147e0dece';
    await ensureSeller(mirror().db, 'main', 'example.com');
    await mirror().rows(
      `INSERT INTO mirror.audits (seller_id, state, source, layout, lines, rejected, codes, reused, valid,
                                  invalid, unproven, pending, problem)
       VALUES ('main', 'running', 'a test', '{}', 1, 0, 1, 0, 0, 0, 0, 1, 'no answer about ${code}')`,
    );
    const firstEvent = async (role: 'operator' | 'viewer'): Promise<string> => {
      const visitor = await dashboard().login(role);
      const reader = (await visitor.get('/events')).body?.getReader();
      const { value } = (await reader?.read()) ?? {};
      await reader?.cancel();
      return Buffer.from(value ?? []).toString();
    };
    expect(await firstEvent('operator')).toContain(`no answer about ${code}`);
    const seen = await firstEvent('viewer');
    expect(seen).toContain('no answer about ');
    expect(seen).not.toContain(code);
  });

  it('the action log records who did what, and the outcome', async () => {
    const operator = await dashboard().login('operator');
    await operator.post('/sync', { seller: 'nobody' });
    expect(await listActions(mirror().db, 10)).toMatchObject([
      { who: 'operator', action: 'sync now', target: 'nobody', outcome: 'Seller not found' },
      { who: 'operator', action: 'log in', target: null, outcome: 'done' },
    ]);
  });
});
