import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it, onTestFinished } from 'vitest';
import { program } from '../src/cli/program.js';
import { parseRedisUrl } from '../src/domain/redis-target.js';
import {
  accountEndpoint,
  itemEndpoint,
  listEndpoint,
  validationEndpoint,
} from '../src/marketplace/endpoints.js';
import { marketOf, printed, run, start } from './cli/support.js';
import { parseExposition } from './service/exposition.js';
import { readCompose, variablesIn } from './support/compose.js';
import { startServer } from './support/http-server.js';
import { KEY, useMirror } from './support/mirror.js';
import { until } from './support/until.js';

const whole = await program();

const root = new URL('../', import.meta.url);
const textOf = (path: string): string => readFileSync(new URL(path, root), 'utf8');
const PAGES = [
  ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md'],
  ...readdirSync(new URL('docs/', root))
    .filter((page) => page.endsWith('.md'))
    .map((page) => `docs/${page}`),
];
/** All pages but the history of changes, as one text. */
const readme = PAGES.filter((page) => page !== 'CHANGELOG.md')
  .map(textOf)
  .join('\n');

/** The first column of the table whose header begins with this word, without backticks. */
function firstCells(header: string): string[] {
  const lines = readme.split('\n');
  const start = lines.findIndex((line) => new RegExp(`^\\| ${header} +\\|`).test(line));
  const length = lines.slice(start).findIndex((line) => !line.startsWith('|'));
  const cells = lines.slice(start + 2, start + length).map((line) => line.split('|')[1] ?? '');
  return cells.map((cell) => cell.trim().replaceAll('`', ''));
}

/** The blocks of code in a language. */
function blocks(language: string): string[] {
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(
    ([, text]) => text ?? '',
  );
}

describe('the commands in README', () => {
  it('are complete, in the order of --help', () => {
    const shown = whole.createHelp().visibleCommands(whole);
    const names = shown.map((command) => command.name());
    expect(firstCells('Command')).toEqual(names.filter((name) => name !== 'help'));
  });

  it('name every subcommand, so that none is found only by --help', () => {
    const missing = whole.commands.flatMap((group) =>
      group
        .createHelp()
        .visibleCommands(group)
        .flatMap((one) => {
          const use = `${group.name()} ${one.name()}`;
          return one.name() === 'help' || readme.includes(use) ? [] : [use];
        }),
    );
    expect(missing).toEqual([]);
  });

  it('have only existing subcommands and options', () => {
    const starts = String.raw`seller-mirror|main\.js|run --rm worker`;
    // Only code shows commands.
    const code = [...readme.matchAll(/```.*?```|``.+?``|`[^`]+`/gs)]
      .map(([text]) => text)
      .join('\n');
    const uses = [...code.matchAll(new RegExp(`(?:${starts}) ([a-z].*)$`, 'gm'))];
    const seen = uses.flatMap(([use, words = '']) => {
      // Cut at the end of the command, in a shell, a sentence or quotes.
      const [name = '', ...rest] =
        words
          .split(/[`)#>|&"…]| {2}/)[0]
          ?.trim()
          .split(' ') ?? [];
      return /^[a-z]+$/.test(name) ? [{ use, name, rest }] : [];
    });
    expect(seen.length).toBeGreaterThan(8);
    for (const { use, name, rest } of seen) check(use, name, rest);
  });

  function check(use: string, name: string, rest: readonly string[]): void {
    const command = whole.commands.find((one) => one.name() === name);
    if (command === undefined) throw new Error(`no such command: ${use}`);
    const subcommands = command.createHelp().visibleCommands(command);
    // `items --as-of …` uses the group itself.
    if (subcommands.length > 0 && /^[a-z]/.test(rest[0] ?? '')) {
      expect(
        subcommands.map((one) => one.name()),
        use,
      ).toContain(rest[0]);
    }
    const named = command.commands.find((one) => one.name() === rest[0]) ?? command;
    // What follows `--` is no option.
    const given = rest.includes('--') ? rest.slice(0, rest.indexOf('--')) : rest;
    const options = given.filter((word) => word.startsWith('--'));
    expect(optionsOf(named), use).toEqual(expect.arrayContaining(options));
  }

  function optionsOf(command: Command): string[] {
    return command.options.flatMap(({ long }) => long ?? []);
  }

  it('of npm and Compose exist', () => {
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: object };
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name);
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(named));
    const { services } = readCompose(new URL('docker-compose.yml', root));
    const scaled = [...readme.matchAll(/--scale (\w+)=|--follow (.+)$/gm)];
    const wanted = scaled.flatMap(([, one, many]) => one ?? many?.split(' ') ?? []);
    expect(wanted.length).toBeGreaterThan(0);
    expect(Object.keys(services)).toEqual(expect.arrayContaining(wanted));
  });
});

