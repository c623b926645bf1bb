import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { PassThrough, Writable, type Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
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

  it('reads no further ahead than the reader takes, so that memory stays small', async () => {
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

  it('stops without an error when the reader goes away', async () => {
    let read = 0;
    const output = new Writable({
      write(_chunk, _encoding, done) {
        done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
      },
    });
    const source = (function* () {
      for (const line of lines(1_000_000)) {
        read++;
        yield line;
      }
    })();
    expect(await writeAll(output, source)).toBe(false);
    expect(read).toBeLessThan(100_000);
  });

  it('passes on failures of the source, those of broken pipes of its own too', async () => {
    const broken = Object.assign(new Error('database gone'), { code: 'EPIPE' });
    const source = (function* () {
      yield 'a';
      throw broken;
    })();
    await expect(writeAll(new PassThrough(), source)).rejects.toBe(broken);
  });
});

describe('the guard of stdout', () => {
  // The built program, as users run it: a process of its own has a stdout of its own.
  const built = new URL('../../../dist/cli/output/write.js', import.meta.url).href;

  async function run(
    program: string,
    onStart: (child: ChildProcessByStdio<null, Readable, Readable>) => void,
  ): Promise<{ code: number | null; complaints: string }> {
    const source = `import { guardStdout } from ${JSON.stringify(built)};${program}`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let complaints = '';
    child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()));
    onStart(child);
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, complaints };
  }
  const leave = (child: ChildProcessByStdio<null, Readable, Readable>): void => {
    child.stdout.once('data', () => child.stdout.destroy());
  };

  it('ends quietly when a reader such as head goes away', async () => {
    const program = `guardStdout(); setInterval(() => process.stdout.write('y'.repeat(1e5)), 1);`;
    expect(await run(program, leave)).toEqual({ code: 0, complaints: '' });
  });

  it('says in one line why the output can’t be written', async () => {
    const program = `
      guardStdout();
      process.stdout.destroy(Object.assign(new Error('no space left'), { code: 'ENOSPC' }));`;
    expect(await run(program, (child) => child.stdout.resume())).toEqual({
      code: 1,
      complaints: "The output can't be written: no space left\n",
    });
  });
});
