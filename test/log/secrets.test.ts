import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';
import { SPELLINGS } from '../support/echoes.js';
import { useLog } from './support.js';
import { BURIALS, purchaseCode, secretText } from './support.js';

const FORMATS = ['json', 'pretty'] as const;

/** Everything that one line may show, when the text is both in its message and in its fields. */
function linesWith(text: string, bury: (text: string) => unknown, secrets: string[]): string {
  return FORMATS.map((format) => {
    const { log, lines } = useLog({ format, secrets, level: 'debug' });
    log.child({ buried: bury(text) }).info('a message', { also: bury(text) });
    log.error(`went wrong: ${String(bury(text))}`);
    return lines.join('');
  }).join('');
}

/** Also as whoever reads JSON gets it. */
function shown(lines: string): string {
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

describe.each(Object.entries(BURIALS))('in %s', (_, bury) => {
  it('no key survives, in no spelling', () => {
    fc.assert(
      fc.property(secretText, (key) => {
        const line = shown(linesWith(key, bury, [key]));
        const base64 = Buffer.from(`me:${key}`).toString('base64').slice(4, -4);
        const spelled = Object.values(SPELLINGS).map((spell) => spell(key));
        for (const spelling of [...spelled, base64]) expect(line).not.toContain(spelling);
      }),
      { numRuns: 15 },
    );
  });

  it('no purchase code survives, even though nobody knows which there are', () => {
    fc.assert(
      fc.property(purchaseCode, (code) => {
        // Base64 hides its look; who writes headers into a log has keys to hide, which are known.
        if (String(bury('x')).startsWith('Basic ')) return;
        expect(shown(linesWith(code, bury, []))).not.toContain(code.slice(5));
      }),
      { numRuns: 15 },
    );
  });
});

describe('masking', () => {
  it('leaves a line readable, with the secret’s place marked', () => {
    const { log, last } = useLog({ secrets: ['key-0123456789'] });
    log.info('asked with key-0123456789', { header: 'X-Key: key-0123456789' });
    expect(last()).toMatchObject({ msg: 'asked with [secret]', header: 'X-Key: [secret]' });
  });

  it('finds a key of digits in numbers too, and the line is JSON still', () => {
    const { log, last } = useLog({ secrets: ['123456'] });
    log.info('done', { durationMs: 12_345_678, big: 123_456n });
    expect(last()).toMatchObject({ durationMs: '[secret]78', big: '[secret]' });
  });

  it('does not touch level and time, or a password like "info" would make lines unreadable', () => {
    const { log, last } = useLog({ secrets: ['info', 'level', 'time'] });
    log.info('info');
    expect(last()).toMatchObject({
      level: 'info',
      time: expect.any(String) as string,
      msg: '[secret]',
    });
  });

  it('hides secrets that mask themselves, whether or not the log knows them', () => {
    const { log, last } = useLog();
    log.info('x', { key: new Secret('never-told-to-the-log') });
    expect(last()['key']).toBe('[secret]');
  });

  it('cuts no secret in half where it cuts a text', () => {
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

  it('hides logins in addresses that it was never told of', () => {
    const { log, last } = useLog();
    log.warn('lost redis://me:hunter2@cache:6379', { to: 'postgresql://me:hunter2@db/mirror' });
    expect(last()).toMatchObject({
      msg: 'lost redis://…@cache:6379',
      to: 'postgresql://…@db/mirror',
    });
  });

  it.each('code Code codes purchaseCode purchase_code purchase-codes licence_code'.split(' '))(
    'shows a quarter at most of what is in a field named %s, whatever it looks like',
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
    'shows nothing of what is in a field named %s',
    (name) => {
      const { log, last } = useLog();
      log.info('x', { [name]: 'hunter2', in: { [name]: { of: ['hunter2'] } } });
      expect(last()).toMatchObject({ [name]: '[secret]', in: { [name]: { of: ['[secret]'] } } });
    },
  );

  it('keeps the code of an error, which a programmer named', () => {
    const { log, last } = useLog();
    log.error('x', { error: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
    expect(last()['error']).toEqual({ type: 'Error', message: 'refused', code: 'ECONNREFUSED' });
  });
});