describe('the rules of codes', () => {
  it('are told in docs/audits.md as in the code', () => {
    const sentences = (text: string): string =>
      /A wrong key, an outage and a bad code.*?never become a verdict\./s.exec(
        text
          .replaceAll(/\n \*(?=\s)/g, ' ')
          .replaceAll(/\s+/g, ' ')
          .replaceAll('**', '')
          .replaceAll('’', "'"),
      )?.[0] ?? '';
    const inCode = sentences(textOf('src/codes/rules.ts'));
    expect(inCode).not.toBe('');
    expect(sentences(textOf('docs/audits.md'))).toBe(inCode);
  });
});

describe('docs/marketplace-api.md', () => {
  const page = textOf('docs/marketplace-api.md');

  it('has each section that code cites, as in (API 2.3, 2.4; servers: values)', () => {
    const [contract = '', servers = ''] = page.split('\n## How servers differ\n');
    const numbers = [...contract.matchAll(/^##+ ([\d.]+) /gm)].map(([, number = '']) => number);
    const topics = [...servers.matchAll(/^### (.+)$/gm)].map(([, topic = '']) => topic);
    const list = (names: readonly string[]): string => {
      const one = `(?:${names
        .join('|')
        .replaceAll('.', String.raw`\.`)
        .toLowerCase()})`;
      return `${one}(?:, ${one})*`;
    };
    const [api, differences] = [`API ${list(numbers)}`, `servers: ${list(topics)}`];
    const known = new RegExp(`^\\((?:${api}(?:; ${differences})?|${differences})\\)$`);
    const cited = ['src', 'test', 'bench'].flatMap((folder) =>
      readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
        .filter((path) => /\.tsx?$/.test(path))
        .flatMap((path) => {
          // Citations may continue on the next line of a comment.
          const text = textOf(`${folder}/${path}`).replaceAll(/\n\s*(?:\*|\/\/)?\s*/g, ' ');
          const found = text.matchAll(/\((?:API \d|servers: [a-z])[^)]*\)/g);
          return [...found].map(([citation]) => ({ path: `${folder}/${path}`, citation }));
        }),
    );
    expect(cited.length).toBeGreaterThan(50);
    expect(cited.filter(({ citation }) => !known.test(citation))).toEqual([]);
  });

  it('has the requests that the client sends, and the errors that it knows', () => {
    const endpoints = [accountEndpoint, listEndpoint, itemEndpoint(1), validationEndpoint('1')];
    for (const { method, path, parameters, errorText } of endpoints) {
      const names = ['api_key', ...Object.keys(parameters)];
      const request = page.split('\n').find((line) => line.startsWith(`\`${method} ${path}\` `));
      expect(request?.match(/(?<=`)\w+_\w+(?=`)/g)).toEqual(names);
      expect(page).toContain(`| \`${errorText}\` `);
    }
  });
});

/** A folder that the test works in, removed when it ends. */
function workFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'seller-mirror-readme-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface Report {
  readonly settings: readonly { readonly name: string }[];
  readonly sellers: readonly { readonly seller_id: string }[];
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** What `config` says in a folder. */
async function configIn(cwd: string, env: Readonly<Record<string, string>> = {}): Promise<Report> {
  return JSON.parse((await run(['config', '--json'], env, { cwd })).stdout) as Report;
}

describe('the settings in README', () => {
  it('are set up by steps that never leave a secret readable by others', async () => {
    const cwd = workFolder();
    const [steps = ''] = blocks('sh').filter((text) => text.includes('cp .env.example'));
    const setUp = steps.slice(0, steps.indexOf('npx seller-mirror'));
    // Acts like an editor: keeps the mode of a file, and makes new files readable for all.
    const editor = `nano() {
      for file; do
        case "$file" in
          .env) echo 'MARKETPLACE_URL=https://a.example
MARKETPLACE_API_KEY_FILE=main.key' > .env ;;
          *) echo ${KEY} > "$file" ;;
        esac
        ls -l "$file" | cut -c 1-10
      done
    }`;
    cpSync(new URL('.env.example', root), join(cwd, '.env.example'));
    const script = ['umask 022', editor, setUp].join('\n');
    const modes = execFileSync('bash', ['-ec', script], { cwd, encoding: 'utf8' });
    expect(modes).toBe('-rw-------\n-rw-------\n');
    expect(await configIn(cwd)).toMatchObject({ problems: [], warnings: [] });
    expect(textOf('.env.example')).toContain('chmod 600 .env');
    const ignored = textOf('.gitignore').split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.env', '*.key', 'secrets/']));
  });

  it('exist', async () => {
    const { settings } = await configIn(workFolder());
    const ofCompose = variablesIn(textOf('docker-compose.yml'));
    const ofExamples = [...readme.matchAll(/"keyEnv": "(\w+)"/g)].map(([, name]) => name);
    const known = new Set<string | undefined>([
      ...settings.map(({ name }) => name),
      ...ofCompose,
      ...ofExamples,
      'TEST_DATABASE_URL',
      // A constant of the recipes for PHP, and one of FreeScout and osTicket each.
      ...['SELLER_MIRROR_TOKEN', 'TYPE_NOTE', 'PERSON_CUSTOMER', 'SOURCE_TYPE_WEB'],
      // A table in the sources, for contributors.
      'RESULT_COLUMNS',
      // Used by tests in a browser.
      'CHROMIUM_PATH',
      // Variables of psql, of Prisma, of Node.js and of proxies.
      ...['ON_ERROR_STOP', 'PRISMA_SCHEMA_ENGINE_BINARY', 'NODE_EXTRA_CA_CERTS'],
      ...['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'],
    ]);
    const named = [...readme.matchAll(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g)].map(([name]) => name);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  it('accept its sellers file, and the fields that it names', async () => {
    const cwd = workFolder();
    const [example = ''] = blocks('json').filter((text) => text.includes('"sellers"'));
    const write = (name: string, text: string): void =>
      writeFileSync(join(cwd, name), text, { mode: 0o600 });
    write('main.key', KEY);
    write('sellers.json', example);
    const env = { SELLERS_FILE: 'sellers.json', SECOND_KEY: KEY };
    const { sellers, problems } = await configIn(cwd, env);
    expect([sellers.map(({ seller_id: name }) => name), problems]).toEqual([
      ['main', 'second'],
      [],
    ]);
    const fields = /can also set (`requestsPerMinute.*?)\. /s
      .exec(readme)?.[1]
      ?.match(/(?<=`)\w+(?=`)/g);
    const values: Readonly<Record<string, unknown>> = {
      requestsPerMinute: 30,
      parameters: 'json',
      keyHeader: 'x-api-key',
      listMarks: 'ignore',
      syncCron: '0 3 * * *',
      accountCron: 'off',
      auditCron: '0 4 * * 0',
      timeZone: 'Europe/Berlin',
    };
    expect(fields?.toSorted()).toEqual(Object.keys(values).toSorted());
    const seller = { name: 'main', url: 'https://market.example', keyFile: 'main.key', ...values };
    write('sellers.json', JSON.stringify({ sellers: [seller] }));
    expect((await configIn(cwd, { SELLERS_FILE: 'sellers.json' })).problems).toEqual([]);
  });

  it('accept its addresses of Redis', () => {
    const shown = [...readme.matchAll(/^(?:redis|valkey)[\w-]*:\/\/\S+/gm)].map(([url]) => url);
    expect(shown.map((url) => parseRedisUrl(url))).toMatchObject([
      { database: 0, tls: false },
      { database: 0, tls: true },
    ]);
  });

  it('name all types of alerts', async () => {
    const { problems } = await configIn(workFolder(), { ALERTS_OFF: 'nonsense' });
    expect(problems.join()).toContain(`choose from ${firstCells('Type').join(', ')}`);
  });
});

describe('links', () => {
  /** The anchor of a heading, as GitHub makes it. */
  const anchorOf = (heading: string): string =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');

  it('lead to a page and a heading that exist', () => {
    const broken = PAGES.flatMap((page) =>
      [...textOf(page).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].flatMap(
        ([link, path = '', anchor]) => {
          const target = path === '' ? page : join(dirname(page), path);
          if (!existsSync(new URL(target, root))) return [`${page}: ${link}`];
          if (anchor === undefined) return [];
          const headings = [...textOf(target).matchAll(/^#+ (.+)$/gm)];
          const known = headings.map(([, heading = '']) =>
            anchorOf(heading.replaceAll(/[`*]/g, '')),
          );
          return known.includes(anchor) ? [] : [`${page}: ${link}`];
        },
      ),
    );
    expect(broken).toEqual([]);
  });

  it('in Getting started lead to every page, so that none is found only by search', () => {
    const index = textOf('docs/getting-started.md') + textOf('README.md').replaceAll('docs/', '');
    const missing = PAGES.filter((page) => page.startsWith('docs/'))
      .map((page) => page.slice('docs/'.length))
      .filter((page) => page !== 'getting-started.md' && !index.includes(`](${page}`));
    expect(missing).toEqual([]);
  });
});

