import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { DIST } from '../../support/built.js';
import { writeAll } from '../../../src/cli/output/write.js';

function* lines(number: number): Generator<string> {
  for (let index = 0; index < number; index++) yield `line ${index}\n`;
}

describe('writing many lines', () => {
  it('writes all of them, in order, and leaves the stream open', async () => {
    const output = new PassThrough({ highWaterMark: 1024 });
    const text: string[] = [];
    output.on('data', (chunk: Buffer) => text.push(chunk.toString()));
    expect(await writeAll(output, lines(20_000))).toBe(true);
    expect(output.writableEnded).toBe(false);
    output.end('end');
    await once(output, 'end');
    expect(text.join('')).toBe(`${[...lines(20_000)].join('')}end`);
  });

  it('does not read ahead of the reader', async () => {
    let read = 0;
    let ended = false;
    const output = new PassThrough({ highWaterMark: 1024 });
    const source = (function* () {
      for (const line of lines(1_000_000)) {
        read++;
        yield line;
      }
    })();
    const writing = writeAll(output, source).then(() => (ended = true));
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(read).toBeLessThan(50_000);
    expect(ended).toBe(false);
    output.resume();
    await writing;
  });

  it('rejects when the source fails, also with EPIPE', async () => {
    const broken = Object.assign(new Error('database gone'), { code: 'EPIPE' });
    const source = (function* () {
      yield 'a';
      throw broken;
    })();
    await expect(writeAll(new PassThrough(), source)).rejects.toBe(broken);
  });
});

it('guardStdout reports a failure of stdout in one line', () => {
  // Uses the build, because the test needs a process with its own stdout.
  const built = pathToFileURL(join(DIST, 'cli/output/write.js')).href;
  const program = `
    import { guardStdout } from ${JSON.stringify(built)};
    guardStdout();
    process.stdout.destroy(Object.assign(new Error('no space left'), { code: 'ENOSPC' }));`;
  const args = ['--input-type=module', '-e', program];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const message = 'error: can’t write to stdout: no space left\n';
  expect({ status, stderr }).toEqual({ status: 1, stderr: message });
});
