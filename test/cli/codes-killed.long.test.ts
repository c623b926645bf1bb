import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { openOddMarket } from '../codes/odd-market.js';
import { useMirror } from '../support/mirror.js';
import { cellsOf, fileWith, freePath, run, settings, start } from './support.js';

const mirror = useMirror();

const hex = (n: number): string => n.toString(16).padStart(4, '0').repeat(8);

it('a check that is killed at any call goes on with the right verdicts, and asks little again', async () => {
  const [good, bad] = [
    Array.from({ length: 8 }, (_, n) => hex(n + 1)),
    [hex(101), hex(102), hex(103)],
  ];
  const list = fileWith(['code', ...good, ...bad].join('\n'));
  // Once without a kill, to know how many calls there are.
  let calls = 0;
  let onCall: (() => void) | null = null;
  const market = await openOddMarket(
    (code) => {
      calls++;
      onCall?.();
      return good.includes(code) ? { purchaseOf: code } : 'denied';
    },
    () => {
      calls++;
      onCall?.();
      return true;
    },
  );
  const env = settings(mirror().databaseUrl, market.url.href, {});
  await run(['codes', 'check', list, '--yes'], env);
  const usual = calls;
  for (let killAt = 1; killAt < usual; killAt += 2) {
    await mirror().rows(
      'DELETE FROM mirror.code_checks; DELETE FROM mirror.code_transitions; DELETE FROM mirror.purchase_codes; DELETE FROM mirror.audit_codes; DELETE FROM mirror.audit_entries; DELETE FROM mirror.audits',
    );
    calls = 0;
    const check = start(['codes', 'check', list, '--yes'], env);
    onCall = () => {
      if (calls === killAt) check.process.kill('SIGKILL');
    };
    await check.ended;
    onCall = null;
    const [audit] = await mirror().rows<{ id: string }>('SELECT audit_id AS id FROM mirror.audits');
    // Killed before the list was entered: there is nothing to go on with.
    if (audit === undefined) continue;
    const out = freePath('csv');
    const { code, stderr } = await run(['audits', 'resume', audit.id, '--out', out], env);
    expect(code, `killed at call ${killAt}: ${stderr}`).toBe(0);
    const [header = [], ...rows] = cellsOf(readFileSync(out, 'utf8'));
    const at = header.indexOf('verdict');
    const expected = [...good.map((one) => [one, 'valid']), ...bad.map((one) => [one, 'invalid'])];
    expect(
      rows.map((row) => [row[0], row[at]]),
      `killed at call ${killAt}`,
    ).toEqual(expected);
    expect(calls, `killed at call ${killAt}`).toBeLessThanOrEqual(2 * usual);
  }
});
