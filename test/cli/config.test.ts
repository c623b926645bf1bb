import { expect, it } from 'vitest';

import { run, settings } from './support.js';

it('config shows settings with where they are from, as a table or JSON, and ends with 2 when one is wrong', async () => {
  const env = settings('postgres://a:pa55word@db/x', 'https://market.example');
  const good = await run(['config'], env);
  expect(good.stdout).toMatch(/^MARKETPLACE_API_KEY +set \(secret\) +environment$/m);
  expect(good.stdout).toMatch(/^SYNC_CRON +0 2 \* \* \* +default$/m);
  expect(good.stdout).toMatch(/^Not set: .*REDIS_URL/m);
  expect(good.code).toBe(0);
  const wrong = await run(['config', '--json'], { ...env, SYNC_CRON: 'at night' });
  const report = JSON.parse(wrong.stdout) as Record<string, unknown>;
  expect(report).toMatchObject({
    problems: [expect.stringMatching(/^SYNC_CRON "at night" /)],
    warnings: [],
    sellers: [],
  });
  expect(report['settings']).toContainEqual({
    ...{ name: 'DATABASE_URL', value: null, from: 'environment', is_secret: true },
  });
  expect(wrong.code).toBe(2);
  expect(good.stdout + wrong.stdout).not.toContain('pa55word');
});
