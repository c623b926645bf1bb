import { inspect } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { redact, Secret } from '../../src/domain/secret.js';

it('a secret shows a mask wherever a value may be printed', () => {
  const secret = new Secret('hunter2hunter2');
  for (const text of [
    String(secret),
    JSON.stringify({ secret }),
    inspect({ secret }, { depth: 9, showHidden: true }),
    'text: ' + String(secret),
  ]) {
    expect(text).not.toContain('hunter2');
    expect(text).toContain('[secret]');
  }
});

it('redaction finds the secret in every spelling in which it may come back', () => {
  fc.assert(
    fc.property(
      fc
        .string({ minLength: 8, unit: 'grapheme' })
        .filter((s) => s.isWellFormed() && s.trim() === s),
      (text) => {
        const secret = new Secret(text);
        const json = JSON.stringify(text).slice(1, -1);
        const spelled = `a ${text} b ${encodeURIComponent(text)} c ${json} d`;
        const clean = redact(spelled, [secret]);
        for (const spelling of [text, encodeURIComponent(text), json]) {
          // A key made of the mask's own letters can't be told from the mask.
          if (!'a [secret] b [secret] c [secret] d'.includes(spelling))
            expect(clean).not.toContain(spelling);
        }
      },
    ),
  );
});
