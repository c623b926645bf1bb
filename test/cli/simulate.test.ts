import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { useMirror } from '../support/mirror.js';
import { until } from '../support/until.js';
import { freePath, run, settings, start } from './support.js';

const mirror = useMirror();

interface Introduction {
  readonly url: string;
  readonly sellers: readonly { readonly username: string; readonly key: string; codes: string[] }[];
}

describe('simulate', () => {
  it('runs a marketplace that can be mirrored, logs requests, and exits with 0 on Ctrl-C', async () => {
    const options = '--port 0 --items 7 --sellers 2 --profile field-2 --json';
    const market = start(['simulate', ...options.split(' ')], {});
    await until(() => market.stdout().endsWith('}\n'));
    const { url, sellers } = JSON.parse(market.stdout()) as Introduction;
    expect(sellers.map(({ username }) => username)).toEqual(['ada', 'grace']);
    const [key = '', code = ''] = [sellers[1]?.key, sellers[1]?.codes[0]];

    const env = settings(mirror().databaseUrl, url, { MARKETPLACE_API_KEY: key });
    const synced = await run(['sync'], env);
    expect(synced.stdout).toContain('7 listed: 7 added');
    const body = new URLSearchParams({ api_key: key, purchase_code: code });
    const asked = await fetch(`${url}/api/purchases/validation`, { method: 'POST', body });
    expect(asked.status).toBe(200);

    market.process.kill('SIGINT');
    const ended = await market.ended;
    expect(ended.code).toBe(0);
    const lines = ended.stderr.trimEnd().split('\n');
    expect(lines).toEqual([
      expect.stringMatching(/^\d\d:\d\d:\d\d GET \/api\/account\/details grace 200 /),
      expect.stringMatching(/^\d\d:\d\d:\d\d GET \/api\/items\/all grace 200 /),
      expect.stringMatching(/^\d\d:\d\d:\d\d POST \/api\/purchases\/validation purchase_code=/),
    ]);
    expect(ended.stderr).not.toContain(key);
  });

  it('makes the same keys each time, so that a .env stays valid, and prints a command to paste', async () => {
    const market = start(['simulate', '--port', '0'], {});
    await until(() => market.stdout().includes(' sync\n'));
    market.process.kill('SIGTERM');
    const { code, stdout } = await market.ended;
    expect(code).toBe(0);
    expect(stdout).toContain('5f6c00142a8ca9001bb734daf61fdc066bb776712ce81eddbeae8fa0d69afeba');
    expect(stdout).toMatch(
      /^ {2}MARKETPLACE_URL=http:\/\/127\.0\.0\.1:\d+ MARKETPLACE_API_KEY=5f6c\w+ .* sync$/m,
    );
  });

  it('writes the purchase codes of all sellers into a file, which `codes check` reads', async () => {
    const file = freePath('csv');
    const options = ['--port', '0', '--sellers', '2', '--purchases', '5', '--codes', file];
    const market = start(['simulate', ...options], {});
    await until(() => market.stdout().includes(' sync\n'));
    const [head, ...rows] = readFileSync(file, 'utf8').trimEnd().split('\r\n');
    expect(head).toBe('seller,purchase_code');
    expect(rows.map((row) => row.split(',')[0])).toEqual([
      ...Array<string>(5).fill('ada'),
      ...Array<string>(5).fill('grace'),
    ]);
    const [, shown = ''] = /codes {2}(\w+)/.exec(market.stdout()) ?? [];
    expect(rows[0]).toBe(`ada,${shown}`);
    market.process.kill('SIGINT');
    expect((await market.ended).code).toBe(0);
  });

  it('explains that a port is taken', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    try {
      const { code, stderr } = await run(['simulate', '--port', String(port)], {});
      expect(stderr).toBe(
        `error: 127.0.0.1:${port} is taken by another program\n  → choose another port (--port, 0 picks a free one; --host)\n`,
      );
      expect(code).toBe(1);
    } finally {
      other.close();
    }
  });
});
