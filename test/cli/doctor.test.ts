import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  notationQuirks,
  type Fault,
  type Simulator,
  type SimulatorOptions,
} from '../../src/simulator/index.js';
import { startServer } from '../support/http-server.js';
import { KEY, useMirror } from '../support/mirror.js';
import { startSmtp } from '../support/smtp-server.js';
import { createTestDatabase, databaseAt, query, testServer } from '../support/postgres.js';
import { folder, marketOf, run, settings, twoSellers } from './support.js';

const mirror = useMirror();

type Environment = Readonly<Record<string, string>>;

interface Check {
  readonly seller_id: string | null;
  readonly result: string;
  readonly text: string;
  readonly remedy: string | null;
}

const market = async (options: Partial<SimulatorOptions> = {}, count = 12) =>
  (await marketOf(mirror(), count, options)).sim;

/** What doctor finds: lines such as `warning limit: … → remedy`, of the marketplace or of everything else. */
async function found(env: Environment, about: 'marketplace' | 'store' = 'marketplace') {
  const { stdout } = await run(['doctor', '--json'], env);
  const { checks } = JSON.parse(stdout) as { checks: readonly Check[] };
  const chosen = checks.filter(
    ({ seller_id, text }) =>
      (seller_id !== null && !text.startsWith('copy:')) === (about === 'marketplace'),
  );
  for (const { remedy } of checks) {
    expect(remedy ?? '', 'the reader is running doctor already').not.toMatch(/doctor/);
  }
  return chosen.map(
    ({ result, text, remedy }) => `${result} ${text}${remedy === null ? '' : ` → ${remedy}`}`,
  );
}

const checks = (url: string, more: Environment = {}) =>
  found(settings(mirror().databaseUrl, url, more));

const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

const failing = (fault: Fault) => (sim: Simulator) => sim.faults.always('any', fault);

/** Mirrors the account, then changes which one the copy is of. */
const copyOf = (change: string) => async (sim: Simulator) => {
  await run(['sync', 'account'], settings(mirror().databaseUrl, sim.url));
  await mirror().rows(`UPDATE mirror.sellers SET ${change}`);
};

