import { parse } from 'csv-parse/sync';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newToken, tokenHash } from '../../src/dashboard/security.js';
import { hashPassword } from '../../src/dashboard/passwords.js';
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

async function addAccount(name: string, passwordHash = PASSWORD_HASH): Promise<void> {
  await mirror().store.access.addUser({ name, role: 'viewer', passwordHash });
}

async function link(): Promise<string> {
  const token = newToken();
  await mirror().store.access.addLink(tokenHash(token), 'a test');
  return `/login?token=${token}`;
}

const tokenIn = (page: string): string => /name="token" value="([^"]+)"/.exec(page)?.[1] ?? '';

async function nothingWasQueued(): Promise<void> {
  expect(await dashboard.queues.counts()).toMatchObject({ mirror: { waiting: 0 } });
}

describe('a host that only looks like ours', () => {
  it.each([
    ...['localhost.', 'localhost.evil.example', 'localhost@evil.example', 'localhost:evil'],
    ...['127.1', '2130706433', '0x7f.0.0.1', '0177.0.0.1', '[::ffff:127.0.0.1]', '[::1'],
    ...['127.0.0.1:8791, evil.example', '127.0.0.1:8791/', 'user@127.0.0.1', '0.0.0.0'],
  ])('%s is refused', async (host) => {
    expect((await dashboard.request('/login', { headers: { host } })).status).toBe(421);
  });

  it.each(['x-forwarded-host', 'x-host', 'forwarded', 'x-original-url', 'x-rewrite-url'])(
    'is not taken from %s',
    async (header) => {
      const headers = { host: 'evil.example', [header]: 'host=127.0.0.1:8791' };
      expect((await dashboard.request('/login', { headers })).status).toBe(421);
      const reply = await dashboard.request('/login', { headers: { [header]: '/runs' } });
      expect(await reply.text()).toContain('<form class="form" method="post" action="/login">');
    },
  );
});

describe('another way to spell a path', () => {
  it.each([
    ...['//runs', '/./runs', '/login/../runs', '/login/%2e%2e/runs', '/assets/../runs', '/runs/'],
    ...['/%72uns', '/login%2f..%2fruns', '/login;/runs', '/login/runs', '/assets/x/../../runs'],
    ...['/RUNS', '/runs%00', '/runs?x=/login', '/runs#/login', '/\\runs', '/.%2e/runs'],
  ])('%s shows nothing without a session', async (path) => {
    const reply = await dashboard.request(path);
    expect([303, 401, 404, 421]).toContain(reply.status);
    expect(await reply.text()).not.toContain('Log out');
  });

  it('lets no viewer act', async () => {
    const viewer = await dashboard.login('viewer');
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
    await nothingWasQueued();
  });
});

describe('another method', () => {
  it.each(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'])(
    '%s changes nothing, from elsewhere or from here',
    async (method) => {
      const operator = await dashboard.login();
      const body = new URLSearchParams({ token: tokenIn(await operator.page('/')) });
      const ask = (headers: Record<string, string>): Promise<Response> =>
        dashboard.request('/sync', {
          method,
          headers: { cookie: operator.cookie, ...headers },
          body,
        });
      expect((await ask({})).status).toBe(403);
      expect((await ask({ origin: HOST })).status).toBe(404);
      await nothingWasQueued();
    },
  );

  it('is not taken from a header or a field', async () => {
    const operator = await dashboard.login();
    const reply = await operator.get('/sync?_method=POST', { 'x-http-method-override': 'POST' });
    expect(reply.status).toBe(404);
    await nothingWasQueued();
  });

  it('HEAD uses no login link up: messengers look at links that are sent', async () => {
    const path = await link();
    const looked = await dashboard.request(path, { method: 'HEAD' });
    expect(looked.headers.get('set-cookie')).toBeNull();
    expect((await dashboard.request(path)).status).toBe(303);
  });
});

