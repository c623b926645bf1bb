import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { Webhook as Verifier } from 'standardwebhooks';
import { describe, expect, it, onTestFinished } from 'vitest';
import { program } from '../src/cli/program.js';
import { SETTINGS } from '../src/config/index.js';
import { silentLog } from '../src/domain/log.js';
import { parseRedisUrl } from '../src/domain/redis-target.js';
import { Secret } from '../src/domain/secret.js';
import type { Config } from '../src/config/index.js';
import type { Board } from '../src/service/board.js';
import { NEED_KINDS } from '../src/service/needs.js';
import { alertId, deliverAlert } from '../src/service/alerts/alerts.js';
import { insertAlert } from '../src/service/alerts/alerts-store.js';
import { alertKind } from '../src/service/alerts/content.js';
import type { Alert } from '../src/catalogue/types.js';
import { performMirrorTask } from '../src/catalogue/mirror-task.js';
import {
  accountEndpoint,
  itemEndpoint,
  listEndpoint,
  validationEndpoint,
} from '../src/marketplace/endpoints.js';
import { seededCatalogue } from '../src/simulator/index.js';
import { createMetrics } from '../src/service/metrics.js';
import { startHealthServer } from '../src/service/health.js';
import { createWebhook } from '../src/service/alerts/webhook.js';
import { folder as folderOnDisk, run } from './cli/support.js';
import { useFolder } from './config/folder.js';
import { readCompose, variablesIn } from './support/compose.js';
import { startServer } from './support/http-server.js';
import { KEY, never, useMirror } from './support/mirror.js';
import { enterAudit } from '../src/codes/enter-store.js';
import { requestFeedViews, markFeedStale } from '../src/reporting/feeds-store.js';
import { parseExposition } from './service/exposition.js';

const whole = await program();

const root = new URL('../', import.meta.url);
const textOf = (path: string): string => readFileSync(new URL(path, root), 'utf8');
/** README, CONTRIBUTING and all pages of docs, as one text. */
const readme = [
  ...['README.md', 'CONTRIBUTING.md'],
  ...readdirSync(new URL('docs/', root)).map((page) => `docs/${page}`),
]
  .filter((path) => path.endsWith('.md'))
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

describe('the settings in README', () => {
  const folder = useFolder();

  it('are set up by steps that never leave a secret readable by others', async () => {
    const [steps = ''] = blocks('sh').filter((text) => text.includes('cp .env.example'));
    const setUp = steps.slice(0, steps.indexOf('npx seller-mirror'));
    // Acts like an editor: keeps the mode of a file, and makes new files readable for all.
    const editor = `nano() {
      for file; do
        case "$file" in
          .env) echo 'MARKETPLACE_URL=https://a.example
MARKETPLACE_API_KEY_FILE=main.key
SECOND_KEY=${KEY}' > .env ;;
          *) echo ${KEY} > "$file" ;;
        esac
        ls -l "$file" | cut -c 1-10
      done
    }`;
    const cwd = folderOnDisk();
    cpSync(new URL('.env.example', root), join(cwd, '.env.example'));
    const script = ['umask 022', editor, setUp].join('\n');
    const options = { cwd, encoding: 'utf8' } as const;
    const modes = execFileSync('bash', ['-ec', script], options);
    expect(modes).toBe('-rw-------\n-rw-------\n');
    const { code, stdout } = await run(['config', '--json'], {}, { cwd });
    expect(JSON.parse(stdout)).toMatchObject({ problems: [], warnings: [] });
    expect(code).toBe(0);
    expect(textOf('.env.example')).toContain('chmod 600 .env');
    const ignored = textOf('.gitignore').split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.env', '*.key', 'secrets/']));
  });

  it('exist', () => {
    const ofCompose = variablesIn(textOf('docker-compose.yml'));
    const ofExamples = [...readme.matchAll(/"keyEnv": "(\w+)"/g)].map(([, name]) => name);
    const known = new Set<string | undefined>([
      ...Object.keys(SETTINGS),
      ...ofCompose,
      ...ofExamples,
      'TEST_DATABASE_URL',
      // A constant of the recipe for WordPress.
      'SELLER_MIRROR_TOKEN',
      // Used by tests in a browser.
      'CHROMIUM_PATH',
      // Variables of psql, of Prisma, of Node.js and of proxies.
      ...['ON_ERROR_STOP', 'PRISMA_SCHEMA_ENGINE_BINARY', 'NODE_EXTRA_CA_CERTS'],
      ...['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'],
    ]);
    const named = [...readme.matchAll(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g)].map(([name]) => name);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
  });

  it('accept its sellers file, and the fields that it names', () => {
    const [example = ''] = blocks('json').filter((text) => text.includes('"sellers"'));
    folder.write('main.key', KEY);
    folder.write('sellers.json', example);
    const env = { SELLERS_FILE: 'sellers.json', SECOND_KEY: KEY };
    expect(folder.read(env).sellers.map(({ name }) => name)).toEqual(['main', 'second']);
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
    folder.write('sellers.json', JSON.stringify({ sellers: [seller] }));
    expect(folder.problems({ SELLERS_FILE: 'sellers.json' })).toEqual([]);
  });

  it('accept its addresses of Redis', () => {
    const shown = [...readme.matchAll(/^(?:redis|valkey)[\w-]*:\/\/\S+/gm)].map(([url]) => url);
    expect(shown.map((url) => parseRedisUrl(url))).toMatchObject([
      { database: 0, tls: false },
      { database: 0, tls: true },
    ]);
  });
});

