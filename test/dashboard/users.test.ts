import { expect, it } from 'vitest';
import { run } from '../cli/support.js';
import { enter, HOST, logIn, PASSWORD, textOf, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Has an operator make a login link for a colleague. */
async function letIn(name = 'bob', role = 'viewer') {
  const operator = await dashboard().login('operator');
  const reply = await operator.post('/users/link', { name, role });
  const page = await reply.text();
  const [, path = ''] = /http:\/\/127\.0\.0\.1:8791(\/login\?token=[\w-]+)/.exec(page) ?? [];
  return { operator, reply, path, page };
}

it('a login link lets a colleague in once, who then chooses a password', async () => {
  const { operator, path, page: shown } = await letIn();
  expect(shown).toMatch(/data-copy="[^"]+\/login\?token=[^"]+"[^]*data-share="/);
  expect(textOf(await operator.page('/users'))).toMatch(/bob viewer .* none yet/);
  expect((await logIn(dashboard().request, 'bob', '')).status, 'no password').toBe(401);
  for (const reader of ['a link preview', 'a mail scanner', 'bob']) {
    const opened = await dashboard().request(path);
    expect([opened.status, opened.headers.get('set-cookie')], reader).toEqual([200, null]);
    expect(await opened.text(), reader).toContain('>Log in as bob</button>');
  }
  const entered = await enter(dashboard(), path);
  expect(entered.headers.get('location')).toBe('/users');
  expect((await dashboard().request(path)).status).toBe(410);
  expect((await enter(dashboard(), path)).status).toBe(410);
  const bob = (cookie: string) => ({
    page: async (at: string) => (await dashboard().request(at, { headers: { cookie } })).text(),
    set: async (password: string, again = password) => {
      const page = await (await dashboard().request('/users', { headers: { cookie } })).text();
      const [, token = ''] = /name="token" value="([^"]+)"/.exec(page) ?? [];
      return dashboard().request('/users/password', {
        method: 'POST',
        headers: { cookie, origin: HOST },
        body: new URLSearchParams({ token, password, again }),
      });
    },
  });
  const visitor = bob(entered.headers.get('set-cookie')?.split(';')[0] ?? '');
  const form = await visitor.page('/users');
  expect(textOf(form), 'said before the first mistake').toContain('At least 10 characters');
  expect(form, 'only operators let others in').not.toContain('Make a login link');
  expect((await visitor.set('short')).status).toBe(422);
  expect((await visitor.set(PASSWORD, 'another one')).status).toBe(422);
  const chosen = await visitor.set(PASSWORD);
  expect(chosen.headers.get('location')).toBe('/?notice=password');
  expect(await visitor.page('/'), 'the session of before').not.toContain('Log out');
  const later = bob(chosen.headers.get('set-cookie')?.split(';')[0] ?? '');
  expect(await later.page('/')).toContain('bob <span class="muted">· viewer');
  expect((await logIn(dashboard().request, 'bob', PASSWORD)).status).toBe(303);
});

it('a login link is stored only as a hash, and ends after a day, with the next one, a new password or its account', async () => {
  const { operator, path } = await letIn();
  const token = new URL(path, HOST).searchParams.get('token') ?? 'none';
  const stored = await mirror().rows(
    'SELECT u::text, a::text, l::text FROM mirror.users u, mirror.actions a, mirror.login_links l',
  );
  expect(JSON.stringify(stored)).not.toContain(token);
  const link = async (): Promise<string> => {
    const page = await (await operator.post('/users/link', { name: 'bob', role: 'viewer' })).text();
    return /\/login\?token=[\w-]+/.exec(page)?.[0] ?? '';
  };
  const statusOf = async (of: string) => (await dashboard().request(of)).status;
  const older = (interval: string) =>
    mirror().rows(`UPDATE mirror.login_links SET expires_at = expires_at - interval '${interval}'`);
  await older('23 hours');
  expect((await enter(dashboard(), path)).status).toBe(303);
  const second = await link();
  expect(await statusOf(second)).toBe(200);
  await older('25 hours');
  expect(await statusOf(second)).toBe(410);
  expect((await enter(dashboard(), second)).status).toBe(410);
  const [third, fourth] = [await link(), await link()];
  expect([await statusOf(third), await statusOf(fourth)]).toEqual([410, 200]);
  const env = { DATABASE_URL: mirror().databaseUrl };
  const changed = await run(['users', 'password', 'bob'], env, { stdin: PASSWORD });
  expect(changed.code).toBe(0);
  expect(await statusOf(fourth)).toBe(410);
  const fifth = await link();
  expect((await operator.post('/users/bob/remove')).status).toBe(303);
  expect(await statusOf(fifth)).toBe(410);
});

it('only operators add and remove accounts, and nobody the own one, who would be logged out at once', async () => {
  const { operator } = await letIn('carl', 'operator');
  for (const [fields, status, words] of [
    [{ name: 'carl', role: 'viewer' }, 409, 'carl is operator already'],
    [{ name: '<b>', role: 'viewer' }, 422, 'the role is viewer or operator'],
    [{ name: 'dora', role: 'owner' }, 422, 'the role is viewer or operator'],
  ] as const) {
    const refused = await operator.post('/users/link', fields);
    expect(refused.status).toBe(status);
    expect(textOf(await refused.text())).toContain(words);
  }
  expect((await operator.post('/users/operator/remove')).status).toBe(409);
  expect(await operator.page('/users')).not.toContain('/users/operator/remove');
  const viewer = await dashboard().login('viewer');
  expect(await viewer.page('/users')).not.toContain('/remove"');
});

it('a program’s token can be revoked on its page', async () => {
  await mirror().rows(
    `INSERT INTO mirror.api_tokens (name, token_hash) VALUES ('helpdesk', '\\x00')`,
  );
  const operator = await dashboard().login();
  expect(textOf(await operator.page('/tokens'))).toMatch(/helpdesk .*Revoke/);
  await operator.post('/tokens/helpdesk/revoke');
  expect(await operator.page('/tokens')).toContain('There is no token.');
});