describe('another encoding of a form', () => {
  async function form(fields: Readonly<Record<string, string>>, path = '/sync'): Promise<Response> {
    const operator = await dashboard.login();
    const body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.set(name, value);
    const headers = { cookie: operator.cookie, origin: HOST };
    return dashboard.request(path, { method: 'POST', headers, body });
  }

  it('needs the token as well: multipart', async () => {
    for (const path of ['/sync', '/runs/1/again', '/audits/1/cancel', '/audits/new']) {
      expect((await form({}, path)).status, path).not.toBe(303);
      expect((await form({ token: 'x' }, path)).status, path).not.toBe(303);
    }
    await nothingWasQueued();
  });

  it('is bounded as well, also before a login, or anybody could fill the memory', async () => {
    const body = new FormData();
    body.set('name', 'x'.repeat(100_000));
    const reply = await dashboard.request('/login', {
      method: 'POST',
      headers: { origin: HOST },
      body,
    });
    expect(reply.status).toBe(413);
    const upload = new FormData();
    upload.set('file', new File(['x'.repeat(100_000)], 'codes.csv'));
    const anonymous = await dashboard.request('/audits/new', {
      method: 'POST',
      headers: { origin: HOST },
      body: upload,
    });
    expect(anonymous.status).toBe(401);
  });

  it.each(['/login', '/sync', '/audits/new'])(
    'that breaks off is told as that, not as a failure of the database: %s',
    async (path) => {
      const { cookie } = await dashboard.login();
      for (const type of ['multipart/form-data', 'Multipart/Form-Data; boundary=x']) {
        const reply = await dashboard.request(path, {
          method: 'POST',
          headers: { cookie, origin: HOST, 'content-type': type, 'content-length': '4' },
          body: '--x',
        });
        expect(reply.status, type).toBe(422);
      }
    },
  );

  it('has its fields once, as texts', async () => {
    await addAccount('alice');
    const body = new FormData();
    body.append('name', 'alice');
    body.append('password', new File([PASSWORD], 'password'));
    const headers = { origin: HOST };
    const reply = await dashboard.request('/login', { method: 'POST', headers, body });
    expect(reply.headers.get('set-cookie')).toBeNull();
  });
});

describe('a form with values that nobody types', () => {
  it('is refused with a character that PostgreSQL does not keep, instead of blaming the database', async () => {
    const operator = await dashboard.login();
    for (const path of ['/sync', '/system/retry', '/runs/1/decide', '/codes']) {
      const reply = await operator.post(path, { seller: 'ma\0in', job: '\0', queue: 'mirror' });
      expect(reply.status, path).toBe(422);
    }
  });

  it.each(['1.5', '-15', '15e0', '1 5', '0x0f', '15.0', ''])(
    'approves no removals of 15 items by %j',
    async (items) => {
      await mirror().store.sellers.ensure('main', 'm');
      await mirror().rows(
        `WITH run AS (
           INSERT INTO mirror.runs (seller_id, kind, state, holder, finished_at)
           VALUES ('main', 'items', 'held', 'x', now()) RETURNING run_id)
         INSERT INTO mirror.held_items (run_id, seller_id, item_id, confirmed)
         SELECT run_id, 'main', n, true FROM run, generate_series(1, 15) n`,
      );
      const [{ id } = { id: '' }] = await mirror().rows<{ id: string }>(
        'SELECT max(run_id)::text AS id FROM mirror.runs',
      );
      const operator = await dashboard.login();
      const reply = await operator.post(`/runs/${id}/decide`, { decision: 'approved', items });
      expect(await reply.text()).toContain('the number of items does not match');
    },
  );
});

describe('a session', () => {
  it('has a new token at each login: one that somebody put into the browser is worth nothing', async () => {
    await addAccount('alice');
    const planted = 'seller-mirror-0=planted-by-somebody';
    const reply = await dashboard.request('/login', {
      method: 'POST',
      headers: { origin: HOST, cookie: planted },
      body: new URLSearchParams({ name: 'alice', password: PASSWORD }),
    });
    expect(reply.status).toBe(303);
    expect(reply.headers.get('set-cookie')).not.toContain('planted');
    const later = await dashboard.request('/', { headers: { cookie: planted } });
    expect(later.status).toBe(303);
  });

  it('ends when another begins in its browser', async () => {
    const first = await dashboard.login();
    await dashboard.request(await link(), { headers: { cookie: first.cookie } });
    expect((await first.get('/')).status).toBe(303);
  });

  it('is not had by a cookie of another name, of another dashboard or of no sense', async () => {
    const { cookie } = await dashboard.login();
    const [, token = ''] = cookie.split('=');
    for (const other of [
      `session=${token}`,
      `seller-mirror-8791=${token}`,
      `__Host-seller-mirror=${token}`,
      `seller-mirror-0=${token}x`,
      `seller-mirror-0="${token.slice(1)}"`,
      'seller-mirror-0=',
      'seller-mirror-0=%00',
      `seller-mirror-0=${'x'.repeat(8_000)}`,
    ]) {
      const reply = await dashboard.request('/', { headers: { cookie: other } });
      expect(reply.status, other.slice(0, 40)).toBe(303);
    }
  });

  it('on TLS is not had by a cookie that plain HTTP could have set', async () => {
    const { cookie } = await dashboard.login();
    const secure = await openDashboard(mirror(), { isSecure: true });
    const reply = await secure.request('/', { headers: { cookie } });
    await secure.close();
    expect(reply.status).toBe(303);
  });

  it('is not had by the token of its forms, which pages show', async () => {
    const operator = await dashboard.login();
    const cookie = `seller-mirror-0=${tokenIn(await operator.page('/'))}`;
    expect((await dashboard.request('/', { headers: { cookie } })).status).toBe(303);
  });
});

