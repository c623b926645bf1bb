import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { codesMarket, codesOf, folder, printed, settings } from '../cli/support.js';
import { serveProduct } from '../dashboard/served.js';
import { isInstalled } from '../support/installed.js';
import { until } from '../support/until.js';
import { KEY, useMirror } from '../support/mirror.js';

const mirror = useMirror();
const run = promisify(execFile);
const ADDRESS = 'http://127.0.0.1:8792';

/** The first block of code of a page, in this language, that has a text. */
function recipe(page: string, language: string, text = ADDRESS): string {
  const file = readFileSync(new URL(`../../docs/${page}.md`, import.meta.url), 'utf8');
  const blocks = [...file.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))];
  const found = blocks.map(([, block = '']) => block).find((block) => block.includes(text));
  if (found === undefined) throw new Error(`docs/${page}.md has no ${language} with ${text}`);
  return found;
}

interface Desk {
  readonly sim: Awaited<ReturnType<typeof codesMarket>>;
  readonly valid: string;
  readonly item: number;
  readonly denied: string;
  /** A recipe for this listener, or for a port where nobody listens. */
  readonly at: (text: string, place?: 'here' | 'nowhere') => string;
  readonly env: Readonly<Record<string, string>>;
}

/** The product with its API, and a token. */
async function openDesk(scope = 'codes'): Promise<Desk> {
  const sim = await codesMarket(mirror());
  const sellers = [{ name: 'main', url: sim.url, key: KEY }];
  const product = await serveProduct(mirror(), sellers, { API_LISTEN: '127.0.0.1:0' });
  onTestFinished(() => product.stop());
  const env = settings(mirror().databaseUrl, sim.url);
  const token = (await printed(['tokens', 'add', 'desk', '--scope', scope], env)).trim();
  const [, valid = ''] = codesOf(sim, 2);
  const { purchases, catalogue } = sim.seller(KEY);
  return {
    sim,
    valid,
    item: purchases.find(valid, catalogue)?.itemId ?? 0,
    denied: 'nobody-bought-0',
    at: (text, place = 'here') =>
      text.replaceAll(ADDRESS, place === 'here' ? product.apiUrl : 'http://127.0.0.1:9'),
    env: { PATH: process.env['PATH'] ?? '', TOKEN: token },
  };
}

it.skipIf(!isInstalled('curl') || !isInstalled('jq'))(
  'the recipe for cron asks for a sync and prints each change once (needs curl and jq)',
  async () => {
    const { at, env, sim } = await openDesk('manage');
    const script = at(recipe('api', 'sh', 'last-change'), 'here');
    const cron = () => run('sh', ['-euc', script], { env, cwd: folder() });
    expect((await cron()).stdout).toBe('');
    const { catalogue } = sim.seller(KEY);
    const { item } = catalogue.at(0);
    catalogue.change(item.id, { priceRegularCents: 4_711 });
    expect((await cron()).stdout).toMatch(
      new RegExp(`^${item.id},"price_regular",".*","47.11"\n$`),
    );
    expect((await cron()).stdout).toBe('');
    sim.faults.always('any', { kind: 'key-refused' });
    await expect(cron()).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^the marketplace refused the API key.*\ncheck the API key/,
      ) as string,
    });
  },
);

