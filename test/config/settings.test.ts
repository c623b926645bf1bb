import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { defaultOf, type SettingName, SETTINGS } from '../../src/config/index.js';
import { KEY } from '../support/mirror.js';
import { ONE_SELLER, useFolder } from './folder.js';

const textOf = (path: string): string =>
  readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

describe('the table of settings', () => {
  const described = Object.entries(SETTINGS).map(([name, { description }]) => [
    name,
    defaultOf(name as SettingName) ?? '',
    description,
  ]);

  it('matches .env.example', () => {
    const shown = [...textOf('.env.example').matchAll(/^# (.+)\n#([A-Z_]+)=(.*)$/gm)];
    expect(shown.map(([, text, name, value]) => [name, value, text])).toEqual(described);
  });

  it('matches docs/settings.md', () => {
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
  it('has defaults that mean the same as not setting anything', () => {
    const defaults: NodeJS.ProcessEnv = {};
    for (const [name = '', value] of described) defaults[name] = value;
    expect(folder.read(defaults, 'store')).toEqual(folder.read({}, 'store'));
  });
});

const folder = useFolder();

/** `value from source`, by name. */
function shown(
  settings: readonly { name: string; value: string | null; from: string | null }[],
): Record<string, string> {
  return Object.fromEntries(
    settings.map(({ name, value, from }) => [name, `${value} from ${from}`]),
  );
}

describe('the report on settings', () => {
  it('has every setting with its value and source, and no secret', () => {
    folder.write(
      '.env',
      'SYNC_CRON=0 3 * * *\nTZ=UTC\nREDIS_URL=redis://:pw@cache\nLOG_LEVEL=debug\n',
    );
    const report = folder.report({ ...ONE_SELLER, LOG_LEVEL: '', DATA_DIR: ' /srv/x ' });
    expect(report.settings.map(({ name }) => name)).toEqual(Object.keys(SETTINGS));
    expect(shown(report.settings)).toMatchObject({
      MARKETPLACE_URL: 'https://market.example from environment',
      MARKETPLACE_API_KEY: 'null from environment',
      SYNC_CRON: '0 3 * * * from .env',
      TZ: 'UTC from .env',
      REDIS_URL: 'null from .env',
      DATA_DIR: '/srv/x from environment',
      REQUESTS_PER_MINUTE: '60 from default',
      ACCOUNT_CRON: 'null from null',
      // The environment takes back what .env says.
      LOG_LEVEL: 'info from default',
    });
    expect(report).toMatchObject({ sellers: [], problems: [] });
    expect(shown(folder.report({}).settings)['TZ']).toMatch(/^UTC from \.env$/);
  });

  it('has the fields of each seller in the sellers file, and the settings for missing fields', () => {
    folder.write('main.key', KEY);
    const url = 'https://market.example';
    const sellers = [
      { name: 'main', url, keyFile: 'main.key', requestsPerMinute: 30, syncCron: 'off' },
      { name: 'second', url, keyEnv: 'SECOND_KEY' },
    ];
    folder.write('sellers.json', JSON.stringify({ sellers }));
    const env = { SELLERS_FILE: 'sellers.json', SECOND_KEY: KEY, REQUESTS_PER_MINUTE: '30' };
    const [main, second] = folder.report(env).sellers;
    expect(shown(main?.settings ?? [])).toMatchObject({
      url: `${url} from sellers file`,
      keyFile: 'main.key from sellers file',
      requestsPerMinute: '30 from sellers file',
      syncCron: 'off from sellers file',
      parameters: 'default from default',
    });
    expect(second?.name).toBe('second');
    expect(shown(second?.settings ?? [])).toMatchObject({
      keyEnv: 'SECOND_KEY from sellers file',
      requestsPerMinute: '30 from environment',
      syncCron: '0 2 * * * from default',
    });
  });

  it('has all problems, and no wrong value, which may be a secret in the wrong place', () => {
    const report = folder.report({
      MARKETPLACE_URL: 'https://me:hunter2pass@market.example',
      REQUESTS_PER_MINUTE: 'many',
      SYNC_CORN: '0 2 * * *',
    });
    expect(report.problems).toHaveLength(3);
    expect(report.warnings).toEqual([expect.stringMatching(/^SYNC_CORN .* SYNC_CRON\?$/)]);
    expect(shown(report.settings)).toMatchObject({
      MARKETPLACE_URL: 'null from environment',
      REQUESTS_PER_MINUTE: 'null from environment',
    });
  });
});
