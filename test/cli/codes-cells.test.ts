import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { codesMarket, codesOf, fileWith, freePath, run, settings } from './support.js';

const mirror = useMirror();

/** Checks a list. @returns the verdict and the reason of each line */
async function resultOf(env: Record<string, string>, lines: readonly string[]) {
  const out = freePath('json');
  const args = ['codes', 'check', fileWith(lines.join('\n')), '--out', out, '--yes'];
  const { code, stderr } = await run(args, env);
  expect(code, stderr).toBe(0);
  const rows = JSON.parse(readFileSync(out, 'utf8')) as Record<'verdict' | 'reason', string>[];
  return rows.map(({ verdict, reason }) => [verdict, reason]);
}

it('a valid code is valid, however a cell dresses it, also in the first line', async () => {
  const sim = await codesMarket(mirror());
  const env = settings(mirror().databaseUrl, sim.url);
  const codes = codesOf(sim, 12).slice(1);
  const wide = (code: string): string =>
    code.replaceAll(/[\w-]/g, (one) => String.fromCharCode(one.charCodeAt(0) + 0xfee0));
  const at = (code: string, blank: string): string => code.slice(0, 10) + blank + code.slice(10);
  const dresses: readonly ((code: string) => string)[] = [
    wide,
    (code) => `my code ${code}`,
    (code) => `Purchase code: ${code}`,
    (code) => `#${code}`,
    (code) => at(code, ' '),
    (code) => at(code, '\u00A0'),
    (code) => at(code, '\u200B'),
    (code) => `Code: ${at(code, ' ')} (Regular)`,
    (code) => `${code};`,
  ];
  const lines = dresses.map((dress, n) => dress(codes[n] ?? ''));
  const result = await resultOf(env, lines);
  expect(result).toEqual(lines.map((_, n) => ['valid', `valid as ${codes[n]}`]));
});

it('a cell with two codes is judged by neither, and a note is no code, but is asked about', async () => {
  const sim = await codesMarket(mirror());
  const env = settings(mirror().databaseUrl, sim.url);
  const [, good = '', other = ''] = codesOf(sim, 3);
  const several = [
    `"FAKE-0000-1111-2222, ${good}"`,
    `dead0001beef ${good}`,
    `${good} / ${other}`,
    `${good}|${other}`,
    `"${good}\n${other}"`,
  ];
  const notes = ['n/a', '-', 'TBD', 'refunded', 'see e-mail'];
  const lines = ['code,name', ...[...several, ...notes, good].map((cell) => `${cell},x`)];
  const result = await resultOf(env, lines);
  expect(result).toEqual([
    ...several.map(() => ['rejected', 'holds 2 codes: give each its own line']),
    ...notes.map(() => ['invalid', 'does not look like a code']),
    ['valid', 'the marketplace answered with the purchase'],
  ]);
});
