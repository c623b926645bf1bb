import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { codesMarket, codesOf, printed, settings } from '../cli/support.js';
import { serveProduct } from '../dashboard/served.js';
import { isInstalled } from '../support/installed.js';
import { KEY, useMirror } from '../support/mirror.js';

const mirror = useMirror();
const run = promisify(execFile);
const page = readFileSync(new URL('../../docs/lookup.md', import.meta.url), 'utf8');
const ADDRESS = 'http://127.0.0.1:8792';

/** The first block of code in this language that sends a request. */
function recipe(language: string): string {
  const blocks = page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'));
  const found = [...blocks].find(([, text]) => text?.includes(`${ADDRESS}/v1/codes/check`));
  return found?.[1] ?? '';
}

interface Desk {
  readonly valid: string;
  readonly item: number;
  readonly denied: string;
  /** A recipe for this listener, or for a port where nobody listens. */
  readonly at: (text: string, place?: 'here' | 'nowhere') => string;
  readonly env: Readonly<Record<string, string>>;
}

/** The product with its API, and a token. */
async function openDesk(): Promise<Desk> {
  const sim = await codesMarket(mirror());
  const sellers = [{ name: 'main', url: sim.url, key: KEY }];
  const product = await serveProduct(mirror(), sellers, { API_LISTEN: '127.0.0.1:0' });
  onTestFinished(() => product.stop());
  const env = settings(mirror().databaseUrl, sim.url);
  const token = (await printed(['tokens', 'add', 'desk'], env)).trim();
  const [, valid = ''] = codesOf(sim, 2);
  const { purchases, catalogue } = sim.seller(KEY);
  return {
    valid,
    item: purchases.find(valid, catalogue)?.itemId ?? 0,
    denied: 'nobody-bought-0',
    at: (text, place = 'here') =>
      text.replaceAll(ADDRESS, place === 'here' ? product.apiUrl : 'http://127.0.0.1:9'),
    env: { PATH: process.env['PATH'] ?? '', TOKEN: token },
  };
}

const hasCurl = spawnSync('curl', ['--version']).status === 0;

describe.skipIf(!hasCurl)('the recipe for curl (needs curl)', () => {
  it('prints the verdict', async () => {
    const { at, env, valid, item } = await openDesk();
    const script = at(recipe('sh')).replace('"CODE"', `"${valid}"`).replace('4701', String(item));
    const { stdout } = await run('sh', ['-euc', script], { env });
    expect(JSON.parse(stdout)).toMatchObject({ verdict: 'valid', item_matches: true });
  });
});

describe('the listener', () => {
  it('reads a body that is sent in chunks, as proxies do, and refuses one that becomes too large', async () => {
    const { at, env, valid } = await openDesk();
    const send = async (...chunks: string[]): Promise<Response> => {
      const body = ReadableStream.from(chunks.map((chunk) => Buffer.from(chunk)));
      const headers = { authorization: `Bearer ${env['TOKEN']}` };
      const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit;
      return fetch(at(`${ADDRESS}/v1/codes/check`), init);
    };
    const answered = await send('{"code": "', valid, '"}');
    expect([answered.status, await answered.json()]).toMatchObject([200, { verdict: 'valid' }]);
    const refused = await send('{"code": "', 'x'.repeat(3_000), 'y'.repeat(3_000), '"}');
    expect(refused.status).toBe(413);
  });
});

describe('the recipe for JavaScript', () => {
  const ask = async ({ env, item }: Desk, text: string, code: string): Promise<object> => {
    const script = `const code = process.env.CODE;
      ${text.replace('4701', String(item))}
      console.log(JSON.stringify({ verdict: answer.verdict, isFine, isUndecided }));`;
    const args = ['--input-type=module', '--eval', script];
    const { stdout } = await run(process.execPath, args, { env: { ...env, CODE: code } });
    return JSON.parse(stdout) as object;
  };

  it('tells fine codes from undecided ones', async () => {
    const desk = await openDesk();
    const text = desk.at(recipe('js'));
    expect(await ask(desk, text, desk.valid)).toEqual({
      verdict: 'valid',
      isFine: true,
      isUndecided: false,
    });
    expect(await ask({ ...desk, item: desk.item + 1 }, text, desk.valid)).toMatchObject({
      verdict: 'valid',
      isFine: false,
    });
    expect(await ask(desk, text, desk.denied)).toEqual({
      verdict: 'pending',
      isFine: false,
      isUndecided: true,
    });
  });

  it('is undecided with a wrong token, and while nobody listens: the customer is not turned away', async () => {
    const desk = await openDesk();
    const undecided = { verdict: 'unproven', isFine: false, isUndecided: true };
    const wrong = { ...desk, env: { ...desk.env, TOKEN: 'smt_wrong' } };
    expect(await ask(wrong, desk.at(recipe('js')), desk.valid)).toEqual(undecided);
    expect(await ask(desk, desk.at(recipe('js'), 'nowhere'), desk.valid)).toEqual(undecided);
  });
});

const hasPhp = isInstalled('php');

/** WordPress's functions that the recipe calls. */
const WORDPRESS = `<?php
define('SELLER_MIRROR_TOKEN', getenv('TOKEN'));
$code = getenv('CODE');
function wp_json_encode($value) { return json_encode($value); }
function esc_html($text) { return htmlspecialchars($text, ENT_QUOTES); }
function is_wp_error($value) { return $value === null; }
function wp_remote_retrieve_response_code($response) { return $response['status']; }
function wp_remote_retrieve_body($response) { return $response['body']; }
function wp_remote_post($url, $args) {
  $headers = '';
  foreach ($args['headers'] as $name => $value) $headers .= "$name: $value\\r\\n";
  $http = ['method' => 'POST', 'header' => $headers, 'content' => $args['body'],
           'timeout' => $args['timeout'], 'ignore_errors' => true];
  $body = @file_get_contents($url, false, stream_context_create(['http' => $http]));
  if ($body === false) return null;
  return ['status' => (int) explode(' ', $http_response_header[0])[1], 'body' => $body];
}
`;

describe.skipIf(!hasPhp)('the recipe for PHP (needs php)', () => {
  const ask = async ({ env, item }: Desk, text: string, code: string): Promise<string> => {
    const script = `${WORDPRESS}${text.replace('4701', String(item))}`;
    const child = run('php', ['-d', 'display_errors=stderr'], { env: { ...env, CODE: code } });
    child.child.stdin?.end(script);
    const { stdout, stderr } = await child;
    expect(stderr).toBe('');
    return stdout;
  };

  it('says nothing about a good code and an undecided one, and why another item’s code is refused', async () => {
    const desk = await openDesk();
    const text = desk.at(recipe('php'));
    expect(await ask(desk, text, desk.valid)).toBe('');
    expect(await ask(desk, text, desk.denied)).toBe('');
    const other = await ask({ ...desk, item: desk.item + 1 }, text, desk.valid);
    expect(other).toMatch(/^This code is valid, but for /);
  });

  it('accepts the ticket with a wrong token, and while nobody listens', async () => {
    const desk = await openDesk();
    const wrong = { ...desk, env: { ...desk.env, TOKEN: 'smt_wrong' } };
    expect(await ask(wrong, desk.at(recipe('php')), desk.valid)).toBe('');
    expect(await ask(desk, desk.at(recipe('php'), 'nowhere'), desk.valid)).toBe('');
  });
});
