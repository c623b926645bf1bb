import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, onTestFinished } from 'vitest';
import { KEY } from '../support/mirror.js';

export const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command in a process of its own. */
export interface Running {
  readonly process: ChildProcessWithoutNullStreams;
  /** Resolves when it has ended. */
  readonly ended: Promise<Ended>;
  /** What it wrote so far. */
  stdout(): string;
  stderr(): string;
}

type Environment = Readonly<Record<string, string>>;

/** Starts the built program in a folder of its own, with these settings and no others. */
export function start(args: readonly string[], env: Environment, cwd = folder()): Running {
  // The second look comes a minute after the first; who tests it says so.
  const isCheck = args[0] === 'codes' && args[1] === 'check' && !args.includes('--confirm');
  const all = isCheck ? [...args, '--confirm', 'none'] : args;
  const child = spawn(process.execPath, [MAIN, ...all], {
    cwd,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...env },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.on('error', () => undefined);
  const ended = once(child, 'close').then(([code]): Ended => {
    expect(stdout + stderr, 'the key must not show').not.toContain(KEY);
    expect(stderr, 'no stack trace').not.toMatch(/^\s+at .*:\d+:\d+/m);
    return { code: code as number | null, stdout, stderr };
  });
  return { process: child, ended, stdout: () => stdout, stderr: () => stderr };
}

/** Runs a command to its end. */
export function run(
  args: readonly string[],
  env: Environment,
  { stdin = '', cwd = folder() } = {},
): Promise<Ended> {
  const running = start(args, env, cwd);
  running.process.stdin.end(stdin);
  return running.ended;
}

/** Waits until something is so. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 20));
}

let own: string | null = null;

/** One empty folder for the tests of a file. */
export function folder(): string {
  own ??= mkdtempSync(join(tmpdir(), `seller-mirror-tests-${process.pid}-cli-`));
  return own;
}

afterAll(() => {
  if (own !== null) rmSync(own, { recursive: true, force: true });
});

/** Settings of one seller without a request limit. */
export function settings(databaseUrl: string, url: string, more: Environment = {}): Environment {
  return {
    DATABASE_URL: databaseUrl,
    MARKETPLACE_URL: url,
    MARKETPLACE_API_KEY: KEY,
    REQUESTS_PER_MINUTE: '0',
    ...more,
  };
}
