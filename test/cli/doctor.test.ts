import { beforeEach, describe, expect, it } from 'vitest';
import { checkSeller } from '../../src/cli/doctor/marketplace.js';
import { checkStore } from '../../src/cli/doctor/store.js';
import { quirkInWords } from '../../src/cli/doctor/quirks.js';
import type { Config, SellerConfig } from '../../src/config/index.js';
import { Secret } from '../../src/domain/secret.js';
import { syncAccount } from '../../src/jobs/sync-account.js';
import {
  notationQuirks,
  seededCatalogue,
  type SimulatorOptions,
} from '../../src/simulator/index.js';
import { startServer } from '../support/http-server.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { createTestDatabase } from '../support/postgres.js';
import { run, settings } from './support.js';

const mirror = useMirror();

async function market(options: Partial<SimulatorOptions> = {}, count = 12) {
  const catalogue = seededCatalogue({ seed: 3, count });
  return mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }], ...options });
}

function sellerAt(url: string, more: Partial<SellerConfig> = {}): SellerConfig {
  const carriage = { placement: 'default', keyHeader: null } as const;
  return {
    name: 'main',
    url: new URL(url),
    key: new Secret(KEY),
    requestsPerMinute: 0,
    carriage,
    syncCron: null,
    accountCron: null,
    auditCron: null,
    timeZone: 'UTC',
    ...more,
  };
}

let config: Config;
beforeEach(() => {
  config = {
    sellers: [],
    databaseUrl: new Secret(mirror().databaseUrl),
    dataDir: '/nowhere',
    allowPlainHttp: false,
    removalGuard: { items: 10, percent: 20 },
    lookupsPerRun: 100,
    logLevel: 'info',
    logFormat: 'auto',
    redis: null,
    queuePrefix: 'seller-mirror',
    workerConcurrency: 1,
    recheck: { share: 0.25, olderThanDays: 30 },
    catchUp: false,
    shutdownTimeoutMs: 30_000,
    keepJobsDays: 7,
    retention: { raw: null, runs: null, versions: null, audits: null },
    staleAfterHours: 26,
    health: null,
    alerts: null,
    warnings: [],
  };
});

/** `warning limit: …` and so on, remedies behind an arrow. */
async function checks(url: string, more: Partial<SellerConfig> = {}): Promise<string[]> {
  const found = await checkSeller(config, sellerAt(url, more), mirror().store, never);
  return found.checks.map(
    ({ result, text, remedy }) => `${result} ${text}${remedy === null ? '' : ` → ${remedy}`}`,
  );
}

const matching = (pattern: RegExp) => expect.stringMatching(pattern) as string;

