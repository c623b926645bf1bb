import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SETTINGS } from '../../src/config/index.js';
import { useFolder } from './folder.js';

const textOf = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

describe('the table of settings', () => {
  const described = Object.entries(SETTINGS).map(([name, { default: usual, description }]) => [
    name,
    usual ?? '',
    description,
  ]);

  it('is what .env.example shows, so that nobody follows an old example', () => {
    const shown = [...textOf('.env.example').matchAll(/^# (.+)\n#([A-Z_]+)=(.*)$/gm)];
    expect(shown.map(([, text, name, value]) => [name, value, text])).toEqual(described);
  });

  it('is the table in docs/settings.md', () => {
    const rows = [
      ...textOf('docs/settings.md').matchAll(/^\| `([A-Z_]+)` *\|([^|]*)\|([^|]*)\|$/gm),
    ];
    const cells = rows.map(([, name, value = '', text]) => [
      name,
      value.trim().replaceAll('`', ''),
      text?.trim(),
    ]);
    expect(cells).toEqual(described);
  });

  const folder = useFolder();
  it('states defaults that mean the same as setting nothing', () => {
    const defaults: NodeJS.ProcessEnv = {};
    for (const [name = '', usual] of described) defaults[name] = usual;
    expect(folder.read(defaults, 'store')).toEqual(folder.read({}, 'store'));
  });
});
