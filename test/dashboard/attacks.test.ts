import { parse } from 'csv-parse/sync';
import { describe, expect, it } from 'vitest';
import { hashPassword } from '../../src/dashboard/passwords.js';
import { createUser } from '../../src/dashboard/access-store.js';
import { ensureSeller } from '../../src/catalogue/sellers-store.js';
import { holdItems } from '../support/mirror.js';
import {
  expectNothingQueued,
  formTokenIn,
  HOST,
  logIn,
  loginLink,
  openDashboard,
  PASSWORD,
  PASSWORD_HASH,
  type TestDashboard,
  useDashboard,
} from './dashboard.js';

const { mirror, dashboard } = useDashboard();

async function addAccount(name: string, passwordHash = PASSWORD_HASH): Promise<void> {
  await createUser(mirror().db, { name, role: 'viewer', passwordHash });
}

const post = (
  path: string,
  headers: Record<string, string>,
  body: FormData | URLSearchParams | string,
): Promise<Response> =>
  dashboard().request(path, { method: 'POST', headers: { origin: HOST, ...headers }, body });

describe('a forged host', () => {
  it.each([
    ...['localhost.', 'localhost.evil.example', 'localhost@evil.example', 'localhost:evil'],
    ...['127.1', '2130706433', '0x7f.0.0.1', '0177.0.0.1', '[::ffff:127.0.0.1]', '[::1'],
    ...['127.0.0.1:8791, evil.example', '127.0.0.1:8791/', 'user@127.0.0.1', '0.0.0.0'],
  ])('%s is refused', async (host) => {
    expect((await dashboard().request('/login', { headers: { host } })).status).toBe(421);
  });

  it.each(['x-forwarded-host', 'x-host', 'forwarded', 'x-original-url', 'x-rewrite-url'])(
    'the header %s is ignored',
    async (header) => {
      const headers = { host: 'evil.example', [header]: 'host=127.0.0.1:8791' };
      expect((await dashboard().request('/login', { headers })).status).toBe(421);
      const reply = await dashboard().request('/login', { headers: { [header]: '/runs' } });
      expect(await reply.text()).toContain('<form class="form" method="post" action="/login">');
    },
  );
});

describe('another spelling of a path', () => {
  it.each([
    ...['//runs', '/./runs', '/login/../runs', '/login/%2e%2e/runs', '/assets/../runs', '/runs/'],
    ...['/%72uns', '/login%2f..%2fruns', '/login;/runs', '/login/runs', '/assets/x/../../runs'],
    ...['/RUNS', '/runs%00', '/runs?x=/login', '/runs#/login', '/\\runs', '/.%2e/runs'],
  ])('%s shows nothing without a session', async (path) => {
    const reply = await dashboard().request(path);
    expect([303, 401, 404, 421]).toContain(reply.status);
    expect(await reply.text()).not.toContain('Log out');
  });

  it('does not let a viewer act', async () => {
    const viewer = await dashboard().login('viewer');
    for (const path of [
      ...['/sync/', '//sync', '/SYNC', '/%73ync', '/sync?path=/logout', '/sync%2flogout'],
      ...['/logout;/sync', '/logout/sync', '/login/../sync'],
      // These two may log out, so they come last.
      ...['/logout/../sync', '/logout/%2e%2e/sync'],
    ]) {
      const reply = await viewer.post(path);
      expect([303, 403, 404], path).toContain(reply.status);
      expect(reply.headers.get('location') ?? '/login', path).toBe('/login');
    }
    await expectNothingQueued(dashboard());
  });
});

describe('another method', () => {
  it.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])(
    '%s changes nothing, from any origin',
    async (method) => {
      const operator = await dashboard().login();
      const body = new URLSearchParams({ token: formTokenIn(await operator.page('/')) });
      const send = (headers: Record<string, string>): Promise<Response> =>
        dashboard().request('/sync', {
          method,
          headers: { cookie: operator.cookie, ...headers },
          body,
        });
      expect((await send({})).status).toBe(405);
      expect((await send({ origin: HOST })).status).toBe(405);
      await expectNothingQueued(dashboard());
    },
  );

  it('can’t be set by a header or a field', async () => {
    const operator = await dashboard().login();
    const reply = await operator.get('/sync?_method=POST', { 'x-http-method-override': 'POST' });
    expect(reply.status).toBe(404);
    await expectNothingQueued(dashboard());
  });

  it('HEAD does not use up a login link, since messengers preview links', async () => {
    const path = await loginLink(mirror().db);
    const preview = await dashboard().request(path, { method: 'HEAD' });
    expect(preview.headers.get('set-cookie')).toBeNull();
    expect((await dashboard().request(path)).status).toBe(303);
  });
});

