import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { requestFeeds, feedHandler, retryDelay, watchFeeds } from '../../../src/service/feeds.js';
import { mirrorHandler } from '../../../src/service/handlers.js';
import { readConfig } from '../../../src/config/index.js';
import { silentLog } from '../../../src/domain/log.js';
import { folderTarget } from '../../../src/reporting/feeds/folder.js';
import { openQueues } from '../../../src/service/queue/queues.js';
import { run } from '../../cli/support.js';
import { openMarket, openSynced } from '../../catalogue/market.js';
import { sync } from '../../service/queue/support.js';
import { useMirror } from '../../support/mirror.js';
import { listFeedStates, requestFeedViews } from '../../../src/reporting/feeds-store.js';
import { until } from '../../support/until.js';

const mirror = useMirror();
const PASSWORD = 'a-secret-of-the-target';
let dir: string;
let env: Record<string, string>;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'smfeeds-'));
  env = { DATABASE_URL: mirror().databaseUrl, FEEDS_FILE: join(dir, 'feeds.json') };
  feeds([{ name: 'lake', folder: 'lake', format: 'ndjson', views: ['items', 'accounts'] }]);
  await openSynced(mirror(), 12);
});

function feeds(list: readonly object[]): void {
  writeFileSync(join(dir, 'feeds.json'), JSON.stringify({ feeds: list }));
}

const cli = (...args: string[]) => run(['feed', ...args], env);

