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
        const base64 = Buffer.from(`me:${key}`).toString('base64').slice(4, -4);
        const spelled = Object.values(SPELLINGS).map((spell) => spell(key));
        for (const spelling of [...spelled, base64]) expect(line).not.toContain(spelling);
      }),
      { numRuns: 15 },
    );
  });

  it('masks unknown purchase codes by their format', () => {
    fc.assert(
      fc.property(purchaseCode, (code) => {
        // In base64 the format can't be recognized. Authorization headers hold keys, which are known.
        if (String(wrap('x')).startsWith('Basic ')) return;
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

  it('finds a key of digits in numbers, and the line stays valid JSON', () => {
    const { log, last } = useLog({ secrets: ['123456'] });
    log.info('done', { durationMs: 12_345_678, big: 123_456n });
    expect(last()).toMatchObject({ durationMs: '[secret]78', big: '[secret]' });
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
    log.info('x', { key: new Secret('never-told-to-the-log') });
    expect(last()['key']).toBe('[secret]');
  });

  it('shows no half of a secret where a text is cut', () => {
    const key = 'k'.repeat(5) + 'e'.repeat(200) + 'y'.repeat(5);
    for (const length of [4_000, 4_090, 65_400, 65_500, 65_536]) {
      const { log, lines } = useLog({ secrets: [key] });
      log.info('x', { text: 'x '.repeat(length / 2) + key });
      expect(lines.join('')).not.toContain('kkkkke');
    }
    const { log, lines } = useLog({ secrets: [key] });
    log.info('x', { text: `${key} `.repeat(400) });
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

  it.each('code Code codes purchaseCode purchase_code purchase-codes licence_code'.split(' '))(
    'shows at most a quarter of each text in a field named %s',
    (name) => {
      const { log, last } = useLog();
      log.info('x', {
        [name]: 'SPRING-SALE',
        in: { [name]: ['abcdefgh', 12_345_678, { x: 'hijklmno' }] },
      });
      expect(last()).toMatchObject({ [name]: 'SP…', in: { [name]: ['ab…', '12…', { x: 'hi…' }] } });
    },
  );

  it.each('password apiKey api_key Authorization set-cookie clientSecret token'.split(' '))(
    'hides every text in a field named %s',
    (name) => {
      const { log, last } = useLog();
      log.info('x', { [name]: 'hunter2', in: { [name]: { of: ['hunter2'] } } });
      expect(last()).toMatchObject({ [name]: '[secret]', in: { [name]: { of: ['[secret]'] } } });
    },
  );

  it('shows the code of an error', () => {
    const { log, last } = useLog();
    log.error('x', { error: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
    expect(last()['error']).toEqual({ type: 'Error', message: 'refused', code: 'ECONNREFUSED' });
  });
});
