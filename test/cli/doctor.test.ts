import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { checkStore } from '../../src/cli/commands/doctor.js';
import { checkMarketplace, type OpenedAccount } from '../../src/cli/marketplace-checks.js';
import { readConfig, type Config, type SellerConfig } from '../../src/config/index.js';
import { Secret } from '../../src/domain/secret.js';
import { syncAccount } from '../../src/catalogue/account.js';
import {
  notationQuirks,
  type Fault,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.js';
import { openEmbedded } from '../../src/db/embedded/index.js';
import { startServer } from '../support/http-server.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { startSmtp } from '../support/smtp-server.js';
import { createTestDatabase, databaseAt, query, testServer } from '../support/postgres.js';
import { folder, marketOf, run, settings } from './support.js';

const mirror = useMirror();

const market = async (options: Partial<SimulatorOptions> = {}, count = 12) =>
  (await marketOf(mirror(), count, options)).sim;

/** A configuration with one seller at this address. */
function configOf(url: string, more: Readonly<Record<string, string>> = {}): Config {
  const env = { ...settings(mirror().databaseUrl, url), DATA_DIR: '/nowhere', ...more };
  return readConfig(env, { cwd: folder(), needs: 'sellers' });
}

let config: Config;
beforeEach(() => {
  config = configOf('https://market.example');
});

/** Checks a marketplace. Each result is a line such as `warning limit: … → remedy`. */
async function checks(
  url: string,
  more: Readonly<Record<string, string>> = {},
  others: readonly OpenedAccount[] = [],
): Promise<string[]> {
  const own = configOf(url, more);
  const asked = { db: mirror().db, others };
  const found = await checkMarketplace(own, own.sellers[0] as SellerConfig, asked, never);
  for (const { remedy } of found.checks) {
    expect(remedy ?? '', 'the reader is running doctor already').not.toMatch(/doctor/);
  }
  return found.checks.map(
    ({ result, text, remedy }) => `${result} ${text}${remedy === null ? '' : ` → ${remedy}`}`,
  );
}

const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

const failing = (fault: Fault) => (sim: Simulator) => sim.faults.always('any', fault);

/** Mirrors the account, then changes which one the copy is of. */
const copyOf = (change: string) => async (sim: Simulator) => {
  await syncAccount(mirror().deps(sim.url), never);
  await mirror().rows(`UPDATE mirror.sellers SET ${change}`);
};

describe('the checks of a marketplace', () => {
  it.each([
    [{ HTTP_PROXY: 'http://me:pa55word@127.0.0.1:9' }, 'http://127.0.0.1:9 (HTTP_PROXY)'],
    [
      { http_proxy: 'http://127.0.0.1:9', HTTP_PROXY: 'http://127.0.0.1:8' },
      '127.0.0.1:9 (http_proxy)',
    ],
    [{ HTTP_PROXY: 'http://127.0.0.1:9', NO_PROXY: 'a.example, 127.0.0.1' }, null],
    [{ HTTPS_PROXY: 'http://127.0.0.1:9' }, null],
  ])('say the proxy that requests go through, without its password: %j', async (env, proxy) => {
    const sim = await market();
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const lines = (await checks(sim.url)).filter((line) => line.startsWith('ok proxy:'));
    expect(lines).toEqual(proxy === null ? [] : [expect.stringContaining(proxy)]);
    expect(lines.join()).not.toContain('pa55word');
  });

  it('request the account, the list and one item, and change nothing', async () => {
    const sim = await market({}, 3_000);
    expect(await checks(sim.url)).toEqual([
      matching(/^ok host: 127\.0\.0\.1:\d+, on this machine/),
      'ok clock: the server’s and this machine’s agree',
      'ok key: opens the account of ada, balance 1234.50 USD',
      'ok list: 3,000 items; the first 200 were read',
      'ok item: 1001 can be looked up',
      'ok notation: as documented',
      'ok limit: the server states none; requests: unlimited',
    ]);
    expect(sim.log.map(({ operation }) => operation)).toEqual(['account', 'list', 'item']);
    expect(await mirror().rows('SELECT FROM mirror.sellers')).toEqual([]);
  });

  it('count the known differences of notation in one line, and list them in words with --verbose', async () => {
    const sim = await market({ quirks: { ...notationQuirks, socialLinks: 'handles' } });
    sim.faults.always('any', { kind: 'prefix', text: 'php-warnings' });
    const env = settings(mirror().databaseUrl, sim.url);
    expect((await run(['doctor'], env)).stdout).toMatch(
      /^✓ main · notation: readable, with \d+ known differences from the documentation[^\n]*\n✓ main · limit/m,
    );
    const { stdout } = await run(['doctor', '--verbose'], env);
    expect(stdout).toContain('\n  - tags come as one text, separated by commas\n');
    expect(stdout).toContain(
      '\n  - the list is an object with numbered keys instead of an array\n',
    );
    expect(stdout).toContain('\n  - other text, such as PHP warnings, precedes the JSON\n');
    expect(stdout).not.toMatch(/ {2}- \w+\.\w+-\w/);
  });

  it('compare the server’s limit with the setting', async () => {
    const sim = await market({ requestsPerMinute: 50 });
    expect(await checks(sim.url, { REQUESTS_PER_MINUTE: '6000' })).toContain(
      'warning limit: the server allows 50 a minute, 47 left; requests: at most 6,000 a minute → set REQUESTS_PER_MINUTE to 50',
    );
    sim.limits.reset();
    sim.limits.set({ requestsPerMinute: 6_000 });
    sim.limits.spend(4_000);
    expect(await checks(sim.url, { REQUESTS_PER_MINUTE: '6000' })).toContainEqual(
      matching(/^warning limit: .*1,997 left; others share the limit/),
    );
  });

  it('compare the clocks, and name the address of redirects', async () => {
    const date = new Date(Date.now() - 600_000).toUTCString();
    const server = await startServer(({ url }) =>
      url.pathname.endsWith('/')
        ? { status: 401, headers: { date }, body: '{"status":"error","msg":"Invalid request"}' }
        : { status: 301, headers: { location: `${url.pathname}/` } },
    );
    const found = await checks(server.url.href);
    expect(found).toContainEqual(matching(/^ok address: .* paths with a trailing slash/));
    expect(found).toContainEqual(matching(/^warning clock: this machine’s is 10 min.* ahead/));
    expect(found).toContainEqual(
      matching(/^failed key: .*refused the API key.* → check the API key/),
    );
  });

  it.each<[string, (sim: Simulator) => unknown, RegExp]>([
    ['a refused key', failing({ kind: 'key-refused' }), /^failed key: .* refused the API key/],
    ['a challenge', failing({ kind: 'challenge' }), /^failed key: .*bot protection/],
    ['a limit', failing({ kind: 'rate-limited' }), /^failed key: .*too many requests.* → wait/],
    [
      'a web page',
      (sim) => sim.faults.always('list', { kind: 'html', status: 200 }),
      /^failed list: the marketplace sent a web page/,
    ],
    [
      'an unreadable record',
      (sim) => sim.seller(KEY).catalogue.breakRecord(1002, '{"id":1002}'),
      /^warning records: 1 of 12 can’t be read; the first one because: .* → .*quarantine/,
    ],
    [
      'a copy of another account',
      copyOf(`bound_username = 'grace'`),
      /^failed key: .*now opens the account "ada"; its copy is of the account "grace"/,
    ],
    [
      'a copy of another marketplace',
      copyOf(`marketplace = 'market.example'`),
      /^failed key: the copy of seller "main" is of the marketplace market\.example, not/,
    ],
  ])('report %s, and repeat no request', async (_, make, expected) => {
    const sim = await market();
    await make(sim);
    const before = sim.log.length;
    expect(await checks(sim.url)).toContainEqual(matching(expected));
    const operations = sim.log.slice(before).map(({ operation }) => operation);
    expect(operations).toEqual([...new Set(operations)]);
  });

  it('report a host that can’t be reached, and an empty list', async () => {
    expect(await checks('http://127.0.0.1:9')).toEqual([
      matching(/^failed host: 127\.0\.0\.1:9 can’t be reached.* → check the address/),
    ]);
    const empty = await market({}, 0);
    expect(await checks(empty.url)).toContainEqual(
      matching(/^warning list: the list names no item/),
    );
  });

  it('explain a wrong path and a wrong scheme', async () => {
    const site = await startServer({ status: 404, body: '<html>Not found</html>' });
    expect(await checks(`${site.url.href}shop/`)).toContainEqual(
      matching(
        /^failed key: .* → requests go to http:\/\/127\.0\.0\.1:\d+\/shop\/api\/…; .*; is \/shop\/ right\?$/,
      ),
    );
    expect(await checks(`https://127.0.0.1:${site.port}`)).toEqual([
      matching(/^failed host: .*this port speaks plain http → correct the port/),
    ]);
  });

  it('fail the second of two sellers whose keys open one account, in any letter case', async () => {
    const sim = await market();
    const ada = { seller: 'first', host: 'localhost:1', username: 'Ada' };
    expect(await checks(sim.url, {}, [ada])).toContainEqual(
      matching(
        /^failed key: opens the account of ada, like the key of seller first; .* → give main/,
      ),
    );
    const elsewhere = { ...ada, host: 'market.example' };
    expect(await checks(sim.url, {}, [elsewhere])).toContainEqual(matching(/^ok key: opens/));
  });
});

describe('the checks of the store', () => {
  const found = async (own: Partial<Config>) =>
    (await checkStore({ ...config, ...own }, never)).checks;

  async function newDatabase(options = {}): Promise<{ databaseUrl: Secret }> {
    const database = await createTestDatabase(options);
    onTestFinished(() => database.drop());
    return { databaseUrl: new Secret(database.url) };
  }

  it('do not migrate a database without tables', async () => {
    const own = { ...config, ...(await newDatabase({ empty: true })) };
    const { checks, url } = await checkStore(own, never);
    expect(checks).toMatchObject([
      { result: 'ok', text: matching(/^store: database test_\w+ at 127.*, PostgreSQL \d+/) },
      { result: 'warning', text: matching(/^schema: \d+ migrations? pending \(\d+_init/) },
    ]);
    expect(url).toBeNull();
    expect((await found(own))[1]?.result).toBe('warning');
  });

  it('warn about a superuser', async () => {
    const database = new URL(mirror().databaseUrl).pathname.slice(1);
    const url = databaseAt(testServer.adminUrl, database);
    expect(await found({ databaseUrl: new Secret(url) })).toContainEqual({
      seller: null,
      result: 'warning',
      text: matching(/^store: its role \w+ is a superuser/),
      remedy: 'use an ordinary role in DATABASE_URL; docs/operations.md says how to create one',
    });
  });

  it('create no embedded database, but check the disk space for it', async () => {
    const dataDir = join(folder(), 'not', 'there');
    expect(await found({ databaseUrl: null, dataDir })).toMatchObject([
      { result: 'ok', text: `store: no database in ${dataDir} yet; the first command creates it` },
      { text: matching(/^disk: .* free for /) },
    ]);
    expect(readdirSync(folder())).toEqual([]);
  });

  it.each([
    ['FILE/data', /^store: the data folder .* cannot be used: a part of the path is a file/],
    [
      '/proc/zzz',
      /^store: the data folder \/proc\/zzz cannot be used: ENOENT: no such file or directory/,
    ],
  ])('fail DATA_DIR %s with the same message as a command that uses it', async (path, text) => {
    const file = join(folder(), 'FILE');
    writeFileSync(file, '');
    onTestFinished(() => rmSync(file));
    const dataDir = resolve(folder(), path);
    const [check] = await found({ databaseUrl: null, dataDir });
    expect(check).toMatchObject({ result: 'failed', text: matching(text) });
    await expect(openEmbedded({ dataDir, applicationName: 'a test' })).rejects.toThrow(
      check?.text.replace('store: ', '') ?? '',
    );
  });

  it.each([
    [
      'takes no writes',
      'ALTER ROLE current_user IN DATABASE this SET default_transaction_read_only = on',
      /^store: the database takes no writes/,
    ],
    [
      'does not let the role write',
      'REVOKE INSERT ON mirror.items FROM current_user',
      /^store: its role \w+ may not write/,
    ],
    [
      'does not let the role create the queue’s schema',
      'REVOKE CREATE ON DATABASE this FROM current_user',
      /^store: its role \w+ may not create schemas/,
    ],
    [
      'does not let the role use the queue’s schema, which another role created',
      'CREATE SCHEMA bullmq; REVOKE ALL ON SCHEMA bullmq FROM current_user',
      /^store: its role \w+ may not use the queue in schema bullmq/,
    ],
    [
      'does not let the role write to the queue’s tables',
      'CREATE SCHEMA bullmq; CREATE TABLE bullmq.jobs (id int); REVOKE INSERT ON bullmq.jobs FROM current_user',
      /^store: its role \w+ may not use the queue in schema bullmq/,
    ],
  ])('fail a database that %s', async (_, sql, expected) => {
    const own = await newDatabase();
    const url = own.databaseUrl.reveal();
    await query(url, sql.replace('this', new URL(url).pathname.slice(1)));
    expect(await found(own)).toContainEqual({
      seller: null,
      result: 'failed',
      text: matching(expected),
      remedy: matching(/./),
    });
  });
});

describe('doctor', () => {
  it('exits with 0 if nothing fails, and counts its requests', async () => {
    const sim = await market({ profile: 'field-2' });
    const { code, stdout } = await run(['doctor'], settings(mirror().databaseUrl, sim.url));
    expect(stdout).toMatch(
      /^✓ configuration: 1 seller\n✓ store: .*\n✓ schema: up to date\n(?:✓ [^\n]*\n)*✓ queue: in the database[^\n]*\n✓ main · host/,
    );
    expect(stdout).toMatch(
      /\n\d+ checks: \d+ passed, 0 warnings, 0 failed; 3 requests to marketplaces\n$/,
    );
    expect(code).toBe(0);
  });

  it('warns while the marketplace answers only without the random parameter, for a day', async () => {
    const sim = await market();
    sim.faults.always('any', { kind: 'parameter-refused', status: 422 });
    const env = settings(mirror().databaseUrl, sim.url);
    const warning = /^! main · caches: the marketplace answers only without [^\n]*\n {2}→ /m;
    expect((await run(['doctor'], env)).stdout).toMatch(warning);
    expect((await run(['doctor'], env)).stdout).toMatch(warning);
    expect(sim.log.filter(({ random }) => random !== null)).toHaveLength(1);
    await query(
      mirror().databaseUrl,
      `UPDATE mirror.request_budgets SET random_left_out_until = now() - interval '1 second'`,
    );
    sim.faults.clear();
    expect((await run(['doctor'], env)).stdout).not.toMatch(warning);
    expect(sim.log.at(-1)?.random).not.toBeNull();
  });

  it('still checks the marketplace if the store fails, and exits with 1', async () => {
    const sim = await market();
    const env = settings('postgres://a:pa55word@127.0.0.1:9/x', sim.url);
    const { code, stdout } = await run(['doctor', '--json'], env);
    expect(stdout).not.toContain('pa55word');
    const { checks: found } = JSON.parse(stdout) as { checks: { text: string; result: string }[] };
    expect(found[1]).toEqual({
      seller_id: null,
      result: 'failed',
      text: 'store: database x at 127.0.0.1:9: the connection was refused',
      remedy: matching(/^Check host and port/),
    });
    expect(found.at(-1)).toMatchObject({ seller_id: 'main', result: 'ok' });
    expect(code).toBe(1);
  });

  it('fails without a seller, and if HEALTH_LISTEN is taken', async () => {
    const taken = await startServer({ body: '' });
    const env = {
      DATABASE_URL: mirror().databaseUrl,
      HEALTH_LISTEN: `127.0.0.1:${taken.port}`,
    };
    const { code, stdout } = await run(['doctor'], env);
    expect(stdout).toMatch(/^✗ configuration: no seller to mirror\n {2}→ set MARKETPLACE_URL/m);
    expect(stdout).toMatch(/^✗ health: 127\.0\.0\.1:\d+, .* is taken by another program\n {2}→ /m);
    expect(code).toBe(1);
  });

  it('exits with 2 if the configuration is invalid, with a remedy for each problem', async () => {
    const { code, stdout } = await run(['doctor'], settings('nonsense', 'nonsense'));
    expect(stdout).toMatch(
      /^✗ configuration: MARKETPLACE_URL .*\n {2}→ .*\n✗ configuration: DATABASE_URL .*\n {2}→ .*\n/,
    );
    expect(code).toBe(2);
  });
});

describe('doctor --alert', () => {
  const SECRETS = ['t0ken-of-the-hook', 'pass-word-of-mail'] as const;

  async function alerted(hookStatus: number, more: Readonly<Record<string, string>> = {}) {
    const [hook, smtp] = [await startServer({ status: hookStatus }), await startSmtp()];
    const { env } = await marketOf(mirror());
    const ended = await run(['doctor', '--alert'], {
      ...env,
      ALERT_FORMAT: 'slack',
      ALERT_WEBHOOK_URL: `${hook.url.href}${SECRETS[0]}`,
      ALERT_EMAIL: 'you@shop.example',
      SMTP_URL: `smtp://me:${SECRETS[1]}@127.0.0.1:${smtp.port}`,
      DASHBOARD_URL: 'https://mirror.example',
      ...more,
    });
    for (const secret of SECRETS) expect(ended.stdout + ended.stderr).not.toContain(secret);
    return { hook, smtp, ...ended };
  }

  it('sends a test through each channel, and shows the answers', async () => {
    const { hook, smtp, stdout, code } = await alerted(200);
    expect(stdout).toContain('✓ alert: the webhook accepted it as slack (HTTP 200)\n');
    expect(stdout).toContain(
      '✓ alert: the mail server accepted it for you@shop.example (SMTP 250)\n',
    );
    expect(hook.requests[0]?.body).toContain('https://mirror.example/');
    expect(smtp.mails[0]?.source).toContain('Test alert');
    expect(code).toBe(0);
  });

  it('fails if a channel refuses the alert, and names the settings to check', async () => {
    const { stdout, code } = await alerted(404, { SMTP_URL: 'smtp://127.0.0.1:1' });
    expect(stdout).toContain(
      '✗ alert: the webhook answered with HTTP 404\n  → check ALERT_WEBHOOK_URL and ALERT_FORMAT\n',
    );
    expect(stdout).toMatch(/✗ alert: the mail server could not be reached.*\n {2}→ check SMTP_URL/);
    expect(code).toBe(1);
  });

  it('fails without a channel; without --alert nothing is sent', async () => {
    const { env } = await marketOf(mirror());
    expect((await run(['doctor', '--alert'], env)).stdout).toContain(
      '✗ alert: no channel for alerts is configured\n  → set ALERT_WEBHOOK_URL, or ALERT_EMAIL and SMTP_URL\n',
    );
    expect((await run(['doctor'], env)).stdout).not.toContain('alert');
  });
});
