import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import {
  createWriteStream,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { folder, run, settings, start } from './support.js';

const mirror = useMirror();
const env = () => settings(mirror().databaseUrl, 'http://127.0.0.1:9');

function pipe(): string {
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-pipe-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'list');
  execFileSync('mkfifo', [path]);
  return path;
}

/** More than the buffers of a pipe hold: it is written only when the command reads. */
const MUCH = 'code\n'.repeat(400_000);

/** Waits until a process has opened the file. Without /proc, long enough for most machines. */
async function opened({ pid }: ChildProcess, path: string): Promise<void> {
  if (process.platform !== 'linux') return wait(5_000);
  const folder = `/proc/${pid}/fd`;
  const isOpen = (fd: string): boolean => {
    try {
      return readlinkSync(join(folder, fd)) === path;
    } catch {
      return false;
    }
  };
  await vi.waitUntil(() => readdirSync(folder).some(isOpen), { timeout: 60_000 });
}

describe('a list from a pipe', () => {
  it('is read to its end, also if its writer comes later and pauses', async () => {
    const path = pipe();
    const running = start(['codes', 'check', path, '--dry-run'], env());
    await opened(running.process, path);
    const writer = spawn('sh', ['-c', `exec >'${path}'; echo a-code-1; sleep 0.2; echo b-code-2`]);
    onTestFinished(() => void writer.kill());
    expect((await running.ended).stderr).toContain('2 lines: 2 codes to check');
  });

  it('without a writer does not keep the command from ending on Ctrl-C', async () => {
    const path = pipe();
    const running = start(['codes', 'check', path], {});
    await opened(running.process, path);
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(stderr).toContain('interrupted');
    expect(code).toBe(130);
  });

  it('with a silent writer does not keep the command from ending on Ctrl-C', async () => {
    const path = pipe();
    const writer = createWriteStream(path, { flags: 'r+' });
    onTestFinished(() => void writer.destroy());
    const running = start(['codes', 'check', path], {});
    await new Promise((written) => writer.write(MUCH, written));
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(stderr).toContain('interrupted');
    expect(code).toBe(130);
  });

  it('on stdin does not keep it from ending either', async () => {
    const running = start(['codes', 'check', '-'], {});
    await new Promise((written) => running.process.stdin.write(MUCH, written));
    running.process.kill('SIGINT');
    expect((await running.ended).code).toBe(130);
  });
});

it.each([
  ['a folder', () => folder(), 'is a folder, not a file'],
  ['a file of more than 128 MB', () => largeFile(), 'a list may have at most 128 MB'],
])('a list that can’t be read is refused in one sentence: %s', async (_what, make, problem) => {
  const { code, stderr } = await run(['codes', 'check', make()], env());
  expect([code, stderr]).toEqual([2, expect.stringContaining(problem)]);
});

function largeFile(): string {
  const path = join(folder(), 'large.txt');
  writeFileSync(path, '');
  truncateSync(path, 128 * 1024 ** 2 + 1);
  return path;
}
