import { inspect } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, SETTINGS, type Config } from '../../src/config/index.js';
import { useFolder } from './folder.js';

const folder = useFolder();

/** Keys of any text, long enough not to appear by chance. */
const secret = fc
  .string({ unit: 'grapheme', minLength: 10, maxLength: 80 })
  .map((text) => text.trim())
  .filter((text) => text.length >= 10);

const wrongOrRight = fc.constantFrom(
  '',
  'nonsense',
  '7',
  'https://a.example',
  'http://a.example',
  'x y',
);
const otherNames = Object.keys(SETTINGS).filter(
  (name) => !name.includes('KEY') && !name.includes('_URL_FILE') && name !== 'DATABASE_URL',
);
const otherSettings = fc.dictionary(fc.constantFrom(...otherNames), wrongOrRight);

/** Each run reads all settings twice for each address. */
const RUNS = { numRuns: 12 };

/** Every text that a person may see. */
function allOutput(env: NodeJS.ProcessEnv): string {
  return `${JSON.stringify(folder.report(env))}\n${configOutput(env)}`;
}

function configOutput(env: NodeJS.ProcessEnv): string {
  try {
    const config: Config = folder.read(env);
    return [
      inspect(config, { depth: 9, showHidden: true }),
      JSON.stringify(config),
      String(config.databaseUrl),
      ...config.warnings,
      ...config.exposedSecrets,
    ].join('\n');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const texts = [inspect(error, { depth: 9 }), error.message, JSON.stringify(error)];
    return [...texts, ...error.problems].join('\n');
  }
}

function expectHidden(shown: string, text: string): void {
  expect(shown).not.toContain(text);
  expect(shown).not.toContain(JSON.stringify(text).slice(1, -1));
}

describe('no output shows', () => {
  type Give = (text: string, written: string) => readonly NodeJS.ProcessEnv[];
  const webhook = (url: string, token: string, name: string): NodeJS.ProcessEnv => ({
    ALERT_WEBHOOK_URL: url,
    ALERT_WEBHOOK_SECRET: `whsec_${token}`,
    SELLER_NAME: name,
  });

  // Some are also pasted into another setting.
  it.each<[what: string, give: Give]>([
    ['the key from the environment', (text) => [{ MARKETPLACE_API_KEY: text }]],
    [
      'the key from a file',
      (text) => {
        folder.write('key', `${text}\n`);
        return [{ MARKETPLACE_API_KEY_FILE: 'key' }];
      },
    ],
    [
      'the database’s password, even in an address that can’t be read',
      (text, written) => [
        { DATABASE_URL: `postgresql://me:${text}@db/mirror`, SELLER_NAME: text },
        { DATABASE_URL: `postgres://me:${written}@db/x?application_name=me@here`, TZ: written },
      ],
    ],
    [
      'the passwords of Redis, even in an address that can’t be read',
      (text, written) => [
        ...[text, written].flatMap((password) => [
          { REDIS_URL: `redis://me:${password}@cache`, SELLER_NAME: password },
          { REDIS_URL: `redis://:${password}@a/1`, TZ: password },
        ]),
        { REDIS_URL: `cache/${written}` },
      ],
    ],
    [
      'the webhook’s secret, and its address, any part of which may be a token',
      (text, written) => [
        webhook(`https://hooks.example/services/${written}/x`, text, written),
        webhook(`https://hooks.example/?token=${written}`, text, written),
      ],
    ],
  ])('%s', (_, give) => {
    fc.assert(
      fc.property(secret, otherSettings, (text, others) => {
        const written = encodeURIComponent(text);
        for (const env of give(text, written)) {
          const shown = allOutput({ ...others, ...env });
          expectHidden(shown, text);
          if (env['MARKETPLACE_API_KEY'] === undefined) expectHidden(shown, written);
        }
      }),
      RUNS,
    );
  });

  it('a key that was also pasted into another setting', () => {
    fc.assert(
      fc.property(secret, fc.constantFrom(...otherNames), (key, name) => {
        const shown = allOutput({ [name]: key, MARKETPLACE_API_KEY: key });
        expectHidden(shown.replaceAll(/url: URL \{[^}]*\}/g, ''), key);
      }),
      RUNS,
    );
  });

  it.each([
    ['MARKETPLACE_URL', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b'],
    ['MARKETPLACE_API_KEY_FILE', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b'],
    ['SELLER_NAME', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b9f86d081884c7d659a2feaa0c55ad'],
    ['DATABASE_URL_FILE', 'postgresql://me:hunter2pass@db/mirror'],
    ['MARKETPLACE_URL', 'https://me:hunter2pass@market.example'],
    ['MARKETPLACE_URL', 'https://market.example/?api_key=hunter2pass'],
  ])('something like a key or password in the wrong setting, %s', (name, value) => {
    const shown = allOutput({ MARKETPLACE_URL: 'https://a.example', [name]: value });
    expectHidden(shown, value.includes('hunter2pass') ? 'hunter2pass' : value.slice(0, 20));
  });
});

it('the log gets all secrets, even parts of addresses', () => {
  folder.write('url', 'postgresql://me:in-a-file@db/mirror');
  const { secrets } = folder.read({
    MARKETPLACE_URL: 'https://a.example',
    MARKETPLACE_API_KEY: 'the-api-key',
    DATABASE_URL_FILE: 'url',
    REDIS_URL: 'redis://me:p%20of-redis@cache',
    ALERT_EMAIL: 'me@a.example',
    SMTP_URL: 'smtps://me:of-the-mail@a.example',
    ALERT_WEBHOOK_URL: 'https://hooks.example/a-token',
    ALERT_FORMAT: 'slack',
  });
  const known = secrets.map((one) => one.reveal());
  const wanted = ['the-api-key', 'in-a-file', 'p of-redis', 'of-the-mail', 'a-token'];
  // A short token is only masked as part of its address.
  for (const text of wanted) expect(known.some((one) => one.endsWith(text))).toBe(true);
});