describe('feed', () => {
  it('lists the feeds of FEEDS_FILE, and explains how to start without one', async () => {
    expect((await cli()).stdout).toContain('lake');
    const none = await run(['feed'], { DATABASE_URL: mirror().databaseUrl });
    expect(none.stdout).toContain('FEEDS_FILE');
  });

  it('delivers and reports the rows, and delivers nothing the second time', async () => {
    const first = await cli('run', 'lake');
    expect(first).toMatchObject({ code: 0 });
    expect(first.stdout).toContain('items: 12 rows, all of it');
    expect((await cli('run')).stdout).toContain('items: no change');
    expect((await cli('status')).stdout).toMatch(/lake +items/);
    expect((await cli('reset', 'lake', '--view', 'items')).code).toBe(0);
    const again = JSON.parse((await cli('run', '--json')).stdout) as { views: object[] }[];
    expect(again[0]?.views[0]).toMatchObject({ view: 'items', kind: 'all', rows: 12 });
  });

  it('check names a mistyped seller, because the feed would deliver nothing for it', async () => {
    const lake = { name: 'lake', folder: 'lake', format: 'ndjson', views: ['items'] };
    feeds([{ ...lake, sellers: ['main', 'mian'] }]);
    const { code, stdout } = await cli('check', 'lake');
    expect(stdout).toContain('there is no seller mian: known are main');
    expect(code).toBe(1);
  });

  it('status shows a running first load with its rows so far', async () => {
    const target = folderTarget(join(dir, 'lake'), 'ndjson');
    const shape = {
      view: 'items',
      columns: [],
      key: ['item_id'],
      indexed: [],
      isMarked: false,
      sellers: null,
    };
    const state = { id: 'a', epoch: 'e', cursor: '1', shape: 's', after: null, rows: 4711 };
    await target.beginLoad(shape, await target.position('items'), state);
    const { stdout } = await cli('status');
    expect(stdout).toMatch(/lake +items +first load: 4,711 rows so far/);
    expect(stdout).toMatch(/lake +accounts +never/);
    expect((await cli('run')).code).toBe(0);
    await target.beginLoad(shape, await target.position('items'), state);
    expect((await cli('status')).stdout).toMatch(/items +\S+ \S+; all again: 4,711 rows so far/);
  });

  it('status lists each view once, also if the target fails after the first', async () => {
    expect((await cli('run')).code).toBe(0);
    writeFileSync(join(dir, 'lake/accounts/manifest.json'), '');
    const { code, stdout } = await cli('status', '--json');
    expect(code).toBe(1);
    const rows = JSON.parse(stdout) as { view: string; problem: string }[];
    expect(rows.map(({ view }) => view)).toEqual(['items', 'accounts']);
    for (const { problem } of rows) expect(problem).toContain('accounts/manifest.json is damaged');
  });

  it('fails if the folder can’t be created, as in /proc', async () => {
    feeds([{ name: 'odd', folder: '/proc/nowhere', views: ['items'] }]);
    const { code, stdout } = await run(['feed', 'run'], env, { spawned: true });
    expect(code).toBe(1);
    expect(stdout).toContain('make the folder writable');
  });

  it('reports a problem of a target without its password', async () => {
    writeFileSync(join(dir, 'password'), PASSWORD, { mode: 0o600 });
    feeds([
      {
        name: 'bi',
        target: 'postgresql://bi@127.0.0.1:1/bi',
        passwordFile: 'password',
        views: ['items'],
      },
    ]);
    for (const command of [['check', 'bi'], ['run', 'bi'], ['status']]) {
      const { code, stdout, stderr } = await cli(...command);
      expect(code).toBe(1);
      expect(stdout + stderr).toContain('check the host and port');
      expect(stdout + stderr).not.toContain(PASSWORD);
    }
    expect((await cli('list')).stdout).toContain('postgresql://127.0.0.1:1/bi');
    const rows = await mirror().rows('SELECT f::text FROM mirror.feeds f');
    expect(JSON.stringify(rows)).not.toContain(PASSWORD);
  });

  it('prints no escape sequences from the target’s server', async () => {
    const fields = ['SFATAL', 'CXX000', 'Mno \u001B]0;owned\u0007\u001B[2J room'];
    const body = Buffer.from(`${fields.join('\0')}\0\0`);
    const head = Buffer.alloc(5, 'E');
    head.writeInt32BE(body.length + 4, 1);
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', () => socket.end(Buffer.concat([head, body])));
    });
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const target = `postgresql://bi@127.0.0.1:${port}/bi?sslmode=disable`;
    feeds([{ name: 'bi', target, views: ['items'] }]);
    for (const command of [
      ['check', 'bi'],
      ['run', 'bi'],
    ]) {
      const { code, stdout } = await cli(...command);
      expect(code).toBe(1);
      expect(stdout).toContain(' room');
      expect(stdout).not.toMatch(/(?!\n)\p{Cc}/u);
    }
  });

  it.each([
    ['a file for a folder', { folder: 'feeds.json' }, 'name a folder'],
    ['a file that is no database', { target: 'sqlite:feeds.json' }, 'name another file'],
    ['a folder for a file', { target: 'sqlite:.' }, 'readable and writable'],
    [
      'a certificate that is not there',
      { target: 'postgresql://127.0.0.1:1/bi?sslrootcert=no.pem' },
      'no.pem',
    ],
  ])('says what to do about %s', async (_, place, words) => {
    feeds([{ name: 'odd', views: ['items'], ...place }]);
    const { code, stdout } = await cli('check', 'odd');
    expect(code).toBe(1);
    expect(stdout).toContain(words);
  });

  it.each([
    ['no target', { name: 'a', views: ['items'] }, 'set exactly one of them'],
    [
      'two targets',
      { name: 'a', target: 'sqlite:x', folder: 'y', views: ['items'] },
      'exactly one',
    ],
    ['no address', { name: 'a', target: 'reports', views: ['items'] }, 'is not an address'],
    ['an unknown word', { name: 'a', folder: 'x', views: ['items'], often: true }, 'often'],
    ['no views', { name: 'a', folder: 'x', views: [] }, 'names no view'],
    ['no seller', { name: 'a', folder: 'x', views: ['items'], sellers: [] }, 'names no seller'],
    ['an empty folder', { name: 'a', folder: '', views: ['items'] }, 'is empty'],
    [
      'the password itself',
      { name: 'a', target: 'mysql://u@h/d', views: ['items'], password: 'hidden' },
      'the unknown field "password"',
    ],
    ['a bad time', { name: 'a', folder: 'x', views: ['items'], when: 'at night' }, 'when'],
    [
      'a bare % in a password',
      { name: 'a', target: 'mysql://u:100%@h/d', views: ['items'] },
      'write % as %25',
    ],
    ['a bad name', { name: '../a', folder: 'x', views: ['items'] }, 'is not a name'],
  ])('refuses a file with %s, and names the place', async (_, feed, words) => {
    feeds([feed]);
    const { code, stderr } = await cli('list');
    expect(code).toBe(2);
    expect(stderr).toContain('FEEDS_FILE feeds[0]');
    expect(stderr).toContain(words);
  });

  it('reports all problems of the file at once', async () => {
    feeds([
      { name: 'a', folder: 'x', views: ['items'], when: 'never' },
      { name: 'a', target: 'x', views: ['items'] },
    ]);
    const { stderr } = await cli('list');
    expect(stderr.match(/- FEEDS_FILE feeds/g)).toHaveLength(3);
  });
});

