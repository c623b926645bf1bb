import { describe, expect, it } from 'vitest';
import { listActions } from '../../src/dashboard/access-store.js';
import { HOST, PASSWORD, logIn, textOf, useDashboard } from './dashboard.js';

const { mirror, dashboard } = useDashboard();

/** Invites a colleague, and returns the path of the link. */
async function invite(name = 'bob', role = 'viewer') {
  const operator = await dashboard().login('operator');
  const reply = await operator.post('/system/accounts/invite', { name, role });
  const page = await reply.text();
  const [, path = ''] = /http:\/\/127\.0\.0\.1:8791(\/invitation\?token=[\w-]+)/.exec(page) ?? [];
  return { operator, reply, path, page };
}

/** Chooses a password, as the page of an invitation does. */
function choose(path: string, password = PASSWORD, again = password): Promise<Response> {
  const invitation = new URL(path, HOST).searchParams.get('token') ?? '';
  return dashboard().request('/invitation', {
    method: 'POST',
    headers: { origin: HOST },
    body: new URLSearchParams({ invitation, password, again }),
  });
}

describe('an invitation', () => {
  it('lets a colleague choose a password once, and logs in with the role that it was made for', async () => {
    const { operator, path, page: shown } = await invite();
    expect(shown).toMatch(/data-copy="[^"]+\/invitation\?token=[^"]+"[^]*data-share="/);
    expect(textOf(await operator.page('/system'))).toMatch(/bob viewer .* in (?:23|24) h .*Revoke/);
    expect((await logIn(dashboard().request, 'bob', PASSWORD)).status).toBe(401);
    // Messengers preview a link: that does not use it up.
    for (const method of ['HEAD', 'GET']) {
      expect((await dashboard().request(path, { method })).status).toBe(200);
    }
    expect((await choose(path, 'short')).status).toBe(422);
    expect((await choose(path, PASSWORD, 'another one')).status).toBe(422);
    const form = textOf(await (await dashboard().request(path)).text());
    expect(form, 'said before the first mistake').toContain('At least 10 characters');
    const chosen = await choose(path);
    expect(chosen.headers.get('location')).toBe('/');
    expect((await choose(path, 'a later password')).status).toBe(410);
    const cookie = chosen.headers.get('set-cookie')?.split(';')[0] ?? '';
    const page = await dashboard().request('/system', { headers: { cookie } });
    expect(await page.text()).toContain('bob <span class="muted">· viewer');
  });

  it('is stored only as a hash, and logged without the link', async () => {
    const { path } = await invite();
    const token = new URL(path, HOST).searchParams.get('token') ?? 'none';
    const stored = await mirror().rows('SELECT * FROM mirror.users, mirror.actions');
    expect(JSON.stringify(stored)).not.toContain(token);
    expect(await listActions(mirror().db, 1)).toMatchObject([
      { who: 'operator', action: 'invite', target: 'bob', outcome: 'done' },
    ]);
  });

  it('ends after a day, and when it is taken back', async () => {
    const { operator, path } = await invite();
    await mirror().rows(
      `UPDATE mirror.users SET password_hash = regexp_replace(password_hash, '\\$\\d{13}\\$', '$1$')
        WHERE name = 'bob'`,
    );
    expect((await choose(path)).status).toBe(410);
    await operator.post('/system/accounts/remove', { name: 'bob' });
    const again = await operator.post('/system/accounts/invite', { name: 'bob', role: 'viewer' });
    const [second = ''] = /\/invitation\?token=[\w-]+/.exec(await again.text()) ?? [];
    expect((await dashboard().request(second)).status).toBe(200);
    await operator.post('/system/accounts/remove', { name: 'bob' });
    expect((await choose(second)).status).toBe(410);
  });

  it('does not replace an account, and comes from operators only', async () => {
    const { operator } = await invite('carl', 'operator');
    const twice = await operator.post('/system/accounts/invite', { name: 'carl', role: 'viewer' });
    expect(twice.status).toBe(409);
    expect(textOf(await twice.text())).toContain(
      'Choose another name, or remove that account first.',
    );
    for (const wrong of [
      { name: '<b>', role: 'viewer' },
      { name: 'dora', role: 'owner' },
    ]) {
      const refused = await operator.post('/system/accounts/invite', wrong);
      expect(refused.status).toBe(422);
      expect(textOf(await refused.text())).toContain('the role is viewer or operator');
    }
    const viewer = await dashboard().login('viewer');
    expect(await viewer.page('/system')).not.toContain('Invite a colleague');
    for (const path of ['/system/accounts/invite', '/system/accounts/remove']) {
      expect((await viewer.post(path, { name: 'dora', role: 'viewer' })).status).toBe(403);
    }
  });
});

describe('an account', () => {
  it('is not removed by its own owner, who would be logged out at once', async () => {
    const ada = await dashboard().login('operator');
    const own = await ada.post('/system/accounts/remove', { name: 'operator' });
    expect(own.status).toBe(409);
    expect(textOf(await own.text())).toContain('That is your own account');
    expect((await ada.get('/system')).status).toBe(200);
    expect(await ada.page('/system')).not.toContain('>Remove</button>');
  });
});