describe('a multipart form', () => {
  it('needs a token', async () => {
    const { cookie } = await dashboard().login();
    for (const path of ['/sync', '/runs/1/again', '/audits/1/cancel', '/audits/new']) {
      for (const token of [null, 'x']) {
        const body = new FormData();
        if (token !== null) body.set('token', token);
        expect((await post(path, { cookie }, body)).status, path).not.toBe(303);
      }
    }
    await expectNothingQueued(dashboard());
  });

  it('has a size limit, also before the login', async () => {
    const body = new FormData();
    body.set('name', 'x'.repeat(100_000));
    expect((await post('/login', {}, body)).status).toBe(413);
    const upload = new FormData();
    upload.set('file', new File(['x'.repeat(100_000)], 'codes.csv'));
    expect((await post('/audits/new', {}, upload)).status).toBe(401);
  });

  it.each(['/login', '/sync', '/audits/new'])(
    'to %s that breaks off is the client’s fault, not the database’s',
    async (path) => {
      const { cookie } = await dashboard().login();
      for (const type of ['multipart/form-data', 'Multipart/Form-Data; boundary=x']) {
        const headers = { cookie, 'content-type': type, 'content-length': '4' };
        expect((await post(path, headers, '--x')).status, type).toBe(422);
      }
    },
  );

  it('can’t send a file as the password', async () => {
    await addAccount('alice');
    const body = new FormData();
    body.append('name', 'alice');
    body.append('password', new File([PASSWORD], 'password'));
    expect((await post('/login', {}, body)).headers.get('set-cookie')).toBeNull();
  });
});

describe('a form with unusual values', () => {
  it('is refused with a NUL character, instead of blaming the database', async () => {
    const operator = await dashboard().login();
    for (const path of ['/sync', '/system/retry', '/runs/1/accept', '/codes']) {
      const reply = await operator.post(path, { seller: 'ma\0in', job: '\0', queue: 'mirror' });
      expect(reply.status, path).toBe(422);
    }
  });

  it.each(['1.5', '-15', '15e0', '1 5', '0x0f', '15.0', '', '15'])(
    'does not accept removals with the wrong number %j',
    async (items) => {
      await ensureSeller(mirror().db, 'main', 'm');
      const [{ id } = { id: '' }] = await mirror().rows<{ id: string }>(
        `INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
         VALUES ('main', 'items', 'held', 'x', now()) RETURNING run_id::text AS id`,
      );
      await holdItems(mirror(), 'main', id, 14, true);
      const operator = await dashboard().login();
      const reply = await operator.post(`/runs/${id}/accept`, { items, note: 'why & how' });
      expect(reply.status).toBe(422);
      const text = await reply.text();
      expect(text).toContain('The number of items does not match');
      // The note survives.
      expect(text).toContain('value="why &amp; how"');
    },
  );
});

describe('a session', () => {
  it('gets a new token at each login, so a planted cookie is worthless', async () => {
    await addAccount('alice');
    const planted = 'seller-mirror-0=planted-by-somebody';
    const body = new URLSearchParams({ name: 'alice', password: PASSWORD });
    const reply = await post('/login', { cookie: planted }, body);
    expect(reply.status).toBe(303);
    expect(reply.headers.get('set-cookie')).not.toContain('planted');
    const later = await dashboard().request('/', { headers: { cookie: planted } });
    expect(later.status).toBe(303);
  });

  it('ends when the same browser logs in again', async () => {
    const first = await dashboard().login();
    const link = await loginLink(mirror().db);
    await dashboard().request(link, { headers: { cookie: first.cookie } });
    expect((await first.get('/')).status).toBe(303);
  });

  it('is not opened by the cookie of another name, another dashboard or a garbled one', async () => {
    const operator = await dashboard().login();
    const [, token = ''] = operator.cookie.split('=');
    const formToken = formTokenIn(await operator.page('/'));
    for (const cookie of [
      `session=${token}`,
      `seller-mirror-8791=${token}`,
      `__Host-seller-mirror=${token}`,
      `seller-mirror-0=${token}x`,
      `seller-mirror-0="${token.slice(1)}"`,
      'seller-mirror-0=',
      'seller-mirror-0=%00',
      `seller-mirror-0=${'x'.repeat(8_000)}`,
      // The token of its forms, which pages contain.
      `seller-mirror-0=${formToken}`,
    ]) {
      const reply = await dashboard().request('/', { headers: { cookie } });
      expect(reply.status, cookie.slice(0, 40)).toBe(303);
    }
  });

  it('on TLS is not opened by a cookie that plain HTTP could set', async () => {
    const { cookie } = await dashboard().login();
    const secure = await openDashboard(mirror(), { isSecure: true });
    expect((await secure.request('/', { headers: { cookie } })).status).toBe(303);
  });
});