describe('where a login leads', () => {
  it.each([
    ...['https://evil.example/', '//evil.example', '/\\evil.example', '\\\\evil.example'],
    ...['/\t/evil.example', '/\n/evil.example', '/\u0000/evil.example', '/\u00a0//evil.example'],
    ...['javascript:alert(1)', ' //evil.example', '/runs\r\nset-cookie: a=b', '/größe', 'evil', ''],
  ])('never elsewhere: %j', async (to) => {
    await addAccount('alice');
    const reply = await logIn(dashboard.request, 'alice', PASSWORD, { to });
    expect([reply.status, reply.headers.get('location')]).toEqual([303, '/']);
    expect([...reply.headers.keys()].filter((name) => name === 'set-cookie')).toHaveLength(1);
  });

  it.each(['/runs/7?state=held', '/items?q=a%20b#x', '/.//evil.example'])(
    'back to where somebody came from: %s',
    async (to) => {
      await addAccount('alice');
      const reply = await logIn(dashboard.request, 'alice', PASSWORD, { to });
      const target = new URL(reply.headers.get('location') ?? '', HOST);
      expect(target.origin).toBe(HOST);
      expect(target.href).toBe(new URL(to, HOST).href);
    },
  );

  it('a path with a line end is kept out of the address of the login page', async () => {
    const reply = await dashboard.request('/runs?x=%0d%0aset-cookie:%20a=b');
    expect(reply.headers.get('location')).toMatch(/^\/login\?to=[\w%.-]+$/);
    expect(reply.headers.get('set-cookie')).toBeNull();
  });
});