describe('doctor asks a marketplace', () => {
  it('for the account, the list and one item, and changes nothing', async () => {
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

  it.each<[Environment, string | null]>([
    [{ HTTP_PROXY: 'http://me:pa55word@127.0.0.1:9' }, 'http://127.0.0.1:9 (HTTP_PROXY)'],
    [{ http_proxy: 'http://127.0.0.1:9', HTTP_PROXY: 'http://h:8' }, '127.0.0.1:9 (http_proxy)'],
    [{ HTTP_PROXY: 'http://127.0.0.1:9', NO_PROXY: 'a.example, 127.0.0.1' }, null],
    [{ HTTPS_PROXY: 'http://127.0.0.1:9' }, null],
  ])('through the proxy of %j, whose password it hides', async (env, proxy) => {
    const lines = (await checks((await market()).url, env)).filter((line) =>
      line.startsWith('ok proxy'),
    );
    expect(lines).toEqual(proxy === null ? [] : [expect.stringContaining(proxy)]);
    expect(lines.join()).not.toContain('pa55word');
  });

  it('and counts known differences of notation in one line; --verbose lists them in words', async () => {
    const sim = await market({ quirks: { ...notationQuirks, socialLinks: 'handles' } });
    sim.faults.always('any', { kind: 'prefix', text: 'php-warnings' });
    const env = settings(mirror().databaseUrl, sim.url);
    expect((await run(['doctor'], env)).stdout).toMatch(
      /^✓ main · notation: readable, with \d+ known differences from the documentation[^\n]*\n✓ main · limit/m,
    );
    const { stdout } = await run(['doctor', '--verbose'], env);
    for (const line of [
      'tags come as one text, separated by commas',
      'the list is an object with numbered keys instead of an array',
      'other text, such as PHP warnings, precedes the JSON',
    ]) {
      expect(stdout).toContain(`\n  - ${line}\n`);
    }
    expect(stdout).not.toMatch(/ {2}- \w+\.\w+-\w/);
  });

  it('and compares the server’s limit with the setting', async () => {
    const sim = await market({ requestsPerMinute: 50 });
    const fast = { REQUESTS_PER_MINUTE: '6000' };
    expect(await checks(sim.url, fast)).toContain(
      'warning limit: the server allows 50 a minute, 47 left; requests: at most 6,000 a minute → set REQUESTS_PER_MINUTE to 50',
    );
    sim.limits.reset();
    sim.limits.set({ requestsPerMinute: 6_000 });
    sim.limits.spend(4_000);
    expect(await checks(sim.url, fast)).toContainEqual(
      matching(/^warning limit: .*1,997 left; others share the limit/),
    );
  });

  it('and compares the clocks, and names the address of redirects', async () => {
    const date = new Date(Date.now() - 600_000).toUTCString();
    const server = await startServer(({ url }) =>
      url.pathname.endsWith('/')
        ? { status: 401, headers: { date }, body: '{"status":"error","msg":"Invalid request"}' }
        : { status: 301, headers: { location: `${url.pathname}/` } },
    );
    expect(await checks(server.url.href)).toEqual(
      expect.arrayContaining([
        matching(/^ok address: .* paths with a trailing slash/),
        matching(/^warning clock: this machine’s is 10 min.* ahead/),
        matching(/^failed key: .*refused the API key.* → check the API key/),
      ]),
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
  ])('and reports %s, and repeats no request', async (_, make, expected) => {
    const sim = await market();
    await make(sim);
    const before = sim.log.length;
    expect(await checks(sim.url)).toContainEqual(matching(expected));
    const operations = sim.log.slice(before).map(({ operation }) => operation);
    expect(operations).toEqual([...new Set(operations)]);
  });

  it('and says what is wrong with an address: host, path, scheme, or an empty list', async () => {
    const site = await startServer({ status: 404, body: '<html>Not found</html>' });
    for (const [url, expected] of [
      ['http://127.0.0.1:9', /^failed host: 127\.0\.0\.1:9 can’t be reached.* → check the address/],
      [
        `${site.url.href}shop/`,
        /^failed key: .* → requests go to .*\/shop\/api\/…; .*; is \/shop\/ right\?$/,
      ],
      [`https://127.0.0.1:${site.port}`, /^failed host: .*this port speaks plain http → correct/],
      [(await market({}, 0)).url, /^warning list: the list names no item/],
    ] as const) {
      expect(await checks(url)).toContainEqual(matching(expected));
    }
  });

  it('and fails the second of two sellers whose keys open one account', async () => {
    const env = twoSellers(mirror().databaseUrl, (await market()).url, KEY);
    expect(await found(env)).toContainEqual(
      matching(
        /^failed key: opens the account of ada, like the key of seller first; .* → give second/,
      ),
    );
  });

  it('and warns while it answers only without the random parameter, for a day', async () => {
    const sim = await market();
    sim.faults.always('any', { kind: 'parameter-refused', status: 422 });
    const warning = matching(/^warning caches: the marketplace answers only without .* → /);
    expect(await checks(sim.url)).toContainEqual(warning);
    expect(await checks(sim.url)).toContainEqual(warning);
    expect(sim.log.filter(({ random }) => random !== null)).toHaveLength(1);
    await mirror().rows(
      `UPDATE mirror.request_budgets SET random_left_out_until = now() - interval '1 second'`,
    );
    sim.faults.clear();
    expect(await checks(sim.url)).not.toContainEqual(warning);
    expect(sim.log.at(-1)?.random).not.toBeNull();
  });
});

describe('doctor looks at the store', () => {
  /** A database of its own, with these settings. */
  async function databaseWith(sql: string, options = {}): Promise<Environment> {
    const database = await createTestDatabase(options);
    onTestFinished(() => database.drop());
    const name = new URL(database.url).pathname.slice(1);
    if (sql !== '') await query(database.url, sql.replace('this', name));
    return { DATABASE_URL: database.url };
  }

  it('and does not migrate a database without tables', async () => {
    const env = await databaseWith('', { empty: true });
    for (let n = 0; n < 2; n++) {
      expect(await found(env, 'store')).toEqual(
        expect.arrayContaining([
          matching(/^ok store: database test_\w+ at 127.*, PostgreSQL \d+/),
          matching(/^warning schema: \d+ migrations? pending \(\d+_init/),
        ]),
      );
    }
  });

  it.each([
    [
      'takes no writes',
      'ALTER ROLE current_user IN DATABASE this SET default_transaction_read_only = on',
      /^failed store: the database takes no writes → ./,
    ],
    [
      'does not let the role write',
      'REVOKE INSERT ON mirror.items FROM current_user',
      /^failed store: its role \w+ may not write.* → ./,
    ],
    [
      'does not let the role create the queue’s schema',
      'REVOKE CREATE ON DATABASE this FROM current_user',
      /^failed store: its role \w+ may not create schemas.* → ./,
    ],
    [
      'does not let the role use the queue’s schema, which another role created',
      'CREATE SCHEMA bullmq; REVOKE ALL ON SCHEMA bullmq FROM current_user',
      /^failed store: its role \w+ may not use the queue in schema bullmq → ./,
    ],
    [
      'does not let the role write to the queue’s tables',
      'CREATE SCHEMA bullmq; CREATE TABLE bullmq.jobs (id int); REVOKE INSERT ON bullmq.jobs FROM current_user',
      /^failed store: its role \w+ may not use the queue in schema bullmq → ./,
    ],
  ])('and fails a database that %s', async (_, sql, expected) => {
    expect(await found(await databaseWith(sql), 'store')).toContainEqual(matching(expected));
  });

  it('and warns about a superuser', async () => {
    const database = new URL(mirror().databaseUrl).pathname.slice(1);
    const env = { DATABASE_URL: databaseAt(testServer.adminUrl, database) };
    expect(await found(env, 'store')).toContainEqual(
      matching(/^warning store: its role \w+ is a superuser.* → use an ordinary role/),
    );
  });

  it('and creates no embedded database, but checks the disk space for it', async () => {
    const dataDir = join(folder(), 'not', 'there');
    expect(await found({ DATA_DIR: dataDir }, 'store')).toEqual(
      expect.arrayContaining([
        `ok store: no database in ${dataDir} yet; the first command creates it`,
        matching(/ disk: .* free for /),
      ]),
    );
    expect(readdirSync(folder())).not.toContain('not');
  });

  it.each([
    ['FILE/data', 'cannot be used: a part of the path is a file'],
    ['/proc/zzz', 'cannot be used: ENOENT: no such file or directory'],
  ])('and fails DATA_DIR %s with the same message as a command that uses it', async (path, why) => {
    const file = join(folder(), 'FILE');
    writeFileSync(file, '');
    onTestFinished(() => rmSync(file));
    const env = { DATA_DIR: resolve(folder(), path) };
    const line = `the data folder ${env.DATA_DIR}(?:/postgres)? ${why}`;
    expect(await found(env, 'store')).toContainEqual(
      matching(new RegExp(`^failed store: ${line}`)),
    );
    expect((await run(['migrate'], env)).stderr).toMatch(new RegExp(line));
  });

  it('and still asks the marketplace if the store fails, and exits with 1', async () => {
    const { url } = await market();
    const env = settings('postgres://a:pa55word@127.0.0.1:9/x', url);
    expect(await found(env, 'store')).toContainEqual(
      matching(
        /^failed store: database x at 127\.0\.0\.1:9: the connection was refused → Check host/,
      ),
    );
    expect(await found(env)).toContainEqual(matching(/^ok limit/));
    const { code, stdout } = await run(['doctor'], env);
    expect(stdout).not.toContain('pa55word');
    expect(code).toBe(1);
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

  it('fails without a seller, and if HEALTH_LISTEN is taken', async () => {
    const taken = await startServer({ body: '' });
    const listen = { HEALTH_LISTEN: `127.0.0.1:${taken.port}` };
    const { code, stdout } = await run(['doctor'], {
      ...listen,
      DATABASE_URL: mirror().databaseUrl,
    });
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

  const SECRETS = ['t0ken-of-the-hook', 'pass-word-of-mail'] as const;

  it.each([
    [
      'sends a test through each channel with --alert, and shows the answers',
      { status: 200, port: null },
      /✓ alert: the webhook accepted it as slack \(HTTP 200\)\n✓ alert: the mail server accepted it for you@shop\.example \(SMTP 250\)\n/,
      0,
    ],
    [
      'fails if a channel refuses the test alert, and names the settings to check',
      { status: 404, port: 1 },
      /✗ alert: the webhook answered with HTTP 404\n {2}→ check ALERT_WEBHOOK_URL and ALERT_FORMAT\n✗ alert: the mail server could not be reached.*\n {2}→ check SMTP_URL/,
      1,
    ],
  ])('%s', async (_, { status, port }, expected, code) => {
    const [hook, smtp] = [await startServer({ status }), await startSmtp()];
    const { env } = await marketOf(mirror());
    const ended = await run(['doctor', '--alert'], {
      ...env,
      ALERT_FORMAT: 'slack',
      ALERT_WEBHOOK_URL: `${hook.url.href}${SECRETS[0]}`,
      ALERT_EMAIL: 'you@shop.example',
      SMTP_URL: `smtp://me:${SECRETS[1]}@127.0.0.1:${port ?? smtp.port}`,
      DASHBOARD_URL: 'https://mirror.example',
    });
    for (const secret of SECRETS) expect(ended.stdout + ended.stderr).not.toContain(secret);
    expect(ended.stdout).toMatch(expected);
    expect(hook.requests[0]?.body).toContain('https://mirror.example/');
    expect(smtp.mails.map(({ source }) => source.includes('Test alert'))).toEqual(
      port === null ? [true] : [],
    );
    expect(ended.code).toBe(code);
  });

  it('fails a test alert without a channel; without --alert nothing is sent', async () => {
    const { env } = await marketOf(mirror());
    expect((await run(['doctor', '--alert'], env)).stdout).toContain(
      '✗ alert: no channel for alerts is configured\n  → set ALERT_WEBHOOK_URL, or ALERT_EMAIL and SMTP_URL\n',
    );
    expect((await run(['doctor'], env)).stdout).not.toContain('alert');
  });
});
