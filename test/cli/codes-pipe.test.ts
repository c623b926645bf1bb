import { execFileSync, spawn } from 'node:child_process';
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openFile, readBytes } from '../../src/codes/lists/bytes.js';
import { start } from './support.js';

function pipe(): string {
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-pipe-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'list');
  execFileSync('mkfifo', [path]);
  return path;
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

  it.each([
    ['without a writer', () => undefined],
    [
      'with a silent writer',
      (path: string) => {
        const writer = createWriteStream(path, { flags: 'r+' });
        writer.write('code\n');
        onTestFinished(() => void writer.destroy());
      },
    ],
  ])('%s does not keep the command from ending on Ctrl-C', async (_what, open) => {
    const path = pipe();
    open(path);
    const running = start(['codes', 'check', path], {});
    await wait(2_000);
    running.process.kill('SIGINT');
    const { code, stderr } = await running.ended;
    expect(stderr).toContain('interrupted');
    expect(code).toBe(130);
  });

  it('on stdin does not keep it from ending either', async () => {
    const running = start(['codes', 'check', '-'], {});
    running.process.stdin.write('code\n');
    await wait(2_000);
    running.process.kill('SIGINT');
    expect((await running.ended).code).toBe(130);
  });
});
