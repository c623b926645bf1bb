import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';

const LOG = new URL('../../dist/log/index.js', import.meta.url).href;

/** A process that logs to its standard output. */
function logging(code: string) {
  const script = `
    import { createLog } from ${JSON.stringify(LOG)};
    const log = createLog({ level: 'info', format: 'json', secrets: [] });
    ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script]);
  onTestFinished(() => void child.kill('SIGKILL'));
  const out: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  return {
    child,
    errors: () => errors,
    lines: () => Buffer.concat(out).toString().trimEnd().split('\n'),
    ended: once(child, 'close').then(([exitCode]) => exitCode as number | null),
  };
}

describe('the log of a process', () => {
  it('is on standard output whole when it ends at once, because nothing waits in memory', async () => {
    const { ended, lines, errors } = logging(`
      for (let i = 0; i < 2000; i += 1) log.info('line', { i, text: 'x'.repeat(200) });
      log.flush();
      process.exit(3);`);
    expect(await ended).toBe(3);
    expect(errors()).toBe('');
    expect(lines().map((line) => (JSON.parse(line) as { i: number }).i)).toEqual([
      ...Array(2000).keys(),
    ]);
  });

  it('does not end it when nobody reads it any more, as with `| head`', async () => {
    const { child, ended, errors } = logging(`
      log.info('ready');
      process.stdin.on('data', () => {
        for (let i = 0; i < 100; i += 1) log.info('nobody hears this');
        log.flush();
        setTimeout(() => {
          log.info('nor this');
          log.flush();
          process.exit(0);
        }, 50);
      });`);
    await once(child.stdout, 'data');
    child.stdout.destroy();
    child.stdin.write('go\n');
    expect(await ended).toBe(0);
    expect(errors()).toBe('');
  });
});
