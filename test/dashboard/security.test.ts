import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { hashPassword } from '../../src/dashboard/passwords.js';
import { run } from '../cli/support.js';
import { storeCheck, storeSeller } from '../support/states.js';
import {
  addAccount,
  expectNothingQueued,
  formTokenIn,
  HOST,
  logIn,
  loginLink,
  openDashboard,
  PASSWORD,
  useDashboard,
} from './dashboard.js';

const { mirror, dashboard } = useDashboard();

const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  dashboard().request(path, { headers });

const post = (
  path: string,
  headers: Record<string, string>,
  body: FormData | URLSearchParams | string,
): Promise<Response> =>
  dashboard().request(path, { method: 'POST', headers: { origin: HOST, ...headers }, body });

const statusOf = async (path: string, headers?: Record<string, string>): Promise<number> =>
  (await get(path, headers)).status;

/** Words of a text: one path or header each, so that a failure names it. */
const each = (text: string): string[] => text.trim().split(/\s+/);

it('only names of this machine are its hosts, whatever headers say that any client can set', async () => {
  for (const host of [
    ...each('localhost. localhost.evil.example localhost@evil.example localhost:evil 127.1'),
    ...each('2130706433 0x7f.0.0.1 0177.0.0.1 [::ffff:127.0.0.1] [::1 user@127.0.0.1 0.0.0.0'),
    ...each('127.0.0.1:8791/ evil.example evil.example:8791 127.0.0.1.evil.example 10.0.0.1'),
    ...['127.0.0.1:8791, evil.example', ''],
  ]) {
    expect(await statusOf('/login', { host }), host).toBe(421);
  }
  for (const host of each('localhost:8791 127.0.0.1:8791 [::1]:8791 LOCALHOST')) {
    expect(await statusOf('/login', { host }), host).toBe(200);
  }
  for (const name of each('x-forwarded-host x-host forwarded x-original-url x-rewrite-url')) {
    const forged = { host: 'evil.example', [name]: 'host=127.0.0.1:8791' };
    expect(await statusOf('/login', forged), name).toBe(421);
    const page = await (await get('/login', { [name]: '/runs' })).text();
    expect(page, name).toContain('action="/login"');
  }
});

describe('without a session', () => {
  it('every path leads to the login, and no other spelling of it shows anything', async () => {
    for (const path of [
      ...each(
        '/ /runs /runs/1 /items /changes /changes.csv /sellers/main /system /audits /nothing',
      ),
      ...each('/audits/new /audits/1/result.csv /codes /codes/1 /reports /reports/price-moves.csv'),
    ]) {
      const reply = await get(path);
      expect(reply.headers.get('location'), path).toMatch(/^\/login/);
      expect(reply.status, path).toBe(303);
    }
    for (const path of [
      ...each('//runs /./runs /login/../runs /login/%2e%2e/runs /assets/../runs /runs/ /%72uns'),
      ...each('/login%2f..%2fruns /login;/runs /login/runs /assets/x/../../runs /RUNS /runs%00'),
      ...each('/runs?x=/login /runs#/login /\\runs /.%2e/runs'),
    ]) {
      const reply = await get(path);
      expect([303, 401, 404, 421], path).toContain(reply.status);
      expect(await reply.text(), path).not.toContain('Log out');
    }
  });

  it('a form gets a link to the login, which leads back to its page', async () => {
    const send = (referer: string) => post('/runs/7/decide', { referer }, new URLSearchParams());
    const reply = await send(`${HOST}/runs/7?state=held`);
    expect(reply.status).toBe(401);
    expect(await reply.text()).toContain('href="/login?to=%2Fruns%2F7%3Fstate%3Dheld">Log in</a>');
    for (const referer of ['https://evil.example/x', `${HOST}//evil.example`, 'x', '']) {
      expect(await (await send(referer)).text(), referer).toContain('<a href="/login">');
    }
  });
});

