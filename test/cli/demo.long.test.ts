import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { until } from '../support/until.js';
import { folder, run, start } from './support.js';

it('the demo does the whole job: two mirrors, a list with bad and odd codes, its result, and a feed', async () => {
  const { code, stdout } = await run(['demo'], {}, { spawned: true });
  expect(code).toBe(0);
  expect(stdout).toContain('items: 200 listed: 200 added');
  expect(stdout).toContain('3 prices cut by 20 %');
  expect(stdout).toMatch(
    /11 valid · 3 invalid · 2 no longer valid\n.* 3 lines rejected · 1 line repeated/,
  );
  expect(stdout).toMatch(/no longer valid {2}was valid, bought \d{4}-\d\d-\d\d/);
  expect(stdout).toContain('does not look like a code');
  const result = readFileSync(join(folder(), 'data/demo/customers checked.csv'), 'utf8');
  expect(result.trimEnd().split('\r\n')).toHaveLength(1 + 20);
  const items = readFileSync(join(folder(), 'data/demo/feed/items.ndjson'), 'utf8');
  expect(items.split('\n').length).toBeGreaterThan(200);
}, 300_000);

it('served, it begins with months of nights and purchases, so that every report is full', async () => {
  const served = start(['demo', '--serve'], {});
  await until(() => served.stdout().includes('Ctrl-C ends it'));
  const [link = ''] = /http\S+login\?token=\S+/.exec(served.stdout()) ?? [];
  const login = await fetch(link, { redirect: 'manual' });
  const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
  const page = await fetch(new URL('/reports', link), { headers: { cookie } });
  const text = await page.text();
  expect(text).not.toContain('class="empty"');
  expect(text).toMatch(/purchases, \w+ \d{4} to \w+ \d{4}/);
  served.process.kill('SIGINT');
  expect((await served.ended).code).toBe(0);
}, 600_000);