/** WordPress's functions that its recipe calls. */
const WORDPRESS = `
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

async function php(script: string, env: Desk['env']): Promise<string> {
  const child = run('php', ['-d', 'display_errors=stderr', '-d', 'log_errors=0'], { env });
  child.child.stdin?.end(
    `<?php define('SELLER_MIRROR_TOKEN', getenv('TOKEN')); $code = getenv('CODE');\n${script}`,
  );
  return (await child).stdout;
}

/** A recipe, and what it does with a code that is fine, one that is not decided, and one of another item. */
interface Recipe {
  readonly text: string;
  readonly ask: (text: string, env: Desk['env']) => Promise<string>;
  readonly said: Readonly<Record<'fine' | 'undecided' | 'other', RegExp>>;
}

const JAVASCRIPT: Recipe = {
  text: recipe('lookup', 'js'),
  ask: async (text, env) => {
    const script = `const code = process.env.CODE;
      ${text}
      console.log(isFine ? 'fine' : isUndecided ? 'undecided' : 'refused');`;
    const args = ['--input-type=module', '--eval', script];
    return (await run(process.execPath, args, { env })).stdout;
  },
  said: { fine: /^fine$/m, undecided: /^undecided$/m, other: /^refused$/m },
};

const PHP: readonly Recipe[] = [
  {
    text: recipe('lookup', 'php'),
    ask: (text, env) => php(WORDPRESS + text, env),
    said: { fine: /^$/, undecided: /^$/, other: /^This code is valid, but for / },
  },
  {
    text: recipe('help-desks', 'php'),
    ask: (text, env) =>
      php(
        `${text}\necho check_purchase_code(find_purchase_code("My code:<br>$code, thanks") ?? $code)['verdict'];`,
        env,
      ),
    said: { fine: /^valid$/, undecided: /^(?:pending|unproven)$/, other: /^valid$/ },
  },
];

/** Tries a recipe with each kind of code. */
async function tries({ ask, text, said }: Recipe, desk: Desk): Promise<void> {
  const { at, env, item, valid, denied } = desk;
  const answer = (code: string, more = {}, id = item, place: 'here' | 'nowhere' = 'here') =>
    ask(at(text, place).replace('4701', String(id)), { ...env, CODE: code, ...more });
  // On a busy machine, the first answer may be `pending`.
  await until(async () => said.fine.test(await answer(valid)));
  expect(await answer(valid, {}, item + 1)).toMatch(said.other);
  expect(await answer(denied)).toMatch(said.undecided);
  expect(await answer(valid, {}, item, 'nowhere')).toMatch(said.undecided);
  await expect(answer(valid, { TOKEN: 'smt_wrong' })).rejects.toMatchObject({
    stderr: expect.stringContaining('the token is missing, wrong or revoked') as string,
  });
}

const ACCEPTS =
  'accepts what is fine or undecided, and shows a wrong token at once, which would accept every code';

it(`the recipe for JavaScript ${ACCEPTS}, and that for curl prints the verdict`, async () => {
  const desk = await openDesk();
  await tries(JAVASCRIPT, desk);
  if (!isInstalled('curl')) return;
  const { at, env, valid, item } = desk;
  const script = at(recipe('lookup', 'sh')).replace('"CODE"', `"${valid}"`);
  const { stdout } = await run('sh', ['-euc', script.replace('4701', String(item))], { env });
  expect(JSON.parse(stdout)).toMatchObject({ verdict: 'valid', item_matches: true });
});

it.skipIf(!isInstalled('php'))(`each recipe for PHP ${ACCEPTS} (needs php)`, async () => {
  const desk = await openDesk();
  for (const recipe of PHP) await tries(recipe, desk);
  for (const part of ['php freescout', 'php osticket']) {
    await php(`if (false) { ${recipe('help-desks', part, '')} }`, desk.env);
  }
});

it('Airflow and n8n ask for addresses and members that the API has', async () => {
  const { at } = await openDesk('manage');
  const document = JSON.stringify(await (await fetch(at(`${ADDRESS}/openapi.json`))).json());
  const page = readFileSync(new URL('../../docs/api.md', import.meta.url), 'utf8');
  const paths = [...page.matchAll(/v1\/(?:sellers\/main\/sync|runs\/\{\{|changes|status)/g)];
  expect(paths.length).toBeGreaterThan(5);
  for (const [path] of paths) {
    expect(document).toContain(path.replace('main', '{seller}').replace('{{', '{run}'));
  }
  for (const [, member = ''] of page.matchAll(/(?:\$json\.|json\(\)\[")(\w+)/g)) {
    expect(document).toContain(`"${member}"`);
  }
});