it('a login link works once and for ten minutes, whatever was tried before: any web page can embed wrong ones', async () => {
  const path = await loginLink(mirror());
  // Messengers preview links with HEAD.
  const preview = await dashboard().request(path, { method: 'HEAD' });
  expect(preview.headers.get('set-cookie')).toBeNull();
  for (let n = 0; n < 40; n++) expect(await statusOf('/login?token=x')).toBe(410);
  const first = await get(path);
  expect([first.status, first.headers.get('location')]).toEqual([303, '/']);
  const second = await get(path);
  expect([second.status, second.headers.get('set-cookie')]).toEqual([410, null]);
  // A page says who can help, and no command.
  expect(await second.text()).toMatch(/somebody .* on the server/);
  for (const [minutesAgo, status] of [
    [5, 303],
    [11, 410],
    // A clock that was ahead made it: it would be valid for longer.
    [-5, 410],
  ] as const) {
    const other = await loginLink(mirror());
    await mirror().rows(
      `UPDATE mirror.login_links SET expires_at = expires_at - interval '${minutesAgo} minutes'`,
    );
    expect(await statusOf(other), `made ${minutesAgo} minutes ago`).toBe(status);
  }
});

describe('a session', () => {
  it('ends after twelve hours without use, by a wrong clock, and with its password or account; no other does', async () => {
    const other = await dashboard().login('viewer');
    for (const seenAt of [`now() - interval '721 minutes'`, `now() + interval '2 minutes'`]) {
      const visitor = await dashboard().login();
      await mirror().rows(`UPDATE mirror.sessions SET seen_at = ${seenAt} WHERE user_name IS NULL`);
      expect((await visitor.get('/')).status, seenAt).toBe(303);
    }
    await addAccount(mirror(), 'alice');
    const env = { DATABASE_URL: mirror().databaseUrl };
    for (const command of ['password', 'remove']) {
      const { headers } = await logIn(dashboard().request, 'alice', PASSWORD);
      const cookie = headers.get('set-cookie')?.split(';')[0] ?? '';
      expect(await statusOf('/', { cookie })).toBe(200);
      await run(['users', command, 'alice'], env, { stdin: `${PASSWORD}\n` });
      expect(await statusOf('/', { cookie }), command).toBe(303);
    }
    expect((await other.get('/')).status, 'another account').toBe(200);
  });

  it('is renewed by requests, but not by an open tab that refreshes its page', async () => {
    const [used, open] = [await dashboard().login(), await dashboard().login()];
    for (let hours = 0; hours < 18; hours += 6) {
      await mirror().rows(`UPDATE mirror.sessions SET seen_at = seen_at - interval '6 hours'`);
      await used.get('/runs');
      await open.get('/runs', { 'x-refresh': 'live' });
    }
    expect((await used.get('/runs')).status).toBe(200);
    expect((await open.get('/runs')).status).toBe(303);
  });

  it('ends at Log out, also in a tab of an earlier session, but not for another site', async () => {
    const earlier = formTokenIn(await (await dashboard().login()).page('/'));
    const visitor = await dashboard().login();
    const logOut = (origin: string): Promise<Response> => {
      const body = new URLSearchParams({ token: earlier });
      return post('/logout', { cookie: visitor.cookie, origin }, body);
    };
    expect((await logOut('https://evil.example')).status).toBe(403);
    expect((await logOut(HOST)).headers.get('location')).toBe('/login');
    expect((await visitor.get('/')).status).toBe(303);
  });

  it('ends when the same browser logs in again, with a new token: a planted one is worthless', async () => {
    await addAccount(mirror(), 'alice');
    const first = await dashboard().login();
    await get(await loginLink(mirror()), { cookie: first.cookie });
    expect((await first.get('/')).status).toBe(303);
    const planted = 'seller-mirror-0=planted-by-somebody';
    const body = new URLSearchParams({ name: 'alice', password: PASSWORD });
    const reply = await post('/login', { cookie: planted }, body);
    expect(reply.headers.get('set-cookie')).not.toContain('planted');
    expect(await statusOf('/', { cookie: planted })).toBe(303);
  });

  it('is opened only by its own cookie, which is hidden from scripts and other sites, and bound to the host on TLS', async () => {
    const operator = await dashboard().login();
    const [, token = ''] = operator.cookie.split('=');
    const formToken = formTokenIn(await operator.page('/'));
    for (const cookie of [
      ...[`session=${token}`, `seller-mirror-8791=${token}`, `__Host-seller-mirror=${token}`],
      ...[`seller-mirror-0=${token}x`, `seller-mirror-0="${token.slice(1)}"`, 'seller-mirror-0='],
      ...['seller-mirror-0=%00', `seller-mirror-0=${'x'.repeat(8_000)}`],
      // Pages contain the token of their forms.
      `seller-mirror-0=${formToken}`,
    ]) {
      expect(await statusOf('/', { cookie }), cookie.slice(0, 40)).toBe(303);
    }
    const plain = await get(await loginLink(mirror()));
    expect(plain.headers.get('set-cookie')).toMatch(/; HttpOnly.*; SameSite=Strict/);
    expect(plain.headers.get('strict-transport-security')).toBeNull();
    const secure = await openDashboard(mirror(), { isSecure: true });
    const { cookie } = operator;
    expect((await secure.request('/', { headers: { cookie } })).status, 'plain HTTP').toBe(303);
    const { headers } = await secure.request(await loginLink(mirror()));
    expect(headers.get('strict-transport-security')).toBe('max-age=31536000');
    expect(headers.get('set-cookie')).toMatch(/^__Host-seller-mirror=.*; Path=\/.*; Secure/);
  });

  it('leaves only hashes in the database', async () => {
    const [, token = ''] = (await loginLink(mirror())).split('=');
    const { cookie } = await dashboard().login('viewer');
    for (const table of ['users', 'sessions', 'login_links', 'actions']) {
      const text = JSON.stringify(await mirror().rows(`SELECT t::text FROM mirror.${table} t`));
      for (const secret of [token, PASSWORD, cookie.split('=')[1] ?? '']) {
        expect(text).not.toContain(secret);
        expect(text).not.toContain(Buffer.from(secret).toString('hex'));
      }
    }
  });
});

