import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { Secret } from '../../src/domain/secret.js';

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
