import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DIST } from '../support/built.js';
import { useLog } from './support.js';

const MOST_BYTES = 16 * 1024;

describe('a line of JSON', () => {
  it('has level, time, message, pid and the fields of all parent logs', () => {
    const { log, lines, last } = useLog();
    log.child({ seller: 'main' }).child({ run: 17n, job: 'sync' }).warn('held', { items: 12 });
    expect(last()).toEqual({
      level: 'warn',
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/) as string,
      pid: process.pid,
      seller: 'main',
      run: 17,
      job: 'sync',
      items: 12,
      msg: 'held',
    });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^\{"level":"warn","time":".*\}\n$/);
  });

  it('has each field once, with the value of the innermost log', () => {
    const { log, lines, last } = useLog();
    log.child({ run: 1, seller: 'a' }).info('x', { run: 2 });
    expect(last()).toMatchObject({ run: 2, seller: 'a' });
    expect(lines[0]?.match(/"run"/g)).toHaveLength(1);
  });

  it('shows the usual kinds of values', () => {
    const { log, last } = useLog();
    const values: readonly (readonly [value: unknown, shown: unknown])[] = [
      [new Date(0), '1970-01-01T00:00:00.000Z'],
      [17n, 17],
      [null, null],
      [undefined, undefined],
      [new URL('https://a.example/b'), 'https://a.example/b'],
      [
        ['a', { b: 1 }],
        ['a', { b: 1 }],
      ],
    ];
    for (const [value, shown] of values) {
      log.info('x', { value });
      expect(last()['value']).toEqual(shown);
    }
  });

  it.each([
    ['a long message', 'm'.repeat(1e6), {}],
    ['a message of control characters', '\u0000'.repeat(1e5), {}],
    ['a long list', 'x', { list: Array.from({ length: 1e5 }, () => null) }],
  ])('takes at most 16 KiB with %s, and says that it was cut', (_, message, fields) => {
    const { log, lines, last } = useLog();
    log.error(message, fields);
    expect(Buffer.byteLength(lines.join(''))).toBeLessThanOrEqual(MOST_BYTES + 1);
    expect(last()).toMatchObject({ level: 'error', pid: process.pid, isCut: true });
  });

  it('does not throw if reading a value throws', () => {
    const { log } = useLog();
    const getter = {
      get bad(): string {
        throw new Error('no');
      },
    };
    expect(() => log.info('x', { in: getter })).not.toThrow();
  });

  it('is dropped below the level', () => {
    const { log, lines } = useLog({ level: 'warn' });
    log.info('x');
    log.debug('x');
    expect(lines).toEqual([]);
    useLog({ level: 'silent' }).log.error('x');
  });
});

describe('an error', () => {
  class StrangeError extends Error {}

  it('has type, message, code and cause', () => {
    const { log, last } = useLog();
    const cause = Object.assign(new TypeError('refused'), {
      code: 'ECONNREFUSED',
      request: 'whole',
    });
    log.error('x', { error: new StrangeError('no answer', { cause }) });
    expect(last()['error']).toEqual({
      type: 'StrangeError',
      message: 'no answer',
      cause: { type: 'TypeError', message: 'refused', code: 'ECONNREFUSED' },
    });
  });

  it('has a stack at level debug', () => {
    const { log, last } = useLog({ level: 'debug' });
    log.error('x', { error: new Error('first line\nsecond line') });
    const { stack } = last()['error'] as { stack: string[] };
    expect(stack[0]).toMatch(/^at .*lines\.test\.ts/);
  });

  it('shows each error of an AggregateError', () => {
    const { log, last } = useLog();
    log.error('x', { error: new AggregateError([new Error('a'), 'b'], 'both') });
    expect(last()['error']).toMatchObject({
      type: 'AggregateError',
      errors: [{ message: 'a' }, 'b'],
    });
  });
});

describe('a line for people', () => {
  it('has time, level, message and fields', () => {
    const { log, lines } = useLog({ format: 'pretty' });
    log.child({ seller: 'main' }).info('run done', { items: 3, of: 'a b', in: { x: 1 } });
    expect(lines).toEqual([
      expect.stringMatching(
        /^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] INFO: run done seller=main items=3 of="a b" in=\{"x":1\}\n$/,
      ) as string,
    ]);
  });

  it('has colours only if requested', () => {
    const [plain, colored] = [false, true].map((colors) => useLog({ format: 'pretty', colors }));
    plain?.log.error('x', { a: 1 });
    colored?.log.error('x', { a: 1 });
    expect(plain?.lines.join('')).not.toContain('\u001b');
    expect(colored?.lines.join('')).toContain('\u001b[31mERROR');
  });

  it('escapes control characters from outside', () => {
    const { log, lines } = useLog({ format: 'pretty' });
    const acting = fc.constantFrom(
      ...'\n|\r|\u001b[2J|\u009b31m|\u2028|\u202e|\t|\b|\\n|\u{e0001}|x|"|='.split('|'),
    );
    const text = fc.array(acting, { minLength: 1 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, text, (message, value) => {
        lines.length = 0;
        log.info(message, {
          value,
          [value]: [{ [value]: value }],
          stack: value,
          type: 'Error',
          name: value,
          hostname: value,
        });
        expect(lines).toHaveLength(1);
        expect(lines[0]?.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        expect(lines[0]).toMatch(/^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] INFO: .*\n$/);
      }),
    );
  });

  it('escapes them in JSON too, which people also read on terminals', () => {
    const { log, lines, last } = useLog();
    log.info('a\u001b[2J\u009b31m\u2028\u202e\u{e0001}b');
    expect(lines[0]).toContain('a\\u001b[2J\\u009b31m\\u2028\\u202e\\udb40\\udc01b');
    expect(last()['msg']).toBe('a\u001b[2J\u009b31m\u2028\u202e\u{e0001}b');
  });
});

describe('a log that can’t be written', () => {
  it('does not throw', () => {
    const { log } = useLog({
      write: () => {
        throw new Error('no space left');
      },
    });
    expect(() => log.error('x')).not.toThrow();
  });
});

const LOG = pathToFileURL(join(DIST, 'log/index.js')).href;

/** Starts a process that runs the code with a `log` on standard output. */
function startLogging(code: string) {
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
  it('is complete on standard output when the process exits at once', async () => {
    const { ended, lines, errors } = startLogging(`
      for (let i = 0; i < 2000; i += 1) log.info('line', { i, text: 'x'.repeat(200) });
      process.exit(3);`);
    expect(await ended).toBe(3);
    expect(errors()).toBe('');
    expect(lines().map((line) => (JSON.parse(line) as { i: number }).i)).toEqual([
      ...Array(2000).keys(),
    ]);
  });

  it('does not end the process when its reader goes away, as with `| head`', async () => {
    const { child, ended, errors } = startLogging(`
      log.info('ready');
      process.stdin.on('data', () => {
        for (let i = 0; i < 100; i += 1) log.info('nobody reads this');
        setTimeout(() => {
          log.info('nor this');
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
