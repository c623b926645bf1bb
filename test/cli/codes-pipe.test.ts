import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { openFile, readBytes } from '../../src/codes/lists/source.js';
import { start } from './support.js';

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
    const reading = openFile(path).then(({ bytes }) => readBytes(bytes));
    await wait(100);
    const writer = spawn('sh', ['-c', `exec >'${path}'; echo a-1; sleep 0.2; echo b-2`]);
    onTestFinished(() => void writer.kill());
    expect((await reading).toString()).toBe('a-1\nb-2\n');
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
