import { expect, it } from 'vitest';
import { Findings } from '../../src/config/problems.js';

it('what is said of a thousand sellers hides the keys of all of them, in a blink: every command waits for it', () => {
  const findings = new Findings();
  const keys = Array.from({ length: 2_000 }, (_, n) => `key-${n}-${'0123456789abcdef'.repeat(4)}`);
  for (const key of keys) findings.hide(key);
  for (const key of keys)
    findings.warn({ where: `the file ${key}`, what: 'is', remedy: 'mend it' });
  expect(new Set(findings.warnings())).toEqual(new Set(['the file [secret] is: mend it']));
});

it('a secret within another one leaves nothing of it behind', () => {
  const findings = new Findings();
  findings.hide('inner-word');
  findings.hide('outer-inner-word-outer');
  findings.warn({ where: 'X', value: 'outer-inner-word-outer', what: 'is', remedy: 'mend it' });
  expect(findings.warnings()).toEqual(['X "[secret]" is: mend it']);
});