describe('the redirect after a login', () => {
  it.each([
    ...['https://evil.example/', '//evil.example', '/\\evil.example', '\\\\evil.example'],
    ...['/\t/evil.example', '/\n/evil.example', '/\u0000/evil.example', '/\u00a0//evil.example'],
    ...['javascript:alert(1)', ' //evil.example', '/runs\r\nset-cookie: a=b', '/größe', 'evil', ''],
  ])('does not leave the dashboard: %j', async (to) => {
    await addAccount('alice');
    const reply = await logIn(dashboard().request, 'alice', PASSWORD, { to });
    expect([reply.status, reply.headers.get('location')]).toEqual([303, '/']);
    expect([...reply.headers.keys()].filter((name) => name === 'set-cookie')).toHaveLength(1);
  });

  it.each(['/runs/7?state=held', '/items?search=a%20b#x', '/.//evil.example'])(
    'returns to the requested page: %s',
    async (to) => {
      await addAccount('alice');
      const reply = await logIn(dashboard().request, 'alice', PASSWORD, { to });
      const target = new URL(reply.headers.get('location') ?? '', HOST);
      expect(target.origin).toBe(HOST);
      expect(target.href).toBe(new URL(to, HOST).href);
    },
  );

  it('does not copy line ends of the path into a header', async () => {
    const reply = await dashboard().request('/runs?x=%0d%0aset-cookie:%20a=b');
    expect(reply.headers.get('location')).toMatch(/^\/login\?to=[\w%.-]+$/);
    expect(reply.headers.get('set-cookie')).toBeNull();
  });
});