describe('doctor about a marketplace', () => {
  it('asks for account, the list’s beginning and one item, and changes nothing', async () => {
    const sim = await market({}, 3_000);
    expect(await checks(sim.url)).toEqual([
      matching(/^ok host: 127\.0\.0\.1:\d+, on this machine/),
      'ok clock: the server’s and this machine’s agree',
      'ok key: opens the account of ada, balance 1234.50 USD',
      matching(/^ok list: [\d,]+ items or more; the rest was not read$/),
      'ok item: 1001 can be looked up',
      'ok notation: as documented',
      'ok limit: the server shows none; asked without a limit',
    ]);
    expect(sim.log.map(({ operation }) => operation)).toEqual(['account', 'list', 'item']);
    expect(await mirror().rows('SELECT FROM mirror.sellers')).toEqual([]);
  });

  it('explains in words every quirk of notation that servers are known to have', async () => {
    const sim = await market({ quirks: { ...notationQuirks, socialLinks: 'handles' } });
    sim.faults.always('any', { kind: 'prefix', text: 'php-warnings' });
    const notation = (await checks(sim.url)).find((check) => check.startsWith('ok notation'));
    expect(notation).toContain('tags come as one text, separated by commas');
    expect(notation).toContain('the list is an object with numbered keys instead of an array');
    expect(notation).toContain('other text, such as PHP warnings, stands before the JSON');
    expect(notation).not.toMatch(/\w\.\w+-\w/);
    expect(quirkInWords('item.new-one')).toBe('item.new-one');
  });

  it('compares the limit with the setting', async () => {
    const sim = await market({ requestsPerMinute: 50 });
    expect(await checks(sim.url, { requestsPerMinute: 6_000 })).toContain(
      'warning limit: the server allows 50 a minute, 47 left, and is asked 6,000 a minute at most → set REQUESTS_PER_MINUTE to 50',
    );
    sim.limits.reset();
    sim.limits.set({ requestsPerMinute: 6_000 });
    sim.limits.spend(4_000);
    expect(await checks(sim.url, { requestsPerMinute: 6_000 })).toContainEqual(
      matching(/^warning limit: .*1,997 left: others use the same allowance/),
    );
  });

  it('compares the clocks, and names the address that redirects lead to', async () => {
    const date = new Date(Date.now() - 600_000).toUTCString();
    const server = await startServer(({ url }) =>
      url.pathname.endsWith('/')
        ? { status: 401, headers: { date }, body: '{"status":"error","msg":"Invalid request"}' }
        : { status: 301, headers: { location: `${url.pathname}/` } },
    );
    const found = await checks(server.url.href);
    expect(found).toContainEqual(matching(/^ok address: .* paths with a slash at the end/));
    expect(found).toContainEqual(matching(/^warning clock: this machine’s is 10 min.* ahead/));
    expect(found).toContainEqual(
      matching(/^failed key: .*refused the API key.* → check the API key/),
    );
  });

  it.each([
    ['a refused key', 'key-refused', /^failed key: the marketplace refused the API key/],
    ['a challenge', 'challenge', /^failed key: .*bot protection/],
    ['too many requests', 'rate-limited', /^failed key: .*too many requests.* → wait/],
  ] as const)('says what to do about %s', async (_, kind, expected) => {
    const sim = await market();
    sim.faults.always('any', { kind });
    const found = await checks(sim.url);
    expect(found.at(1)).toBeDefined();
    expect(found).toContainEqual(matching(expected));
    expect(sim.log).toHaveLength(1);
  });

  it('tells a host that can’t be reached from one that answers nonsense', async () => {
    expect(await checks('http://127.0.0.1:9')).toEqual([
      matching(/^failed host: 127\.0\.0\.1:9 can't be reached.* → check the address/),
    ]);
    const sim = await market();
    sim.faults.always('list', { kind: 'html', status: 200 });
    expect(await checks(sim.url)).toContainEqual(matching(/^failed list: a web page came/));
  });

  it('warns of records that can’t be read, and of a list that says it is empty', async () => {
    const sim = await market();
    sim.seller(KEY).catalogue.breakRecord(1002, '{"id":1002}');
    expect(await checks(sim.url)).toContainEqual(
      matching(/^warning records: 1 of 12 can’t be read, the first because: .* → .*quarantine/),
    );
    const empty = await market({}, 0);
    expect(await checks(empty.url)).toContainEqual(matching(/^warning list: .*lists no items/));
  });

  it('fails a key that opens another account than the one in the copy', async () => {
    const sim = await market();
    await syncAccount(mirror().deps(sim.url), never);
    sim.seller(KEY).account = { ...sim.seller(KEY).account, username: 'grace' };
    expect(await checks(sim.url)).toContainEqual(
      matching(
        /^failed key: opens the account of grace, but the copy of this seller is that of ada/,
      ),
    );
  });
});

describe('doctor about the store', () => {
  it('leaves a database without tables as it is', async () => {
    const database = await createTestDatabase({ empty: true });
    try {
      const own = { ...config, databaseUrl: new Secret(database.url) };
      const { checks: found, url } = await checkStore(own, never);
      expect(found).toMatchObject([
        { result: 'ok', text: matching(/^store: database test_\w+ at 127.*, PostgreSQL \d+/) },
        { result: 'warning', text: matching(/^schema: \d+ migrations? pending \(\d+_init/) },
      ]);
      expect(url).toBeNull();
      expect((await checkStore(own, never)).checks[1]?.result).toBe('warning');
    } finally {
      await database.drop();
    }
  });

  it('makes no embedded database, and looks at the room for it', async () => {
    const own = { ...config, databaseUrl: null };
    const { checks: found } = await checkStore(own, never);
    expect(found).toMatchObject([
      { result: 'ok', text: 'store: no database in /nowhere yet; the first command makes it' },
      { text: matching(/^disk: .* free for \/nowhere$/) },
    ]);
  });
});

describe('doctor', () => {
  it('ends with 0 when nothing fails, and says how many requests it made', async () => {
    const sim = await market({ profile: 'field-2' });
    const { code, stdout } = await run(['doctor'], settings(mirror().databaseUrl, sim.url));
    expect(stdout).toMatch(
      /^✓ configuration: 1 seller\n✓ store: .*\n✓ schema: up to date\n(?:✓ [^\n]*\n)*✓ queue: in the database[^\n]*\n✓ main · host/,
    );
    expect(stdout).toMatch(
      /\n\d+ checks: \d+ in order, 0 warnings, 0 failed; 3 requests to marketplaces\n$/,
    );
    expect(code).toBe(0);
  });

  it('goes on to the marketplace when the store fails, and ends with 1', async () => {
    const sim = await market();
    const env = settings('postgres://a:pa55word@127.0.0.1:9/x', sim.url);
    const { code, stdout } = await run(['doctor', '--json'], env);
    expect(stdout).not.toContain('pa55word');
    const { checks: found } = JSON.parse(stdout) as { checks: { text: string; result: string }[] };
    expect(found[1]).toEqual({
      seller: null,
      result: 'failed',
      text: 'store: database x at 127.0.0.1:9: the connection was refused',
      remedy: matching(/^Check host and port/),
    });
    expect(found.at(-1)).toMatchObject({ seller: 'main', result: 'ok' });
    expect(code).toBe(1);
  });

  it('ends with 2 when the configuration can’t be used, each fault with its remedy', async () => {
    const { code, stdout } = await run(['doctor'], settings('nonsense', 'nonsense'));
    expect(stdout).toMatch(
      /^✗ configuration: MARKETPLACE_URL .*\n {2}→ .*\n✗ configuration: DATABASE_URL .*\n {2}→ .*\n/,
    );
    expect(code).toBe(2);
  });
});
