import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { newToken, tokenHash } from '../../src/dashboard/security.js';
import { isPassword } from '../../src/dashboard/passwords.js';
import { folder, MAIN, run, start, until } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { PASSWORD, PASSWORD_HASH } from './dashboard.js';

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

const storedHash = (name: string): Promise<string | null> =>
  mirror().store.access.passwordHash(name);

describe('seller-mirror users', () => {
  it('adds an account whose password comes from stdin, and lists it', async () => {
    const args = ['users', 'add', 'alice', '--role', 'operator'];
    const added = await run(args, env, { stdin: `${PASSWORD}\nmore\n` });
    expect(added).toMatchObject({ code: 0, stdout: 'alice may log in as operator\n' });
    expect(await isPassword(PASSWORD, await storedHash('alice'))).toBe(true);
    expect((await run(['users'], env)).stdout).toMatch(/alice +operator/);
    const { stdout } = await run(['users', '--json'], env);
    expect(stdout).toContain('"alice"');
    expect(stdout).not.toContain('scrypt');
  });

  it.each([
    ['a password that is too short', ['add', 'bob', '--role', 'viewer'], 'short', /at least 10/],
    ['one that is too long', ['add', 'bob', '--role', 'viewer'], 'x'.repeat(1_001), /at most 1000/],
    ['none', ['add', 'bob', '--role', 'viewer'], '', /at least 10/],
    ['another role', ['add', 'bob', '--role', 'root'], PASSWORD, /viewer, operator/],
    ['no role', ['add', 'bob'], PASSWORD, /--role/],
    ['a name with a space', ['add', 'b ob', '--role', 'viewer'], PASSWORD, /letters, digits/],
    ['nobody’s password', ['password', 'nobody'], PASSWORD, /there is no account "nobody"/],
    ['nobody to remove', ['remove', 'nobody'], '', /there is no account "nobody"/],
  ])('refuses %s', async (_, args, stdin, problem) => {
    const { code, stderr } = await run(['users', ...args], env, { stdin });
    expect(code).toBe(2);
    expect(stderr).toMatch(problem);
    expect(await mirror().store.access.users()).toEqual([]);
  });

  it('refuses a taken name, and leaves that account as it is', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    await run(args, env, { stdin: PASSWORD });
    const { code, stderr } = await run(args, env, { stdin: 'another password' });
    expect(code).toBe(2);
    expect(stderr).toMatch(/there is already an account "alice"/);
    expect(await isPassword(PASSWORD, await storedHash('alice'))).toBe(true);
  });

  it.each([
    ['remove', ['remove', 'alice']],
    ['password', ['password', 'alice']],
  ])('%s ends the sessions of the account, and no others', async (_, args) => {
    const { access } = mirror().store;
    for (const name of ['alice', 'bob']) {
      await access.addUser({ name, role: 'viewer', passwordHash: PASSWORD_HASH });
    }
    const [alices, bobs] = [tokenHash(newToken()), tokenHash(newToken())];
    await access.openSession(alices, { userName: 'alice' });
    await access.openSession(bobs, { userName: 'bob' });
    expect((await run(['users', ...args], env, { stdin: 'another password' })).code).toBe(0);
    expect(await access.session(alices)).toBeNull();
    expect(await access.session(bobs)).toMatchObject({ who: 'bob' });
  });
});

const hasScript = /util-linux/.test(
  spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '',
);

describe.skipIf(!hasScript)('on a terminal (needs `script` of util-linux)', () => {
  /** Runs a command on a terminal and answers its questions, each once it stands there. */
  async function onTerminal(
    args: readonly string[],
    answers: readonly (readonly [string, string])[],
  ) {
    const words = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qefc', `exec ${words}`, '/dev/null'], {
      cwd: folder(),
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...env },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let screen = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => (screen += part));
    const ended = once(child, 'close').then(([code]) => code as number | null);
    for (const [question, answer] of answers) {
      await until(() => screen.includes(question) || child.exitCode !== null);
      child.stdin.write(answer);
    }
    return { code: await ended, screen };
  }

  it('a password is asked for twice, and is never shown', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    const { code, screen } = await onTerminal(args, [
      ['Password: ', `${PASSWORD}\r`],
      ['Again: ', `${PASSWORD}\r`],
    ]);
    expect(screen).toContain('alice may log in as viewer');
    expect(code).toBe(0);
    for (const word of PASSWORD.split(' ')) expect(screen).not.toContain(word);
    expect(await isPassword(PASSWORD, await storedHash('alice'))).toBe(true);
  });

  it('two that differ change nothing', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    const { code, screen } = await onTerminal(args, [
      ['Password: ', `${PASSWORD}\r`],
      ['Again: ', `${PASSWORD}!\r`],
    ]);
    expect(screen).toContain('the two passwords differ');
    expect(code).toBe(2);
    expect(await storedHash('alice')).toBeNull();
  });

  it('Ctrl-C at the question ends the command', async () => {
    const args = ['users', 'add', 'alice', '--role', 'viewer'];
    const { code } = await onTerminal(args, [['Password: ', '\u0003']]);
    expect(code).toBe(130);
    expect(await storedHash('alice')).toBeNull();
  });

  it('the dashboard itself prints a link, which logs in', async () => {
    const words = [process.execPath, MAIN, 'dashboard'].map((word) => `'${word}'`).join(' ');
    const child = spawn('script', ['-qefc', `exec ${words}`, '/dev/null'], {
      cwd: folder(),
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], NO_COLOR: '1', ...env },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let screen = '';
    child.stdout.setEncoding('utf8').on('data', (part: string) => (screen += part));
    const ended = once(child, 'close').then(([code]) => code as number | null);
    const link = (): string | undefined => /http:\S+\/login\?token=[\w-]+/.exec(screen)?.[0];
    await until(() => link() !== undefined || child.exitCode !== null);
    const reply = await fetch(link() ?? '', { redirect: 'manual' });
    expect([reply.status, reply.headers.get('location')]).toEqual([303, '/']);
    child.stdin.write('\u0003');
    expect(await ended).toBe(0);
  });
});

describe('seller-mirror dashboard', () => {
  it('serves until Ctrl-C, and `dashboard link` finds it and prints a link that logs in', async () => {
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

  it('link needs a dashboard that runs, or to be told where it is', async () => {
    const none = await run(['dashboard', 'link'], env);
    expect(none.code).toBe(2);
    expect(none.stderr).toMatch(/no dashboard is running on this store/);
    const named = await run(['dashboard', 'link'], {
      ...env,
      DASHBOARD_URL: 'https://mirror.example',
    });
    expect(named.stdout).toMatch(/^https:\/\/mirror\.example\/login\?token=[\w-]{43}\n$/);
  });

  it('that is turned off says so, and ends', async () => {
    const { code, stderr } = await run(
      ['dashboard'],
      { ...env, DASHBOARD_LISTEN: 'off' },
      { spawned: true },
    );
    expect(stderr).toMatch(/the dashboard is turned off/);
    expect(code).toBe(2);
  });
});