it('after a login, the requested page is shown, and no redirect leaves the dashboard', async () => {
  await addAccount(mirror(), 'alice');
  const leadsTo = (to: string) => logIn(dashboard().request, 'alice', PASSWORD, { to });
  // Each from an address of its own, since only five logins a minute are allowed.
  const proxied = await openDashboard(mirror(), { isBehindProxy: true, isSecure: true });
  let address = 0;
  const leadsProxied = (to: string): Promise<Response> =>
    proxied.request('/login', {
      method: 'POST',
      headers: {
        origin: HOST.replace('http:', 'https:'),
        // Known addresses are not limited together.
        'x-forwarded-for': `10.0.0.${Math.floor(address++ / 5)}`,
      },
      body: new URLSearchParams({ name: 'alice', password: PASSWORD, to }),
    });
  for (const to of [
    ...['https://evil.example/', '//evil.example', '/\\evil.example', '\\\\evil.example'],
    ...['/\t/evil.example', '/\n/evil.example', '/\u0000/evil.example', '/\u00a0//evil.example'],
    ...['javascript:alert(1)', ' //evil.example', '/runs\r\nset-cookie: a=b', '/größe', 'evil', ''],
  ]) {
    const reply = await leadsProxied(to);
    expect([reply.status, reply.headers.get('location')], to).toEqual([303, '/']);
    expect([...reply.headers.keys()].filter((name) => name === 'set-cookie')).toHaveLength(1);
  }
  for (const to of ['/runs/7?state=held', '/items?search=a%20b#x', '/.//evil.example']) {
    const target = new URL((await leadsTo(to)).headers.get('location') ?? '', HOST);
    expect(target.href).toBe(new URL(to, HOST).href);
    expect(target.origin).toBe(HOST);
  }
  // No line end of the path gets into a header.
  const { headers } = await get('/runs?x=%0d%0aset-cookie:%20a=b');
  expect(headers.get('location')).toMatch(/^\/login\?to=[\w%.-]+$/);
  expect(headers.get('set-cookie')).toBeNull();
});