describe('health and metrics in README', () => {
  async function serve(): Promise<string> {
    const server = await startHealthServer({
      listen: { host: '127.0.0.1', port: 0, chosen: false },
      checks: [],
      metrics: metricsText,
      log: silentLog,
    });
    onTestFinished(() => server.close());
    return server.url;
  }

  function metricsText(): Promise<string> {
    const none = { waiting: 0, active: 0, delayed: 0, completed: 0, failed: 0 };
    const board = {
      now: new Date(),
      ...{ checks: [], lookUps: [] },
      sellers: [
        {
          ...{ sellerId: 'main', configured: true, copy: 'never', knownSince: null },
          ...{ accountMirroredAt: null, itemsMirroredAt: null },
          items: { live: 0, missing: 0, removed: 0 },
        },
      ],
      feeds: [
        {
          ...{ name: 'bi', place: 'a target', failures: 0 },
          views: [{ view: 'items', deliveredAt: null, problem: null, lagSeconds: 0 }],
        },
      ],
      needs: NEED_KINDS.map((kind) => ({ kind, seller: 'main', feed: null })),
    } as unknown as Board;
    return createMetrics({
      config: { sellers: [{ name: 'main' }], api: { share: 1 } } as unknown as Config,
      counts: () => Promise.resolve({ mirror: none, audits: none, alerts: none, feeds: none }),
      board: () => Promise.resolve(board),
    }).text();
  }

  it('are at the listed paths, and at no others', async () => {
    const url = await serve();
    const index = await (await fetch(url)).text();
    expect(firstCells('Path')).toEqual([...index.matchAll(/^\/\w+/gm)].map(([path]) => path));
    for (const path of firstCells('Path')) expect((await fetch(url + path)).status).toBe(200);
  });

  it('have the metrics in its rules, with their labels', async () => {
    const samples = parseExposition(await metricsText());
    const asked = [...readme.matchAll(/\b(seller_mirror_\w+)(?:\{([^}]*)\})?/g)];
    expect(asked.length).toBeGreaterThan(3);
    for (const [selector, name, labels = ''] of asked) {
      const series = samples.filter((sample) => sample.name === name);
      expect(series.length, selector).toBeGreaterThan(0);
      for (const [, label = '', value = ''] of labels.matchAll(/(\w+)=~?"([^"]*)"/g)) {
        const values = series.map((sample) => sample.labels[label]);
        expect(values, selector).toEqual(expect.arrayContaining(value.split('|')));
      }
    }
  });
});

