import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { folder, MAIN, run, start } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { closeDashboards, enter, logIn, openDashboard, PASSWORD } from './dashboard.js';

const mirror = useMirror();
let env: Record<string, string>;

beforeEach(() => {
  env = {
    DATABASE_URL: mirror().databaseUrl,
    DASHBOARD_LISTEN: '127.0.0.1:0',
    HEALTH_LISTEN: 'off',
    LOG_LEVEL: 'silent',
  };
});

closeDashboards();

/** Whether alice can log in with this password. */
async function mayLogIn(password = PASSWORD): Promise<boolean> {
  const { request } = await openDashboard(mirror());
  return (await logIn(request, 'alice', password)).status === 303;
}

const names = () => mirror().rows('SELECT name FROM mirror.users');

describe('seller-mirror users', () => {
  it('takes Ctrl-D at the prompt as an empty password', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    const { code, stderr } = await run(args, env, { stdin: '\u0004', terminal: ['stdin'] });
    expect(stderr).not.toContain('this is a bug');
    expect(code).toBe(2);
  });

  it('reads only the first line of stdin, and ends on Ctrl-C', async () => {
    const add = (name: string) => start(['users', 'add', name, '--role', 'viewer'], env);
    const [quick, quiet] = [add('alice'), add('bob')];
    quick.process.stdin.write('a long enough password\n');
    expect(await quick.ended).toMatchObject({ code: 0 });
    quiet.process.kill('SIGINT');
    expect((await quiet.ended).code).toBe(130);
  });

  it('adds an account with a password from stdin, and lists it', async () => {
    const args = ['users', 'add', 'alice', '--role', 'operator'];
    const added = await run(args, env, { stdin: `${PASSWORD}\nmore\n` });
    expect(added).toMatchObject({ code: 0, stdout: 'alice may log in as operator\n' });
    expect(await mayLogIn()).toBe(true);
    expect((await run(['users'], env)).stdout).toMatch(/alice +operator/);
    const { stdout } = await run(['users', '--json'], env);
    expect(stdout).toContain('"alice"');
    expect(stdout).not.toContain('scrypt');
  });

  it('without a password, prints a link that lets the account in', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    const added = await run(args, { ...env, DASHBOARD_URL: 'https://mirror.example' });
    expect(added.stderr).toMatch(/alice may log in as viewer, with this link/);
    const [, path = ''] = /^https:\/\/mirror\.example(\/login\?\S+)\n$/.exec(added.stdout) ?? [];
    const opened = await openDashboard(mirror());
    const entered = await enter(opened, path);
    expect(entered.headers.get('location'), 'to choose a password').toBe('/users');
    expect((await enter(opened, path)).status, 'once').toBe(410);
  });

  it.each([
    ['a short password', ['add', 'bob', '--role', 'viewer'], 'short', /at least 10/],
    ['a long password', ['add', 'bob', '--role', 'viewer'], 'x'.repeat(1_001), /at most 1000/],
    ['no password and no address', ['add', 'bob', '--role', 'viewer'], '', /DASHBOARD_URL/],
    ['an empty password', ['password', 'bob'], '', /at least 10/],
    ['an unknown role', ['add', 'bob', '--role', 'root'], PASSWORD, /viewer, operator/],
    ['a missing role', ['add', 'bob'], PASSWORD, /--role/],
    ['a name with a space', ['add', 'b ob', '--role', 'viewer'], PASSWORD, /letters, digits/],
    ['a password for an unknown name', ['password', 'nobody'], PASSWORD, /no account "nobody"/],
    ['to remove an unknown name', ['remove', 'nobody'], '', /no account "nobody"/],
  ])('refuses %s', async (_, args, stdin, problem) => {
    const { code, stderr } = await run(['users', ...args], env, { stdin });
    expect(code).toBe(2);
    expect(stderr).toMatch(problem);
    expect(await names()).toEqual([]);
  });

  it('refuses a taken name without changing its account', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    await run(args, env, { stdin: PASSWORD });
    const { code, stderr } = await run(args, env, { stdin: 'another password' });
    expect(code).toBe(2);
    expect(stderr).toMatch(/there is already an account "alice"/);
    expect(await mayLogIn()).toBe(true);
  });
});

const hasScript = /util-linux/.test(
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '',
);