describe('guessing names and passwords', () => {
  it('costs as much CPU time for an unknown name as for a known one', async () => {
    await addAccount(mirror(), 'alice', 'viewer', await hashPassword(PASSWORD));
    const costOf = async (name: string): Promise<number> => {
      const before = process.cpuUsage();
      expect((await logIn(dashboard().request, name, 'wrong password')).status).toBe(401);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    // The first attempt also pays for code that has never run.
    await costOf('alice');
    const known = await costOf('alice');
    for (const name of ['nobody', '\u0000 no name']) {
      expect((await costOf(name)) / known, name).toBeGreaterThan(0.4);
    }
  });

  it('gets one answer for a wrong name and a wrong password; the form keeps what was typed', async () => {
    await addAccount(mirror(), 'alice');
    const answers = new Set<string>();
    for (const name of ['alice', 'nobody', `' OR 1=1 --${'x'.repeat(5_000)}`]) {
      const reply = await logIn(dashboard().request, name, 'wrong password', { to: '/runs/7' });
      const page = await reply.text();
      if (name === 'alice') expect(page).toContain('name="name" value="alice"');
      expect(page).toContain('name="to" value="/runs/7"');
      answers.add(page.replace(/(name="name" value=)"[^"]*"/, '$1'));
    }
    expect(answers.size).toBe(1);
  });

  it('200 times at once is limited to five attempts, while pages and login links still work', async () => {
    await addAccount(mirror(), 'alice');
    const operator = await dashboard().login();
    const guesses = Array.from({ length: 200 }, () => logIn(dashboard().request, 'alice', 'wrong'));
    expect((await operator.get('/')).status).toBe(200);
    const statuses = (await Promise.all(guesses)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(195);
    await dashboard().login();
    // Nor does the right password help, or a clock that is set back.
    onTestFinished(() => void vi.useRealTimers());
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 });
    const reply = await logIn(dashboard().request, 'alice', PASSWORD);
    expect(reply.status).toBe(429);
    const wait = Number(reply.headers.get('retry-after'));
    expect([wait > 0, wait <= 60]).toEqual([true, true]);
  });

  it('is limited to five attempts a minute from one person’s addresses, and to 30 from all but known ones', async () => {
    await addAccount(mirror(), 'alice');
    const openProxied = async () => {
      const { request } = await openDashboard(mirror(), { isBehindProxy: true, isSecure: true });
      return async (address: string, password = 'wrong'): Promise<number> => {
        const reply = await request('/login', {
          method: 'POST',
          headers: { origin: HOST.replace('http:', 'https:'), 'x-forwarded-for': address },
          body: new URLSearchParams({ name: 'alice', password }),
        });
        return reply.status;
      };
    };
    const guessOne = await openProxied();
    for (const addressOf of [
      (n: number) => `10.0.0.1:${4_000 + n}`,
      (n: number) => `[2001:db8::1]:${4_000 + n}`,
      (n: number) => `2001:db8:0:7:${n}::1`,
    ]) {
      const statuses: number[] = [];
      for (let n = 0; n < 6; n++) statuses.push(await guessOne(addressOf(n)));
      expect(statuses, addressOf(0)).toEqual([...Array<number>(5).fill(401), 429]);
    }
    const guess = await openProxied();
    expect(await guess('10.1.0.1', PASSWORD)).toBe(303);
    const attempts = Array.from({ length: 60 }, (_, n) => guess(`10.0.0.${n}`));
    const statuses = await Promise.all(attempts);
    expect(statuses.filter((status) => status === 401)).toHaveLength(29);
    expect(await guess('10.2.0.1', PASSWORD)).toBe(429);
    expect(await guess('10.1.0.1', PASSWORD)).toBe(303);
  });
});

describe('a form', () => {
  it('is refused unless a page of this dashboard sent it, and says which origin it had: a proxy may change the host', async () => {
    const { cookie, page } = await dashboard().login();
    const body = new URLSearchParams({ token: formTokenIn(await page('/')) });
    const send = (method: string, headers: Record<string, string>) =>
      dashboard().request('/sync', { method, headers: { cookie, ...headers }, body });
    for (const headers of [
      {},
      { origin: 'https://evil.example' },
      { origin: 'http://127.0.0.1:9999' },
      { origin: 'null' },
      { origin: 'https://127.0.0.1:8791' },
      // Only TLS makes it sure that a browser says where the form came from.
      { 'sec-fetch-site': 'same-origin' },
      // Browsers send JSON across sites.
      { origin: HOST, 'content-type': 'application/json' },
    ]) {
      expect((await send('POST', headers)).status, JSON.stringify(headers)).toBe(403);
    }
    for (const method of each('PUT PATCH DELETE OPTIONS PROPFIND')) {
      expect((await send(method, { origin: HOST })).status, method).toBe(405);
    }
    const renamed = { cookie, 'x-http-method-override': 'POST' };
    expect(await statusOf('/sync?_method=POST', renamed)).toBe(404);
    await expectNothingQueued(dashboard());
    expect(await (await send('POST', { origin: 'https://shop.example' })).text()).toBe(
      'refused: the form came from "https://shop.example", and this dashboard is "http://127.0.0.1:8791". A proxy must forward the Host header\n',
    );
    expect(await (await get('/login', { host: 'mirror.example' })).text()).toContain(
      'unknown host "mirror.example": this dashboard is reached as localhost, 127.0.0.1. Set DASHBOARD_HOSTS',
    );
  });

  it('needs the token of its session, in each notation', async () => {
    const [visitor, other] = [await dashboard().login(), await dashboard().login()];
    for (const token of ['', 'x', 'AAAA', formTokenIn(await other.page('/'))]) {
      expect((await visitor.post('/sync', { token })).status, token).toBe(403);
      for (const path of ['/sync', '/runs/1/again', '/audits/1/cancel', '/audits/new']) {
        const body = new FormData();
        if (token !== '') body.set('token', token);
        expect((await post(path, { cookie: visitor.cookie }, body)).status, path).not.toBe(303);
      }
    }
    await expectNothingQueued(dashboard());
  });

  it('has a size limit, also before the login; one that breaks off is the client’s fault, not the database’s', async () => {
    const visitor = await dashboard().login();
    const { cookie } = visitor;
    expect((await visitor.post('/sync', { more: 'x'.repeat(70_000) })).status).toBe(413);
    const body = new FormData();
    body.set('name', 'x'.repeat(100_000));
    expect((await post('/login', {}, body)).status).toBe(413);
    const upload = new FormData();
    upload.set('file', new File(['x'.repeat(100_000)], 'codes.csv'));
    expect((await post('/audits/new', {}, upload)).status).toBe(401);
    for (const path of ['/login', '/sync', '/audits/new']) {
      for (const type of ['multipart/form-data', 'Multipart/Form-Data; boundary=x']) {
        const headers = { cookie, 'content-type': type, 'content-length': '4' };
        expect((await post(path, headers, '--x')).status, `${path} ${type}`).toBe(422);
      }
    }
  });

  it('can’t send a file as the password, or NUL, which would blame the database', async () => {
    await addAccount(mirror(), 'alice');
    const body = new FormData();
    body.append('name', 'alice');
    body.append('password', new File([PASSWORD], 'password'));
    expect((await post('/login', {}, body)).headers.get('set-cookie')).toBeNull();
    const operator = await dashboard().login();
    for (const path of ['/sync', '/jobs/mirror-1/retry', '/runs/1/accept', '/codes']) {
      const reply = await operator.post(path, { seller: 'ma\0in', job: '\0', queue: 'mirror' });
      expect(reply.status, path).toBe(422);
    }
  });
});

describe('a response', () => {
  it('with an error keeps the navigation and leads back', async () => {
    const { cookie, page } = await dashboard().login();
    const body = new URLSearchParams({ token: formTokenIn(await page('/')), seller: 'nobody' });
    for (const [method, path, from, link] of [
      ['POST', '/sync', '/?notice=queued', '<a href="/">Go to the overview</a>'],
      ['POST', '/sync', '/sellers/main', '<a href="/sellers/main">Go back</a>'],
      ['GET', '/items?as-of=2026-02-31', '/items', '<a href="/items">Go back</a>'],
      ['GET', '/nothing', '', '<a href="/">Go to the overview</a>'],
    ] as const) {
      const reply = await dashboard().request(path, {
        method,
        headers: { cookie, origin: HOST, ...(from === '' ? {} : { referer: HOST + from }) },
        ...(method === 'POST' ? { body } : {}),
      });
      expect(reply.status, path).toBeGreaterThanOrEqual(400);
      const text = await reply.text();
      expect(text).toContain('<nav aria-label="Sections">');
      expect(text).toContain(link);
    }
  });

  it('tells a mistake in the program from an outage', async () => {
    const visitor = await dashboard().login();
    const { pool } = mirror().db;
    const query = pool.query.bind(pool);
    for (const [error, status, text] of [
      [new TypeError('x is undefined'), 500, 'a fault in seller-mirror'],
      [new Error('Connection terminated'), 503, 'did not respond'],
    ] as const) {
      const failing = (...given: Parameters<typeof query>): unknown =>
        String(given.at(0)).includes('mirror.sellers') ? Promise.reject(error) : query(...given);
      const read = vi.spyOn(pool, 'query').mockImplementation(failing);
      onTestFinished(() => read.mockRestore());
      const reply = await visitor.get('/');
      expect(reply.status).toBe(status);
      expect(await reply.text()).toContain(text);
    }
  });

  it('forbids foreign resources, framing and caching', async () => {
    const visitor = await dashboard().login();
    for (const path of ['/login', '/', '/nothing', '/changes.csv', '/events']) {
      const { headers, body } = await visitor.get(path);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
      );
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('same-origin');
      await body?.cancel();
    }
  });
});