describe('a running service', () => {
  const mirror = useMirror();

  it('has the paths, the metrics and the alert that the pages show', async () => {
    const { sim, env } = await marketOf(mirror());
    const cwd = workFolder();
    const feed = { name: 'bi', folder: join(cwd, 'bi'), views: ['items'] };
    writeFileSync(join(cwd, 'feeds.json'), JSON.stringify({ feeds: [feed] }));
    const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;
    const receiver = await startServer({ status: 204 });
    const all = {
      ...env,
      FEEDS_FILE: 'feeds.json',
      ALERT_WEBHOOK_URL: receiver.url.href,
      ALERT_WEBHOOK_SECRET: secret,
      DASHBOARD_LISTEN: 'off',
      HEALTH_LISTEN: '127.0.0.1:0',
      LOG_FORMAT: 'json',
      CATCH_UP: 'false',
    };
    const service = start(['run'], all, cwd);
    const logged = (): string => service.stdout() + service.stderr();
    await until(() => /"health":"http/.test(logged()));
    const [, health = ''] = /"health":"(http[^"]+)"/.exec(logged()) ?? [];
    const index = await (await fetch(health)).text();
    expect(firstCells('Path')).toEqual([...index.matchAll(/^\/\w+/gm)].map(([path]) => path));
    for (const path of firstCells('Path')) expect((await fetch(health + path)).status).toBe(200);

    sim.faults.always('any', { kind: 'key-refused' });
    await printed(['sync', '--queue'], env);
    interface Message {
      readonly type: string;
      readonly data: Readonly<Record<string, unknown>>;
    }
    const messages = (): Message[] =>
      receiver.requests.map(
        ({ body, headers }) => new Verifier(secret).verify(body, headers) as Message,
      );
    const [shown = ''] = blocks('json').filter((text) => text.includes('"timestamp"'));
    const example = JSON.parse(shown) as Message;
    await until(() => messages().some(({ type }) => type === example.type));
    const real = messages().find(({ type }) => type === example.type);
    const shape = (message: Message | undefined): unknown => {
      const { data = {}, ...rest } = message ?? {};
      return { keys: Object.keys(rest), data: Object.keys(data), problem: data['problem'] };
    };
    expect(shape(example)).toEqual(shape(real));

    let samples: ReturnType<typeof parseExposition> = [];
    await until(async () => {
      samples = parseExposition(await (await fetch(`${health}/metrics`)).text());
      return samples.some(({ labels }) => labels['kind'] === 'stopped');
    });
    const asked = [...readme.matchAll(/\b(seller_mirror_\w+)(?:\{([^}]*)\})?/g)];
    expect(asked.length).toBeGreaterThan(3);
    for (const [selector, name, labels = ''] of asked) {
      const series = samples.filter((sample) => sample.name === name);
      expect(series.length, selector).toBeGreaterThan(0);
      for (const [, label = '', value = ''] of labels.matchAll(/(\w+)=~?"([^"]*)"/g)) {
        const values = series.map((sample) => sample.labels[label] ?? '');
        expect(
          value.split('|').filter((one) => values.includes(one)),
          selector,
        ).not.toEqual([]);
      }
    }
  });
});