describe.skipIf(!hasScript)('on a terminal (needs `script` of util-linux)', () => {
  const ADD = ['users', 'add', 'alice', '--role', 'viewer'];

  /** Starts a command on a pseudo-terminal. */
  function openTerminal(args: readonly string[]) {
    const words = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qefc', `exec ${words}`, '/dev/null'], {
      cwd: folder(),
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...env },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let screen = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => (screen += part));
    return {
      child,
      screen: () => screen,
      ended: once(child, 'close').then(([code]) => code as number | null),
    };
  }

  /** Runs a command and answers each question once it is shown. */
  async function onTerminal(
    args: readonly string[],
    answers: readonly (readonly [question: string, answer: string])[],
  ) {
    const { child, screen, ended } = openTerminal(args);
    for (const [question, answer] of answers) {
      await until(() => screen().includes(question) || child.exitCode !== null);
      child.stdin.write(answer);
    }
    return { code: await ended, screen: screen() };
  }

  it('asks for a password twice without showing it', async () => {
    const { code, screen } = await onTerminal(ADD, [
      ['a login link): ', `${PASSWORD}\r`],
      ['Again: ', `${PASSWORD}\r`],
    ]);
    expect(screen).toContain('alice may log in as viewer');
    expect(code).toBe(0);
    for (const word of PASSWORD.split(' ')) expect(screen).not.toContain(word);
    expect(await mayLogIn()).toBe(true);
  });

  it('refuses two different passwords', async () => {
    const { code, screen } = await onTerminal(ADD, [
      ['a login link): ', `${PASSWORD}\r`],
      ['Again: ', `${PASSWORD}!\r`],
    ]);
    expect(screen).toContain('the two passwords differ');
    expect(code).toBe(2);
    expect(await names()).toEqual([]);
  });

  it('can be cancelled with Ctrl-C at the prompt', async () => {
    const { code } = await onTerminal(ADD, [['a login link): ', '\u0003']]);
    expect(code).toBe(130);
    expect(await names()).toEqual([]);
  });

  it('prints a working login link when the dashboard starts', async () => {
    const { child, screen, ended } = openTerminal(['dashboard']);
    const link = (): string | undefined => /http:\S+\/login\?token=[\w-]+/.exec(screen())?.[0];
    await until(() => link() !== undefined || child.exitCode !== null);
    const reply = await fetch(link() ?? '', { redirect: 'manual' });
    expect([reply.status, reply.headers.get('location')]).toEqual([303, '/']);
    child.stdin.write('\u0003');
    expect(await ended).toBe(0);
  });
});

describe('seller-mirror dashboard', () => {
  it('serves until Ctrl-C, and `dashboard link` prints a working login link', async () => {
    const serving = start(['dashboard'], env);
    await until(() => /at http/.test(serving.stdout()) || serving.process.exitCode !== null);
    const [url = ''] = /http:\/\/\S+/.exec(serving.stdout()) ?? [];
    expect((await fetch(`${url}/login`)).status).toBe(200);
    const { stdout, code } = await run(['dashboard', 'link'], env);
    expect(code).toBe(0);
    expect(stdout.startsWith(`${url}/login?token=`)).toBe(true);
    const reply = await fetch(stdout.trim(), { redirect: 'manual' });
    expect(reply.headers.get('set-cookie')).toMatch(/HttpOnly/);
    serving.process.kill('SIGINT');
    expect((await serving.ended).code).toBe(0);
    await expect(fetch(url)).rejects.toThrow();
  });

  it('link needs a running dashboard or DASHBOARD_URL', async () => {
    const none = await run(['dashboard', 'link'], env);
    expect(none.code).toBe(2);
    expect(none.stderr).toMatch(/no dashboard is running on this store/);
    const named = await run(['dashboard', 'link'], {
      ...env,
      DASHBOARD_URL: 'https://mirror.example',
    });
    expect(named.stdout).toMatch(/^https:\/\/mirror\.example\/login\?token=[\w-]{43}\n$/);
  });

  it('exits with an error when it is turned off', async () => {
    const { code, stderr } = await run(
      ['dashboard'],
      { ...env, DASHBOARD_LISTEN: 'off' },
      { spawned: true },
    );
    expect(stderr).toMatch(/the dashboard is turned off/);
    expect(code).toBe(2);
  });

  it('api exits with an error when it has no address: it would serve nothing', async () => {
    const { code, stderr } = await run(
      ['api'],
      { ...env, MARKETPLACE_URL: 'http://127.0.0.1:9', MARKETPLACE_API_KEY: 'k'.repeat(32) },
      { spawned: true },
    );
    expect(stderr).toMatch(/the look-up API has no address[^]*set API_LISTEN/);
    expect(code).toBe(2);
  });
});