describe('the event stream', () => {
  it('does not start for HEAD, and a session has at most eight', async () => {
    const visitor = await dashboard().login();
    const { cookie } = visitor;
    const head = await dashboard().request('/events', { method: 'HEAD', headers: { cookie } });
    expect(head.headers.get('content-type')).toBeNull();
    const streams = await Promise.all(Array.from({ length: 8 }, () => visitor.get('/events')));
    expect(streams.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect((await visitor.get('/events')).status).toBe(429);
    expect((await (await dashboard().login()).get('/events')).status).toBe(200);
    await streams[0]?.body?.cancel();
    await expect.poll(async () => (await visitor.get('/events')).status).toBe(200);
  });

  it('masks codes for viewers, since the problem of a check may quote one', async () => {
    const code = '86781236-23d0-4b3c-7dfa-c1c147e0dece';
    await storeSeller(mirror(), 'main', null);
    await storeCheck(mirror(), 'main', 'running');
    await mirror().rows(`UPDATE mirror.audits SET problem = 'no answer about ${code}'`);
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
});

it('a viewer sees every page, and each route refuses actions, however its path is spelled', async () => {
  const viewer = await dashboard().login('viewer');
  for (const path of each(
    '/ /system /audits /audits/new /codes /sellers /users /tokens /feeds /jobs',
  )) {
    expect((await viewer.get(path)).status, path).toBe(200);
  }
  for (const path of [
    ...each('/sync /runs/1/again /runs/1/decide /jobs/mirror-1/retry /anything /sellers/main/sync'),
    ...each('/sellers/main/pause /sellers/main/resume /audits/new /audits/1/read /users/link'),
    ...each('/audits/1/start /audits/1/cancel /codes/check /codes/recheck /users/carl/remove'),
  ]) {
    expect((await viewer.post(path)).status, path).toBe(403);
  }
  for (const path of [
    ...each('/sync/ //sync /SYNC /%73ync /sync?path=/logout /sync%2flogout /logout;/sync'),
    ...each('/logout/sync /login/../sync'),
    // These two may log out, so they come last.
    ...each('/logout/../sync /logout/%2e%2e/sync'),
  ]) {
    const reply = await viewer.post(path);
    expect([303, 403, 404], path).toContain(reply.status);
    expect(reply.headers.get('location') ?? '/login', path).toBe('/login');
  }
  await expectNothingQueued(dashboard());
});

it('the action log records who did what, and the outcome', async () => {
  const operator = await dashboard().login('operator');
  await operator.post('/sync', { seller: 'nobody' });
  expect(
    await mirror().rows(
      'SELECT who, action, target, outcome FROM mirror.actions ORDER BY action_id DESC',
    ),
  ).toEqual([
    { who: 'operator', action: 'sync now', target: 'nobody', outcome: 'Seller not found' },
    { who: 'operator', action: 'log in', target: null, outcome: 'done' },
  ]);
});

describe('parameters of a URL', () => {
  const PARAMETERS = each(
    'seller state kind before class item since run search sort as-of from notice to token name currency month days',
  );
  const VALUES = [
    ...['', '%00', '%ff', '%ED%A0%80', "';DROP TABLE mirror.items--", '%25', '_', '%5C', '-1'],
    ...['999999999999999999', '9'.repeat(30), '1e9', 'NaN', '__proto__', 'constructor', '[]'],
    ...['0001-01-01', '9999-12-31', '-100000-01-01', '%2B275760-09-12', '2026-02-31'],
    ...['x'.repeat(4_000), '%22%3E%3Cscript%3Ealert(1)%3C/script%3E', '%0d%0ax:%20y'],
    '<script>alert(1)</script>',
  ];
  /** Tried one parameter at a time, since some refuse the combination. */
  const WORST = ['%ff', '9'.repeat(30), '__proto__'];

  it('are days of the calendar and numbers, break no page and inject no markup', async () => {
    const operator = await dashboard().login();
    for (const day of ['2026-02-31', '-000001-01-01', '%2B012026-01-01', '2026-1-1', '1']) {
      expect((await operator.get(`/items?as-of=${day}`)).status, day).toBe(422);
      expect((await operator.get(`/changes?since=${day}`)).status, day).toBe(422);
    }
    for (const path of ['/changes?item=Nordic', '/changes.csv?item=Nordic']) {
      expect((await operator.get(path)).status, path).toBe(422);
    }
    const queries = (path: string): string[] => [
      ...VALUES.map((value) => PARAMETERS.map((name) => `${name}=${value}`).join('&')),
      // One list stands for all: they read their parameters by the same code.
      ...(path === '/items'
        ? WORST.flatMap((value) => PARAMETERS.map((name) => `${name}=${value}`))
        : []),
    ];
    for (const path of [
      ...each('/ /runs /changes /changes.csv /items /reports /codes /audits /audits/new /system'),
    ]) {
      for (const query of queries(path)) {
        const reply = await operator.get(`${path}?${query}`);
        const shown = `${path}?${query}`.slice(0, 120);
        expect([200, 303, 404, 422], shown).toContain(reply.status);
        expect(await reply.text(), shown).not.toContain('<script>alert');
      }
    }
  });

  it('and paths that name nothing are not found', async () => {
    const operator = await dashboard().login();
    for (const path of [
      ...each('/runs/0 /runs/-1 /runs/1e3 /runs/99999999999999999999 /runs/%00 /runs/%ff'),
      ...each('/items/%00/1 /items/%ff/1 /items/__proto__/1 /items/main/999999999999999999'),
      ...each('/items/..%2f..%2fetc/1 /sellers/%00 /sellers/__proto__ /sellers/..%2f /audits/0'),
      ...each('/codes/0 /codes/x /audits/99999999999999999999/result.csv /reports/%00.csv'),
      ...each('/assets/../../package.json /assets/%2e%2e/%2e%2e/package.json /assets/x/main.js'),
      ...each('/changes.doc /reports/items.csv /reports/price-moves.xls /reports/price-moves'),
      ...each('/reports?seller=nobody /reports/price-moves.csv?seller=nobody'),
    ]) {
      expect((await operator.get(path)).status, path).toBe(404);
    }
  });
});