describe('alerts in README', () => {
  const mirror = useMirror();
  const SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`;

  /** The message of an alert, verified as in README. */
  async function sent(alert: Alert): Promise<Message> {
    const server = await startServer({ status: 204 });
    const target = { url: new Secret(server.url.href), secret: new Secret(SECRET) };
    const channel = createWebhook({ ...target, format: 'standard' }, Date.now);
    const { db } = mirror();
    const content = await alertKind(alert).describe({ db, staleAfterHours: 26 }, alert, new Date());
    if (content === null) throw new Error(`no text for ${alert.kind}`);
    const row = { alertId: alertId(alert), channel: 'webhook' } as const;
    const message = { alert, content };
    const type = alert.kind.replace('-', '.');
    await insertAlert(db, { ...row, type, message }, ['webhook']);
    const deps = { db, channel, dashboardUrl: null, retryAt: () => null };
    const outcome = await deliverAlert(deps, row, never);
    expect(outcome).toMatchObject({ result: { delivered: 204 } });
    const [request] = server.requests;
    return new Verifier(SECRET).verify(request?.body ?? '', request?.headers ?? {}) as Message;
  }

  interface Message {
    readonly type: string;
    readonly data: Readonly<Record<string, unknown>>;
  }

  /** The keys of a message, without values that differ each time. */
  function shape({ data, ...rest }: Message): unknown {
    return { keys: Object.keys(rest), data: Object.keys(data), problem: data['problem'] };
  }

  async function finishedAudit(sellerId: string): Promise<string> {
    const { db } = mirror();
    const [layout, columns] = [{}, []];
    const rest = { maxAgeSeconds: null, knownValid: null, confirmAfterMs: 60_000 };
    const audit = { sellerId, source: 'arguments', layout, columns, ...rest };
    return String((await enterAudit(db, audit, [])).auditId);
  }

  /** An audit in which a code stopped being valid, and an account whose balance changed. */
  async function auditWithNews(): Promise<string> {
    const auditId = await finishedAudit('main');
    await mirror().rows(
      `WITH code AS (
         INSERT INTO mirror.purchase_codes (seller_id, code) VALUES ('main', 'a-code')
         RETURNING code_id
       ), checked AS (
         INSERT INTO mirror.code_checks (seller_id, code_id, audit_id, verdict, checked_at, reason, proof)
         SELECT 'main', code_id, $1, 'invalid', now(), 'denied', 'account' FROM code
         RETURNING check_id, code_id
       )
       INSERT INTO mirror.code_transitions (seller_id, code_id, check_id, happened_at, kind, old_value, new_value)
       SELECT 'main', code_id, check_id, now(), 'became-invalid', 'valid', 'invalid' FROM checked`,
      [auditId],
    );
    return auditId;
  }

  it('have the listed types, and look like the example', async () => {
    const catalogue = seededCatalogue({ seed: 7, count: 3 });
    const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    const account = { kind: 'account', dueAt: new Date(0), byHand: false } as const;
    await performMirrorTask(mirror().deps(sim.url), account, never);
    sim.addSeller({ key: KEY, username: 'ada', catalogue, account: { balanceCents: 4711 } });
    const again = { ...account, dueAt: new Date() };
    await performMirrorTask(mirror().deps(sim.url), again, never);
    const newestRun = async (): Promise<string> => {
      const rows = await mirror().rows<{ id: string }>(
        'SELECT max(run_id)::text AS id FROM mirror.runs',
      );
      return rows[0]?.id ?? '';
    };
    const seller = 'main';
    const changedRun = await newestRun();
    sim.faults.always('any', { kind: 'key-refused' });
    const job = { kind: 'sync', dueAt: new Date(), byHand: false } as const;
    await performMirrorTask(mirror().deps(sim.url), job, never);
    const runId = await newestRun();
    const field = 'sale_badge';
    await mirror().rows(
      'INSERT INTO mirror.item_fields (seller_id, field, first_run_id) VALUES ($1, $2, $3)',
      [seller, field, runId],
    );
    const [ahead] = await mirror().rows<{ id: string }>(
      `WITH late AS (INSERT INTO mirror.sellers (seller_id, marketplace) VALUES ('late', 'late.example') RETURNING seller_id)
       INSERT INTO mirror.runs (seller_id, kind, state, holder, started_at)
       SELECT seller_id, 'items', 'succeeded', '', now() + interval '1 day' FROM late
       RETURNING run_id::text AS id`,
    );
    const aheadId = ahead?.id ?? '';
    const since = new Date();
    // One alert of each kind. The delivery does not check whether a run was really held.
    const alerts: { readonly [K in Alert['kind']]: Extract<Alert, { readonly kind: unknown }> } = {
      'run-failed': { kind: 'run-failed', runId },
      'run-held': { kind: 'run-held', runId },
      'seller-parked': { kind: 'seller-parked', seller, runId },
      'audit-finished': { kind: 'audit-finished', auditId: await finishedAudit(seller) },
      'copy-stale': { kind: 'copy-stale', seller, since: null },
      'feed-stale': { kind: 'feed-stale', feed: 'bi', since: since.toISOString() },
      'feed-recovered': { kind: 'feed-recovered', feed: 'bi', since: since.toISOString() },
      'codes-no_longer_valid': { kind: 'codes-no_longer_valid', auditId: await auditWithNews() },
      'balance-changed': { kind: 'balance-changed', seller, runId: changedRun },
      'items-removed': { kind: 'items-removed', seller, runId },
      'fields-new': { kind: 'fields-new', seller, runId, field },
      'clock-ahead': { kind: 'clock-ahead', seller: 'late', what: `the start of run ${aheadId}` },
    };
    await requestFeedViews(mirror().db, 'bi', ['items']);
    await markFeedStale(mirror().db, 'bi', since);
    const messages: Message[] = [];
    for (const alert of Object.values(alerts)) messages.push(await sent(alert));
    expect(messages.map(({ type }) => type)).toEqual(firstCells('Type'));
    const [shown = ''] = blocks('json').filter((text) => text.includes('"timestamp"'));
    const example = JSON.parse(shown) as Message;
    const real = messages.find(({ type }) => type === example.type);
    if (real === undefined) throw new Error(`no alert is of type ${example.type}`);
    expect(shape(example)).toEqual(shape(real));
  });
});