describe('guessing names and passwords', () => {
  /** Guesses a password behind a proxy. */
  const guess = (
    { request }: TestDashboard,
    address: string,
    password = 'wrong',
  ): Promise<Response> =>
    request('/login', {
      method: 'POST',
      headers: { origin: HOST.replace('http:', 'https:'), 'x-forwarded-for': address },
      body: new URLSearchParams({ name: 'alice', password }),
    });

  it('costs as much CPU time for an unknown name as for a known one', async () => {
    await addAccount('alice', await hashPassword(PASSWORD));
    const costOf = async (name: string): Promise<number> => {
      const before = process.cpuUsage();
      expect((await logIn(dashboard().request, name, 'wrong password')).status).toBe(401);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    await costOf('alice');
    const known = await costOf('alice');
    for (const name of ['nobody', '\u0000 no name']) {
      expect((await costOf(name)) / known, name).toBeGreaterThan(0.5);
    }
  });

  it('gets the same response for a wrong name and a wrong password', async () => {
    await addAccount('alice');
    const texts = new Set<string>();
    for (const name of ['alice', 'nobody', "' OR 1=1 --", 'x'.repeat(5_000)]) {
      const page = await (await logIn(dashboard().request, name, 'wrong password')).text();
      // The form keeps the name.
      texts.add(page.replace(/(name="name" value=)"[^"]*"/, '$1'));
    }
    expect(texts.size).toBe(1);
  });

  it('1,000 times at once is limited to five attempts, while pages and login links still work', async () => {
    await addAccount('alice');
    const operator = await dashboard().login();
    const logins = Array.from({ length: 1_000 }, () =>
      logIn(dashboard().request, 'alice', 'wrong'),
    );
    expect((await operator.get('/')).status).toBe(200);
    const statuses = (await Promise.all(logins)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(995);
    await dashboard().login();
  });

  it('a login link works after any number of wrong ones, since any web page can embed those', async () => {
    const path = await loginLink(mirror().db);
    for (let n = 0; n < 40; n++) {
      expect((await dashboard().request('/login?token=x')).status).toBe(410);
    }
    expect((await dashboard().request(path)).status).toBe(303);
  });

  it.each([
    ['an IPv4 address with changing ports', (n: number) => `10.0.0.1:${4_000 + n}`],
    ['an IPv6 address with changing ports', (n: number) => `[2001:db8::1]:${4_000 + n}`],
    ['an IPv6 /64 network', (n: number) => `2001:db8:0:7:${n}::1`],
  ])('is limited to five attempts a minute from %s', async (_, address) => {
    await addAccount('alice');
    const proxied = await openDashboard(mirror(), { isBehindProxy: true, isSecure: true });
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++) {
      statuses.push((await guess(proxied, address(n))).status);
    }
    expect(statuses).toEqual([...Array<number>(5).fill(401), 429]);
  });

  it('from many addresses does not lock out an address that has logged in before', async () => {
    await addAccount('alice');
    const proxied = await openDashboard(mirror(), { isBehindProxy: true, isSecure: true });
    expect((await guess(proxied, '10.1.0.1', PASSWORD)).status).toBe(303);
    for (let n = 0; n < 40; n++) await guess(proxied, `10.0.0.${n}`);
    expect((await guess(proxied, '10.2.0.1', PASSWORD)).status).toBe(429);
    expect((await guess(proxied, '10.1.0.1', PASSWORD)).status).toBe(303);
  });

  it('is limited to 30 attempts a minute from any number of addresses', async () => {
    await addAccount('alice');
    const proxied = await openDashboard(mirror(), { isBehindProxy: true, isSecure: true });
    const attempts = Array.from({ length: 60 }, (_, n) => guess(proxied, `10.0.0.${n}`));
    const statuses = (await Promise.all(attempts)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(30);
    expect(statuses.filter((status) => status === 429)).toHaveLength(30);
  });
});

describe('parameters of a URL', () => {
  const PARAMETERS = [
    ...[
      'seller',
      'state',
      'kind',
      'before',
      'class',
      'item',
      'since',
      'run',
      'search',
      'sort',
      'as-of',
    ],
    ...['from', 'notice', 'to', 'token', 'name', 'currency', 'month', 'days'],
  ];
  const VALUES = [
    ...['', '%00', '%ff', '%ED%A0%80', "';DROP TABLE mirror.items--", '%25', '_', '%5C', '-1'],
    ...['999999999999999999', '9'.repeat(30), '1e9', 'NaN', '__proto__', 'constructor', '[]'],
    ...['0001-01-01', '9999-12-31', '-100000-01-01', '%2B275760-09-12', '2026-02-31'],
    ...['x'.repeat(4_000), '%22%3E%3Cscript%3Ealert(1)%3C/script%3E', '%0d%0ax:%20y'],
    '<script>alert(1)</script>',
  ];
  /** Also tried one parameter at a time where a combination is refused. */
  const WORST = new Set(['%ff', '9'.repeat(30), '__proto__']);

  it('accept only days of the calendar', async () => {
    const operator = await dashboard().login();
    for (const day of ['2026-02-31', '-000001-01-01', '%2B012026-01-01', '2026-1-1', '1']) {
      expect((await operator.get(`/items?as-of=${day}`)).status, day).toBe(422);
      expect((await operator.get(`/changes?since=${day}`)).status, day).toBe(422);
    }
  });

  it('break no page and inject no markup', async () => {
    const operator = await dashboard().login();
    const pages = ['/', '/runs', '/changes', '/changes.csv', '/items', '/reports', '/audits'];
    for (const path of [...pages, '/codes', '/system', '/audits/new']) {
      for (const value of VALUES) {
        const show = async (query: string): Promise<number> => {
          const reply = await operator.get(`${path}?${query}`);
          const shown = `${path}?${query}`.slice(0, 120);
          expect([200, 303, 404, 422], shown).toContain(reply.status);
          expect(await reply.text(), shown).not.toContain('<script>alert');
          return reply.status;
        };
        const queries = PARAMETERS.map((name) => `${name}=${value}`);
        const status = await show(queries.join('&'));
        if (status >= 400 && WORST.has(value)) for (const one of queries) await show(one);
      }
    }
  });

  it.each([
    ...['/runs/0', '/runs/-1', '/runs/1e3', '/runs/99999999999999999999', '/runs/%00', '/runs/%ff'],
    ...['/items/%00/1', '/items/%ff/1', '/items/__proto__/1', '/items/main/999999999999999999'],
    ...['/items/..%2f..%2fetc/1', '/sellers/%00', '/sellers/__proto__', '/sellers/..%2f'],
    ...['/audits/0', '/codes/0', '/codes/x', '/audits/99999999999999999999/result.csv'],
    ...['/assets/../../package.json', '/assets/%2e%2e/%2e%2e/package.json', '/assets/x/main.js'],
    '/reports/%00.csv',
  ])('%s is not found', async (path) => {
    const operator = await dashboard().login();
    expect((await operator.get(path)).status).toBe(404);
  });
});

describe('a download', () => {
  it('contains no formula that a spreadsheet would run', async () => {
    await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'm')`);
    const values = ['=1+1', '+1+1', '-1+1|cmd', '@SUM(A1)', '\t=1', '\r=1', ' =1', '＝1', "'=1"];
    await mirror().rows(
      `WITH run AS (
         INSERT INTO mirror.runs (seller_id, kind, state, holder)
         VALUES ('main', 'items', 'succeeded', 'x') RETURNING run_id)
       INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
       SELECT 'main', 1, run_id, now(), 'text', 'name', to_jsonb(value), to_jsonb(value)
         FROM run, unnest($1::text[]) value`,
      [values],
    );
    const operator = await dashboard().login();
    const reply = await operator.get('/changes.csv');
    expect(reply.headers.get('content-disposition')).toMatch(/^attachment; filename="[\w.-]+"$/);
    const cells = parse(await reply.text()).flat();
    expect(cells.filter((cell) => cell.startsWith("'"))).toHaveLength(2 * values.length);
    expect(cells.filter((cell) => /^\s*[=+\-@＝]/.test(cell))).toEqual([]);
  });
});
