import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { SPELLINGS } from '../support/echoes.js';
import { CONTAINERS, purchaseCode, secretText, useLog } from './support.js';

/** Logs the text in the message and in fields, in both formats. */
function linesWith(text: string, wrap: (text: string) => unknown, secrets: string[]): string {
  return (['json', 'pretty'] as const)
    .map((format) => {
      const { log, lines } = useLog({ format, secrets, level: 'debug' });
      log.child({ wrapped: wrap(text) }).info('a message', { also: wrap(text) });
      log.error(`went wrong: ${String(wrap(text))}`);
      return lines.join('');
    })
    .join('');
}

/** Appends every name and value of the lines of JSON, unescaped. */
function withValues(lines: string): string {
  const texts = lines.split('\n').filter((line) => line.startsWith('{'));
  const values: string[] = [];
  for (const text of texts) {
    JSON.parse(text, (name, value: unknown) => {
      values.push(name, String(value));
      return value;
    });
  }
  return `${lines}\n${values.join('\n')}`;
}

describe.each(Object.entries(CONTAINERS))('in %s', (_, wrap) => {
  it('masks a known key in every spelling', () => {
    fc.assert(
      fc.property(secretText, (key) => {
        const line = withValues(linesWith(key, wrap, [key]));
        for (const spell of Object.values(SPELLINGS)) expect(line).not.toContain(spell(key));
      }),
      { numRuns: 15 },
    );
  });

  it('masks unknown purchase codes by their format', () => {
    fc.assert(
      fc.property(purchaseCode, (code) => {
        expect(withValues(linesWith(code, wrap, []))).not.toContain(code.slice(5));
      }),
      { numRuns: 15 },
    );
  });
});

describe('masking', () => {
  it('replaces only the secret', () => {
    const { log, last } = useLog({ secrets: ['key-0123456789'] });
    log.info('asked with key-0123456789', { header: 'X-Key: key-0123456789' });
    expect(last()).toMatchObject({ msg: 'asked with [secret]', header: 'X-Key: [secret]' });
  });

  it.each(['key-01234567\\', 'key"01234567', 'key/01234567\\"'])(
    'leaves valid JSON after a key with escapes: %s',
    (key) => {
      const { log, last } = useLog({ secrets: [key] });
      log.info(`asked with ${key}`, { key, also: `${key}"` });
      expect(last()).toMatchObject({ msg: 'asked with [secret]', also: '[secret]"' });
    },
  );

  it('leaves numbers alone, so that the line stays valid JSON', () => {
    const { log, last } = useLog({ secrets: ['123456'] });
    log.info('done after 123456 ms', { durationMs: 123_456 });
    expect(last()).toMatchObject({ durationMs: 123_456, msg: 'done after [secret] ms' });
  });

  it('does not change level and time, even if a password is "info"', () => {
    const { log, last } = useLog({ secrets: ['info', 'level', 'time'] });
    log.info('info');
    expect(last()).toMatchObject({
      level: 'info',
      time: expect.any(String) as string,
      msg: '[secret]',
    });
  });

  it('masks Secret objects that the log was not given', () => {
    const { log, last } = useLog();
    log.info('x', { of: new Secret('never-told-to-the-log') });
    expect(last()['of']).toBe('[secret]');
  });

  it('shows no half of a secret where a line is cut', () => {
    const key = 'k'.repeat(5) + 'e'.repeat(200) + 'y'.repeat(5);
    const { log, lines } = useLog({ secrets: [key] });
    log.info(`${key} `.repeat(400));
    expect(lines.join('')).not.toContain('kkkkke');
  });

  it('masks unknown logins in URLs', () => {
    const { log, last } = useLog();
    log.warn('lost redis://me:hunter2@cache:6379', { to: 'postgresql://me:hunter2@db/mirror' });
    expect(last()).toMatchObject({
      msg: 'lost redis://…@cache:6379',
      to: 'postgresql://…@db/mirror',
    });
  });

  it.each(['code', 'codes', 'purchaseCode', 'purchase_code'])(
    'shows at most a quarter of the text in a field named %s',
    (name) => {
      const { log, last } = useLog();
      log.info('x', { [name]: 'SPRING-SALE' });
      expect(last()).toMatchObject({ [name]: 'SP…' });
    },
  );

  it.each(['password', 'apiKey', 'api_key', 'authorization', 'cookie', 'token'])(
    'hides the text in a field named %s',
    (name) => {
      const { log, last } = useLog();
      log.info('x', { [name]: 'hunter2' });
      expect(last()).toMatchObject({ [name]: '[secret]' });
    },
  );

  it('shows the code of an error', () => {
    const { log, last } = useLog();
    log.error('x', { error: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
    expect(last()['error']).toEqual({ type: 'Error', message: 'refused', code: 'ECONNREFUSED' });
  });
});
