import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newToken, tokenHash } from '../../src/dashboard/security.js';
import { useMirror } from '../support/mirror.js';
import {
  HOST,
  logIn,
  openDashboard,
  PASSWORD,
  PASSWORD_HASH,
  type TestDashboard,
} from './dashboard.js';

const mirror = useMirror();
let dashboard: TestDashboard;

beforeEach(async () => {
  dashboard = await openDashboard(mirror());
});

afterEach(async () => {
  await dashboard.close();
});

async function link(): Promise<string> {
  const token = newToken();
  await mirror().store.access.addLink(tokenHash(token), 'a test');
  return `/login?token=${token}`;
}

describe('who may come in', () => {
  it.each([
    '/',
    '/runs',
    '/runs/1',
    '/items',
    '/changes',
    '/changes.csv',
    '/sellers/main',
    '/system',
    '/audits',
    '/audits/new',
    '/audits/1/result.csv',
    '/codes',
    '/codes/1',
    '/reports',
    '/reports/revenue-by-month.csv',
    '/nothing',
  ])('nobody without a session: %s sends to the login page', async (path) => {
    const reply = await dashboard.request(path);
    expect(reply.status).toBe(303);
    expect(reply.headers.get('location')).toMatch(/^\/login/);
  });

  it('a login link works once, since it may stay in a history or a log', async () => {
    const path = await link();
    const first = await dashboard.request(path);
    expect(first.status).toBe(303);
    expect(first.headers.get('location')).toBe('/');
    const second = await dashboard.request(path);
    expect(second.status).toBe(410);
    expect(second.headers.get('set-cookie')).toBeNull();
  });

  it('a login link works for ten minutes', async () => {
    const path = await link();
    await mirror().rows(`UPDATE mirror.login_links SET expires_at = now() - interval '1 second'`);
    expect((await dashboard.request(path)).status).toBe(410);
  });

  it('neither tokens nor passwords are in the database, only their hashes', async () => {
    const path = await link();
    const token = path.split('=')[1] ?? '';
    const { cookie } = await dashboard.login('viewer');
    const tables = ['users', 'sessions', 'login_links', 'actions'];
    for (const table of tables) {
      const text = JSON.stringify(await mirror().rows(`SELECT t::text FROM mirror.${table} t`));
      for (const secret of [token, PASSWORD, cookie.split('=')[1] ?? '']) {
        expect(text).not.toContain(secret);
        expect(text).not.toContain(Buffer.from(secret).toString('hex'));
      }
    }
  });

  it('a session ends after twelve hours without use', async () => {
    const visitor = await dashboard.login();
    await mirror().rows(`UPDATE mirror.sessions SET seen_at = now() - interval '721 minutes'`);
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('a session ends when the password changes', async () => {
    const visitor = await dashboard.login('operator');
    expect((await visitor.get('/')).status).toBe(200);
    await mirror().store.access.setPassword('operator', PASSWORD_HASH);
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('a session ends when its account is removed', async () => {
    const visitor = await dashboard.login('operator');
    await mirror().store.access.removeUser('operator');
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('logging out ends the session, not only the cookie', async () => {
    const visitor = await dashboard.login('viewer');
    expect((await visitor.post('/logout')).headers.get('location')).toBe('/login');
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('a session that only an open tab asks for ends after 12 h, one that is used goes on', async () => {
    const { access } = mirror().store;
    const [used, open] = [tokenHash(newToken()), tokenHash(newToken())];
    for (const token of [used, open]) await access.openSession(token, { madeBy: 'test' });
    for (let hours = 0; hours < 18; hours += 6) {
      await mirror().rows(`UPDATE mirror.sessions SET seen_at = seen_at - interval '6 hours'`);
      await access.session(used);
      await access.session(open, false);
    }
    expect(await access.session(used)).not.toBeNull();
    expect(await access.session(open)).toBeNull();
  });

  it('five tries a minute to log in, then 429 even with the right password', async () => {
    await mirror().store.access.addUser({
      name: 'alice',
      role: 'viewer',
      passwordHash: PASSWORD_HASH,
    });
    const { request } = dashboard;
    for (let n = 0; n < 5; n++) expect((await logIn(request, 'alice', 'wrong')).status).toBe(401);
    const reply = await logIn(request, 'alice', PASSWORD);
    expect(reply.status).toBe(429);
    expect(Number(reply.headers.get('retry-after'))).toBeGreaterThan(0);
  });
});

describe('what a request must look like', () => {
  it.each(['evil.example', 'evil.example:8791', '127.0.0.1.evil.example', '10.0.0.1', ''])(
    'the host %j is refused: its name may have been made to point here',
    async (host) => {
      const reply = await dashboard.request('/login', { headers: { host } });
      expect(reply.status).toBe(421);
    },
  );

  it.each(['localhost:8791', '127.0.0.1:8791', '[::1]:8791', 'LOCALHOST'])(
    'the host %s is this machine',
    async (host) => {
      expect((await dashboard.request('/login', { headers: { host } })).status).toBe(200);
    },
  );

  it.each([
    ['no origin', {}],
    ['another site', { origin: 'https://evil.example' }],
    ['another port', { origin: 'http://127.0.0.1:9999' }],
    ['an opaque origin', { origin: 'null' }],
    ['another scheme', { origin: 'https://127.0.0.1:8791' }],
  ])('a form from %s is refused, whatever its session', async (_, headers) => {
    const visitor = await dashboard.login();
    const token = /name="token" value="([^"]+)"/.exec(await visitor.page('/'))?.[1] ?? '';
    const reply = await dashboard.request('/sync', {
      method: 'POST',
      headers: { cookie: visitor.cookie, ...headers },
      body: new URLSearchParams({ token }),
    });
    expect(reply.status).toBe(403);
  });

  it.each(['', 'x', 'AAAA'])('a form with the token %j is refused', async (token) => {
    const visitor = await dashboard.login();
    expect((await visitor.post('/sync', { token })).status).toBe(403);
  });

  it('a form with the token of another session is refused', async () => {
    const [one, other] = [await dashboard.login(), await dashboard.login()];
    const token = /name="token" value="([^"]+)"/.exec(await one.page('/'))?.[1] ?? '';
    expect((await other.post('/sync', { token })).status).toBe(403);
  });

  it('JSON in place of a form is refused, since browsers send it across sites', async () => {
    const visitor = await dashboard.login();
    const reply = await dashboard.request('/sync', {
      method: 'POST',
      headers: { cookie: visitor.cookie, origin: HOST, 'content-type': 'application/json' },
      body: '{}',
    });
    expect(reply.status).toBe(403);
  });

  it('a form larger than 64 kB is refused before it is read', async () => {
    const visitor = await dashboard.login();
    const reply = await visitor.post('/sync', { more: 'x'.repeat(70_000) });
    expect(reply.status).toBe(413);
  });
});

describe('what an answer says to the browser', () => {
  it('every answer may load nothing from elsewhere, be framed by nobody, and be kept by nobody', async () => {
    const visitor = await dashboard.login();
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

  it('the stream of live figures is kept by nobody, and begins for GET only', async () => {
    const visitor = await dashboard.login();
    const stream = await visitor.get('/events');
    expect(stream.headers.get('cache-control')).toBe('no-store');
    await stream.body?.cancel();
    // Its watch would never end: nobody reads the body.
    const { cookie } = visitor;
    const looked = await dashboard.request('/events', { method: 'HEAD', headers: { cookie } });
    expect(looked.headers.get('content-type')).toBeNull();
  });

  it('the cookie is out of reach for scripts and other sites', async () => {
    const cookie = (await dashboard.request(await link())).headers.get('set-cookie');
    expect(cookie).toMatch(/; HttpOnly/);
    expect(cookie).toMatch(/; SameSite=Strict/);
  });

  it('on TLS the cookie is bound to the host', async () => {
    await dashboard.close();
    dashboard = await openDashboard(mirror(), { isSecure: true });
    const cookie = (await dashboard.request(await link())).headers.get('set-cookie');
    expect(cookie).toMatch(/^__Host-seller-mirror=.*; Path=\/.*; Secure/);
  });
});

describe('what a viewer may do', () => {
  it('looks at every page, and is refused each action by the route itself', async () => {
    const viewer = await dashboard.login('viewer');
    for (const path of ['/', '/system', '/audits', '/audits/new', '/codes'])
      expect((await viewer.get(path)).status).toBe(200);
    const actions = ['/sync', '/runs/1/again', '/runs/1/decide', '/system/retry', '/anything'];
    const ofSeller = ['sync', 'pause', 'resume'].map((action) => `/sellers/main/${action}`);
    const ofCodes = ['/audits/new', '/audits/start', '/audits/1/cancel', '/codes/check'];
    for (const path of [...actions, ...ofSeller, ...ofCodes]) {
      expect((await viewer.post(path)).status, path).toBe(403);
    }
    expect(await dashboard.queues.counts()).toMatchObject({ mirror: { waiting: 0 } });
  });
});

describe('the log of actions', () => {
  it('says who did what, when, and what came of it', async () => {
    const operator = await dashboard.login('operator');
    await operator.post('/sync', { seller: 'nobody' });
    expect(await mirror().store.access.actions(10)).toMatchObject([
      { who: 'operator', action: 'sync now', target: 'nobody', outcome: 'Seller not found' },
      { who: 'operator', action: 'log in', target: null, outcome: 'done' },
    ]);
  });
});
