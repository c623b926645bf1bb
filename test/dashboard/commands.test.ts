import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { folder, MAIN, run } from '../cli/support.js';
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
  const ADD = ['users', 'add', 'alice', '--role', 'operator'];

  it('adds an account with a password from the first line of stdin, lists it, and changes none that exists', async () => {
    const added = await run(ADD, env, { stdin: `${PASSWORD}\nmore\n` });
    expect(added).toMatchObject({ code: 0, stdout: 'alice may log in as operator\n' });
    expect((await run(['users'], env)).stdout).toMatch(/alice +operator/);
    const { stdout } = await run(['users', '--json'], env);
    expect(stdout).toContain('"alice"');
    expect(stdout).not.toContain('scrypt');
    const again = await run(ADD, env, { stdin: 'another password' });
    expect(again.code).toBe(2);
    expect(again.stderr).toMatch(/there is already an account "alice"/);
    expect(await mayLogIn()).toBe(true);
  });

  it('without a password, prints a link that lets the account in', async () => {
    const added = await run(ADD, { ...env, DASHBOARD_URL: 'https://mirror.example' });
    expect(added.stderr).toMatch(/alice may log in as operator, with this link/);
    const [, path = ''] = /^https:\/\/mirror\.example(\/login\?\S+)\n$/.exec(added.stdout) ?? [];
    const opened = await openDashboard(mirror());
    const entered = await enter(opened, path);
    expect(entered.headers.get('location'), 'to choose a password').toBe('/users');
    expect((await enter(opened, path)).status, 'once').toBe(410);
  });

  it('refuses passwords, roles and names that can’t be, and stores nothing', async () => {
    for (const [args, stdin, problem] of [
      [['add', 'bob', '--role', 'viewer'], 'short', /at least 10/],
      [['add', 'bob', '--role', 'viewer'], 'x'.repeat(1_001), /at most 1000/],
      [['add', 'bob', '--role', 'viewer'], '', /DASHBOARD_URL/],
      [['password', 'bob'], '', /at least 10/],
      [['add', 'bob', '--role', 'root'], PASSWORD, /viewer, operator/],
      [['add', 'bob'], PASSWORD, /--role/],
      [['add', 'b ob', '--role', 'viewer'], PASSWORD, /letters, digits/],
      [['password', 'nobody'], PASSWORD, /no account "nobody"/],
      [['remove', 'nobody'], '', /no account "nobody"/],
    ] as const) {
      const { code, stderr } = await run(['users', ...args], env, { stdin });
      expect(stderr).toMatch(problem);
      expect(code, args.join(' ')).toBe(2);
    }
    // Ctrl-D at the prompt is an empty password.
    const ended = await run(ADD, env, { stdin: '\u0004', terminal: ['stdin'] });
    expect(ended.stderr).not.toContain('this is a bug');
    expect(ended.code).toBe(2);
    expect(await names()).toEqual([]);
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

  it('asks for a password twice without showing it, refuses two different ones, and ends at Ctrl-C', async () => {
    const differ = await onTerminal(ADD, [
      ['a login link): ', `${PASSWORD}\r`],
      ['Again: ', `${PASSWORD}!\r`],
    ]);
    expect(differ.screen).toContain('the two passwords differ');
    expect(differ.code).toBe(2);
    const cancelled = await onTerminal(ADD, [['a login link): ', '\u0003']]);
    expect(cancelled.code).toBe(130);
    expect(await names()).toEqual([]);
    const { code, screen } = await onTerminal(ADD, [
      ['a login link): ', `${PASSWORD}\r`],
      ['Again: ', `${PASSWORD}\r`],
    ]);
    expect(screen).toContain('alice may log in as viewer');
    expect(code).toBe(0);
    for (const word of PASSWORD.split(' ')) expect(screen).not.toContain(word);
    expect(await mayLogIn()).toBe(true);
  });

  it('`dashboard` prints a working login link when it starts, as `dashboard link` does, and serves until Ctrl-C', async () => {
    const { child, screen, ended } = openTerminal(['dashboard']);
    const link = (): string | undefined => /http:\S+\/login\?token=[\w-]+/.exec(screen())?.[0];
    await until(() => link() !== undefined || child.exitCode !== null);
    const printed = await run(['dashboard', 'link'], env);
    expect(printed.code).toBe(0);
    expect(printed.stderr).toBe('This link logs you in once, within 10 minutes.\n');
    for (const url of [link() ?? '', printed.stdout.trim()]) {
      const reply = await fetch(url, { redirect: 'manual' });
      expect([reply.status, reply.headers.get('location')]).toEqual([303, '/']);
      expect(reply.headers.get('set-cookie')).toMatch(/HttpOnly/);
    }
    child.stdin.write('\u0003');
    expect(await ended).toBe(0);
  });
});

it('what can’t serve or make a link says why', async () => {
  const seller = { MARKETPLACE_URL: 'http://127.0.0.1:9', MARKETPLACE_API_KEY: 'k'.repeat(32) };
  for (const [args, more, problem] of [
    [['dashboard', 'link'], {}, /no dashboard is running on this store/],
    [['dashboard'], { DASHBOARD_LISTEN: 'off' }, /the dashboard is turned off/],
    [['api'], seller, /the look-up API has no address[^]*set API_LISTEN/],
  ] as const) {
    const { code, stderr } = await run(args, { ...env, ...more });
    expect(stderr).toMatch(problem);
    expect(code, args.join(' ')).toBe(2);
  }
  const named = await run(['dashboard', 'link'], {
    ...env,
    DASHBOARD_URL: 'https://mirror.example',
  });
  expect(named.stdout).toMatch(/^https:\/\/mirror\.example\/login\?token=[\w-]{43}\n$/);
});
