import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SETTINGS } from '../../src/config/index.js';
import { useFolder } from './folder.js';

const root = new URL('../../', import.meta.url);

describe('the table of settings', () => {
  it('is what .env.example shows, so that nobody follows an old example', () => {
    const text = readFileSync(new URL('.env.example', root), 'utf8');
    const shown = [...text.matchAll(/^# (.+)\n#([A-Z_]+)=(.*)$/gm)].map((match) => match.slice(1));
    expect(shown).toEqual(
      SETTINGS.map(({ name, description, default: value }) => [description, name, value ?? '']),
    );
  });

  const readme = new URL('README.md', root);
  it('is the table in README.md', () => {
    const rows = [
      ...readFileSync(readme, 'utf8').matchAll(/^\| `([A-Z_]+)` *\|([^|]*)\|([^|]*)\|$/gm),
    ];
    expect(rows.map(([, name, value, text]) => [name, value?.trim(), text?.trim()])).toEqual(
      SETTINGS.map((setting) => [
        setting.name,
        setting.default === null ? '' : `\`${setting.default}\``,
        setting.description,
      ]),
    );
  });

  const folder = useFolder();
  it('states defaults that mean the same as setting nothing', () => {
    const defaults = Object.fromEntries(
      SETTINGS.flatMap((setting) =>
        setting.default === null ? [] : [[setting.name, setting.default]],
      ),
    );
    expect(folder.read(defaults, 'store')).toEqual(folder.read({}, 'store'));
  });
});