describe('feeds of a service', () => {
  it('deliver as jobs after a sync, once even if requested several times', async () => {
    const config = readConfig(env, { cwd: dir, needs: 'store', cronFault: () => null });
    const app = { config, database: { url: mirror().databaseUrl }, db: mirror().db } as never;
    const queues = await openQueues({
      target: null,
      databaseUrl: mirror().databaseUrl,
      prefix: 'test',
      keepJobsDays: 1,
      applicationName: 'test',
      log: silentLog,
    });
    try {
      await requestFeeds(app, queues, silentLog);
      await requestFeeds(app, queues, silentLog);
      expect((await queues.counts()).feeds.waiting).toBe(1);
      queues.work('feeds', feedHandler(app), { concurrency: 1 });
      await until(async () => (await listFeedStates(mirror().db))[0]?.deliveredAt instanceof Date);
      await until(async () => (await queues.counts()).feeds.active === 0);
      expect((await queues.counts()).feeds).toMatchObject({ waiting: 0, failed: 0 });
      expect((await cli('run')).stdout).toContain('items: no change');
    } finally {
      await queues.close();
    }
  });

  it('with a dead target retry with growing pauses, and delay neither syncs nor other feeds', async () => {
    feeds([
      { name: 'dead', target: 'postgresql://bi@127.0.0.1:1/bi', views: ['items'] },
      { name: 'lake', folder: 'lake', format: 'ndjson', views: ['items'] },
    ]);
    const config = readConfig(env, { cwd: dir, needs: 'store', cronFault: () => null });
    const { db, databaseUrl } = mirror();
    const market = await openMarket(mirror(), 13);
    const withMarketplace = (_: unknown, _options: unknown, work: (deps: unknown) => unknown) =>
      work(market.deps);
    const sellers = [{ name: 'main' }];
    const app = {
      config: { ...config, sellers },
      database: { url: databaseUrl },
      db,
      withMarketplace,
    } as never;
    const queues = await openQueues({
      target: null,
      databaseUrl,
      prefix: 'test',
      keepJobsDays: 1,
      applicationName: 'test',
      log: silentLog,
    });
    const stateOf = async (name: string) =>
      (await listFeedStates(db)).find(({ feed }) => feed === name);
    try {
      queues.work('feeds', feedHandler(app), { concurrency: 2 });
      queues.work('mirror', mirrorHandler(app, queues), { concurrency: 1 });
      for (const n of [1, 2]) {
        const { deliveredAt: before = null } = (await stateOf('lake')) ?? {};
        await queues.add('mirror', sync('main'), `sync-${n}`);
        await until(async () => (await queues.counts()).mirror.completed === n);
        await until(async () => {
          const { deliveredAt = null } = (await stateOf('lake')) ?? {};
          return deliveredAt !== null && deliveredAt > (before ?? new Date(0));
        });
        await until(async () => (await queues.counts()).feeds.delayed === 1);
      }
      // Requested twice, but delivered only once until its pause is over.
      expect(await stateOf('dead')).toMatchObject({ failures: 1, deliveredAt: null });
      expect((await queues.counts()).mirror.failed).toBe(0);
      const { stdout } = await run(['status'], env);
      expect(stdout).toMatch(/✗ feed dead · behind since .*never delivered/);
      expect(stdout).toMatch(/✓ feed lake · current, all delivered/);
    } finally {
      await queues.close();
    }
    expect([1, 2, 3, 7, 8, 99].map(retryDelay)).toEqual(
      [30, 60, 120, 1_920, 3_600, 3_600].map((seconds) => seconds * 1_000),
    );
  });

  it('deliver at once after a successful `feed run`, even if the pause after a failure is not over', async () => {
    feeds([{ name: 'lake', folder: 'file/lake', format: 'ndjson', views: ['items'] }]);
    writeFileSync(join(dir, 'file'), 'no folder');
    const config = readConfig(env, { cwd: dir, needs: 'store', cronFault: () => null });
    const { db, databaseUrl } = mirror();
    const app = { config, database: { url: databaseUrl }, db } as never;
    const queues = await openQueues({
      target: null,
      databaseUrl,
      prefix: 'test',
      keepJobsDays: 1,
      applicationName: 'test',
      log: silentLog,
    });
    const state = async () => (await listFeedStates(db))[0];
    try {
      queues.work('feeds', feedHandler(app), { concurrency: 1 });
      await requestFeeds(app, queues, silentLog);
      await until(async () => (await queues.counts()).feeds.delayed === 1);
      expect((await run(['status'], env)).stdout).toMatch(/✗ feed lake · behind since/);
      rmSync(join(dir, 'file'));
      expect((await cli('run', 'lake')).code).toBe(0);
      expect((await run(['status'], env)).stdout).toMatch(/✓ feed lake · current, all delivered/);
      expect(await state()).toMatchObject({ failures: 0, problem: null });
      const { deliveredAt: byHand } = (await state()) ?? {};
      await requestFeeds(app, queues, silentLog);
      await until(async () => {
        const { deliveredAt = null } = (await state()) ?? {};
        return deliveredAt !== null && deliveredAt > (byHand ?? new Date());
      });
      await until(async () => (await queues.counts()).feeds.delayed === 0);
    } finally {
      await queues.close();
    }
  });

  it('get a new job if the queue has lost theirs', async () => {
    const config = readConfig(env, { cwd: dir, needs: 'store', cronFault: () => null });
    await requestFeedViews(mirror().db, 'lake', ['items']);
    const asked: string[] = [];
    const queues = {
      addFeed: (feed: string) => {
        asked.push(feed);
        return Promise.resolve({ jobId: feed, added: true });
      },
    };
    const stop = watchFeeds({ config, db: mirror().db } as never, queues, silentLog);
    await until(() => Promise.resolve(asked.length > 0));
    stop?.();
    expect(asked).toEqual(['lake']);
  });
});