describe('guessing names and passwords', () => {
  it('an unknown name costs as much work as a known one, so that nobody learns which there are', async () => {
    await addAccount('alice', await hashPassword(PASSWORD));
    const costOf = async (name: string): Promise<number> => {
      const before = process.cpuUsage();
      expect((await logIn(dashboard.request, name, 'wrong password')).status).toBe(401);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    await costOf('alice');
    const [known, unknown, impossible] = [
      await costOf('alice'),
      await costOf('nobody'),
      await costOf('\u0000 no name'),
    ];
    for (const cost of [unknown, impossible]) expect(cost / known).toBeGreaterThan(0.5);
  });

  it('answers the same to a wrong name and to a wrong password', async () => {
    await addAccount('alice');
    const texts = new Set<string>();
    for (const name of ['alice', 'nobody', "' OR 1=1 --", 'x'.repeat(5_000)]) {
      texts.add(await (await logIn(dashboard.request, name, 'wrong password')).text());
    }
    expect(texts.size).toBe(1);
  });

  it('1,000 logins at once: five of an address are tried, and pages go on meanwhile', async () => {
    await addAccount('alice');
    const operator = await dashboard.login();
    const logins = Array.from({ length: 1_000 }, () => logIn(dashboard.request, 'alice', 'wrong'));
    expect((await operator.get('/')).status).toBe(200);
    const statuses = (await Promise.all(logins)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(995);
    // Nobody can guess a link, so who guesses passwords does not keep people with one out.
    await dashboard.login();
  });

  it.each([
    ['an address, whatever its port', (n: number) => `10.0.0.1:${4_000 + n}`],
    ['an address of IPv6, whatever its port', (n: number) => `[2001:db8::1]:${4_000 + n}`],
    ['a network of IPv6, whose addresses one person has', (n: number) => `2001:db8:0:7:${n}::1`],
  ])('five tries a minute are from %s', async (_, address) => {
    const proxied = await openDashboard(mirror(), { isBehindProxy: true });
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++) {
      const headers = { 'x-forwarded-for': address(n) };
      statuses.push((await proxied.request('/login?token=guess', { headers })).status);
    }
    await proxied.close();
    expect(statuses).toEqual([...Array<number>(5).fill(410), 429]);
  });

  it('from a thousand addresses thirty are tried a minute', async () => {
    const proxied = await openDashboard(mirror(), { isBehindProxy: true });
    const tries = Array.from({ length: 1_000 }, (_, n) =>
      proxied.request('/login?token=guess', {
        headers: { 'x-forwarded-for': `10.0.${n >> 8}.${n & 255}` },
      }),
    );
    const statuses = (await Promise.all(tries)).map(({ status }) => status);
    await proxied.close();
    expect(statuses.filter((status) => status === 410)).toHaveLength(30);
    expect(statuses.filter((status) => status === 429)).toHaveLength(970);
  });
});

describe('values of an address', () => {
  const PARAMETERS = [
    ...['seller', 'state', 'kind', 'before', 'class', 'item', 'since', 'run', 'q', 'sort', 'as-of'],
    ...['from', 'notice', 'to', 'token', 'name', 'currency', 'month', 'days'],
  ];
  const VALUES = [
    ...['', '%00', '%ff', '%ED%A0%80', "';DROP TABLE mirror.items--", '%25', '_', '%5C', '-1'],
    ...['999999999999999999', '9'.repeat(30), '1e9', 'NaN', '__proto__', 'constructor', '[]'],
    ...[
      '0001-01-01',
      '9999-12-31',
      '-100000-01-01',
      '%2B275760-09-12',
      '2026-02-31',
      'x'.repeat(4_000),
    ],
    ...['<script>alert(1)</script>', '%22%3E%3Cscript%3Ealert(1)%3C/script%3E', '%0d%0ax:%20y'],
  ];

  it('are a day only where the calendar has it', async () => {
    const operator = await dashboard.login();
    for (const day of ['2026-02-31', '-000001-01-01', '%2B012026-01-01', '2026-1-1', '1']) {
      expect((await operator.get(`/items?as-of=${day}`)).status, day).toBe(422);
      // PostgreSQL knows no day a hundred thousand years ago.
      expect((await operator.get(`/changes?since=-1${day}`)).status, day).toBe(200);
    }
  });

  const WORST = new Set(['%ff', '9'.repeat(30), '__proto__']);

  it('of any kind break no page, and are no mark-up in it', async () => {
    const operator = await dashboard.login();
    const pages = ['/', '/runs', '/changes', '/changes.csv', '/items', '/reports', '/audits'];
    for (const path of [...pages, '/codes', '/system', '/audits/new']) {
      for (const value of VALUES) {
        const show = async (asked: string): Promise<number> => {
          const reply = await operator.get(`${path}?${asked}`);
          const shown = `${path}?${asked}`.slice(0, 120);
          expect([200, 303, 404, 422], shown).toContain(reply.status);
          expect(await reply.text(), shown).not.toContain('<script>alert');
          return reply.status;
        };
        const each = PARAMETERS.map((name) => `${name}=${value}`);
        const status = await show(each.join('&'));
        // Where one was refused, the others were not read: the worst values go there by themselves.
        if (status >= 400 && WORST.has(value)) for (const one of each) await show(one);
      }
    }
  });

  it.each([
    ...['/runs/0', '/runs/-1', '/runs/1e3', '/runs/99999999999999999999', '/runs/%00', '/runs/%ff'],
    ...['/items/%00/1', '/items/%ff/1', '/items/__proto__/1', '/items/main/999999999999999999'],
    ...[
      '/items/..%2f..%2fetc/1',
      '/sellers/%00',
      '/sellers/__proto__',
      '/sellers/..%2f',
      '/codes/0',
    ],
    ...['/audits/0', '/codes/x', '/audits/99999999999999999999/result.csv', '/reports/%00.csv'],
    ...['/assets/../../package.json', '/assets/%2e%2e/%2e%2e/package.json', '/assets/x/main.js'],
  ])('%s is no page', async (path) => {
    const operator = await dashboard.login();
    expect((await operator.get(path)).status).toBe(404);
  });
});

describe('a download', () => {
  it('holds nothing that a spreadsheet runs', async () => {
    await mirror().rows(`INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('main', 'm')`);
    await mirror().rows(
      `INSERT INTO mirror.runs (seller_id, kind, state, holder) VALUES ('main', 'items', 'succeeded', 'x')`,
    );
    const values = ['=1+1', '+1+1', '-1+1|cmd', '@SUM(A1)', '\t=1', '\r=1', ' =1', '＝1', "'=1"];
    for (const value of values) {
      await mirror().rows(
        `INSERT INTO mirror.item_changes (seller_id, item_id, run_id, changed_at, class, field, old_value, new_value)
         SELECT 'main', 1, max(run_id), now(), 'text', 'name', to_jsonb($1::text), to_jsonb($1::text)
           FROM mirror.runs`,
        [value],
      );
    }
    const operator = await dashboard.login();
    const reply = await operator.get('/changes.csv');
    expect(reply.headers.get('content-disposition')).toMatch(/^attachment; filename="[\w.-]+"$/);
    const cells = parse(await reply.text()).flat();
    expect(cells.filter((cell) => cell.startsWith("'"))).toHaveLength(2 * values.length);
    expect(cells.filter((cell) => /^\s*[=+\-@＝]/.test(cell))).toEqual([]);
  });
});
