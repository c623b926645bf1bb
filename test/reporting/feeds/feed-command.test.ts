import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { start } from '../../cli/support.js';
import { until } from '../../support/until.js';
import { World } from './world.js';

const PASSWORD = 'a-secret-of-the-target';
const LAKE = { name: 'lake', folder: 'lake', format: 'ndjson', views: ['items', 'accounts'] };
let world: World;
beforeAll(async () => {
  world = await World.open();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.empty();
  rmSync(join(world.folder, 'lake'), { recursive: true, force: true });
  world.feeds(LAKE);
  await world.sync();
});

const cli = (...args: string[]) => world.cli('feed', ...args);
const statusOf = async (feed: string): Promise<Record<string, unknown>> => {
  const { stdout } = await cli('status', '--json');
  const rows = JSON.parse(stdout) as Record<string, unknown>[];
  return rows.find((row) => row['feed'] === feed) ?? {};
};

describe('feed', () => {
  it('lists the feeds of FEEDS_FILE, and explains how to start without one', async () => {
    expect((await cli()).stdout).toContain('lake');
    rmSync(join(world.folder, 'feeds.json'));
    const { stderr } = await cli();
    expect(stderr).toContain('FEEDS_FILE');
  });

  it('delivers and reports the rows, and then that nothing has changed', async () => {
    const first = await cli('run', 'lake');
    expect(first).toMatchObject({ code: 0 });
    expect(first.stdout).toContain('items: 12 rows');
    expect((await cli('run')).stdout).toContain('items: no change');
    expect((await cli('status')).stdout).toMatch(/lake +items +just now|lake +items +\d/);
    const { stdout } = await cli('check', 'lake');
    expect(stdout).toContain('items: the file is there; nothing differs');
  });

  it('check names a mistyped seller, because the feed would deliver nothing for it', async () => {
    world.feeds({ ...LAKE, sellers: ['ada', 'adda'] });
    const { code, stdout } = await cli('check', 'lake');
    expect(stdout).toContain('there is no seller adda: known are ada, bob');
    expect(code).toBe(1);
  });

  it('fails if the folder can’t be created, as in /proc', async () => {
    world.feeds({ name: 'odd', folder: '/proc/nowhere', views: ['items'] });
    const { code, stdout } = await cli('run');
    expect(code).toBe(1);
    expect(stdout).toContain('make the folder writable');
  });

  it('reports a problem of a target without its password', async () => {
    writeFileSync(join(world.folder, 'password'), PASSWORD, { mode: 0o600 });
    const target = 'postgresql://bi@127.0.0.1:1/bi';
    world.feeds({ name: 'bi', target, passwordFile: 'password', views: ['items'] });
    for (const command of [['check', 'bi'], ['run', 'bi'], ['take-over', 'bi'], ['status']]) {
      const { code, stdout, stderr } = await cli(...command);
      expect(code).toBe(1);
      expect(stdout + stderr).toContain('check the host and port');
      expect(stdout + stderr).not.toContain(PASSWORD);
    }
    expect((await cli('list')).stdout).toContain('postgresql://127.0.0.1:1/bi');
    const rows = await world.rows('SELECT f::text FROM mirror.feeds f');
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
    world.feeds({ name: 'bi', target, views: ['items'] });
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
    world.feeds({ name: 'odd', views: ['items'], ...place });
    const { code, stdout } = await cli('check', 'odd');
    expect(code).toBe(1);
    expect(stdout).toContain(words);
  });
});

describe('FEEDS_FILE', () => {
  const folder = { name: 'a', folder: 'x', views: ['items'] };
  const mysql = { name: 'a', views: ['items'] };
  const codes = ['purchases.code', 'purchases.answered_code'];
  it.each<[string, object, string]>([
    ['no target', { name: 'a', views: ['items'] }, 'set exactly one of them'],
    ['two targets', { ...folder, target: 'sqlite:x' }, 'exactly one'],
    ['no address', { ...mysql, target: 'reports' }, 'is not an address'],
    ['an unknown word', { ...folder, often: true }, 'often'],
    ['no views', { ...folder, views: [] }, 'names no view'],
    ['no seller', { ...folder, sellers: [] }, 'names no seller'],
    ['an empty folder', { ...folder, folder: '' }, 'is empty'],
    [
      'the password itself',
      { ...mysql, target: 'mysql://u@h/d', password: 'hidden' },
      '"password"',
    ],
    ['a bad time', { ...folder, when: 'at night' }, 'when'],
    ['a bare % in a password', { ...mysql, target: 'mysql://u:100%@h/d' }, 'write % as %25'],
    ['a bad name', { ...folder, name: '../a' }, 'is not a name'],
    ['columns of another view', { ...folder, columns: { purchases: ['price'] } }, 'purchases'],
    [
      'a hash without salt',
      { ...folder, views: ['purchases'], hash: codes },
      'set both or neither',
    ],
    [
      'a hashed key',
      { ...folder, hash: ['items.item_id'], hashSaltFile: 'salt' },
      'which is part of a key',
    ],
    [
      'one of two code columns hashed',
      { ...folder, views: ['purchases'], hash: ['purchases.code'], hashSaltFile: 'salt' },
      'leaves whole codes in purchases: name purchases.answered_code as well',
    ],
    ['a short salt', { ...folder, hash: ['items.name'], hashSaltFile: 'short' }, 'fewer than 16'],
    ...['mysql://h/d?ssl-mode=REQUIRED', 'mysql://h/d?sslmode=require', 'mysql://h/d?useSSL=1'].map(
      (target): [string, object, string] => [
        'encryption that would be ignored',
        { ...mysql, target },
        'use ssl=true',
      ],
    ),
    [
      'a TLS mode that may be ignored',
      { ...mysql, target: 'postgresql://h/d?sslmode=prefer' },
      'sslmode',
    ],
  ])('is refused with %s, and the place is named', async (_, feed, words) => {
    writeFileSync(join(world.folder, 'salt'), 'a long and random salt', { mode: 0o600 });
    writeFileSync(join(world.folder, 'short'), 'short', { mode: 0o600 });
    world.feeds(feed);
    const { code, stderr } = await cli('list');
    expect(code).toBe(2);
    expect(stderr).toContain('FEEDS_FILE feeds[0]');
    expect(stderr).toContain(words);
  });

  it('is refused with all its problems, and with two feeds that fill the same rows', async () => {
    world.feeds({ ...folder, when: 'never' }, { name: 'a', target: 'x', views: ['items'] });
    expect((await cli('list')).stderr.match(/- FEEDS_FILE feeds/g)).toHaveLength(3);
    const target = 'mysql://reports@db/reports';
    const other = 'mysql://another@db:3306/reports';
    world.feeds({ ...mysql, target }, { name: 'b', target: other, views: ['accounts', 'items'] });
    expect((await cli('list')).stderr).toContain('that feed a fills, too');
    world.feeds({ ...mysql, target }, { ...mysql, name: 'b', target: 'mysql://reports@db/other' });
    expect((await cli('list')).code).toBe(0);
  });
});

describe('feeds of a service', () => {
  /** Makes a feed overdue, so that it does not wait for more syncs to end. */
  const overdue = async (feed: string): Promise<void> => {
    await world.rows(
      `INSERT INTO mirror.feed_views (feed, view_name, waiting_since)
       VALUES ('${feed}', 'items', now() - interval '11 minutes')
       ON CONFLICT (feed, view_name) DO UPDATE SET waiting_since = excluded.waiting_since`,
    );
  };

  it('deliver after a sync, but wait while more syncs end; a dead target delays nobody else', async () => {
    const dead = { name: 'dead', target: 'postgresql://bi@127.0.0.1:1/bi', views: ['items'] };
    world.feeds(LAKE, { ...LAKE, name: 'calm', folder: 'calm' }, dead);
    await overdue('lake');
    await overdue('dead');
    await world.sync();
    const worker = start(['run'], { ...world.env, HEALTH_LISTEN: 'off', LOG_LEVEL: 'warn' });
    const deliveredAt = async (feed: string) => (await statusOf(feed))['delivered_at'];
    await until(async () => (await deliveredAt('lake')) !== null);
    await until(async () => String((await statusOf('dead'))['problem']).includes('ECONNREFUSED'));
    expect(await deliveredAt('calm')).toBeNull();
    worker.process.kill('SIGTERM');
    await worker.ended;
    const text = readFileSync(join(world.folder, 'lake/items.ndjson'), 'utf8');
    expect(text.split('\n')).toHaveLength(13);
    const { stdout } = await world.cli('status');
    expect(stdout).toMatch(/✗ feed dead · failing since .*never delivered/);
    expect(stdout).toMatch(/✓ feed lake · current, all delivered/);
  });

  it('deliver at once after `feed run` has succeeded, though a job waits for its next attempt', async () => {
    const env = { ...world.env, HEALTH_LISTEN: 'off' };
    writeFileSync(join(world.folder, 'lake'), 'not a folder');
    await overdue('lake');
    const first = start(['run'], env);
    await until(async () => (await statusOf('lake'))['problem'] !== null);
    await until(() => first.stdout().includes('job delayed'));
    first.process.kill('SIGTERM');
    await first.ended;
    rmSync(join(world.folder, 'lake'));
    await world.printed('feed', 'run');
    // The job waits as long as after a day of failures.
    await world.rows(
      `UPDATE bullmq.job SET process_at_ms = process_at_ms + 3600000 WHERE state = 'delayed'`,
    );
    await overdue('lake');
    const second = start(['run'], env);
    const waits = `SELECT FROM mirror.feed_views WHERE waiting_since IS NOT NULL`;
    await until(async () => (await world.rows(waits)).length === 0);
    second.process.kill('SIGTERM');
    await second.ended;
  });
});

describe('restore', () => {
  it('leaves the tables of feeds to their owner, and takes them over only when told to', async () => {
    await world.printed('feed', 'run');
    const file = join(world.folder, 'backup.tar.gz');
    await world.printed('backup', file);
    const restored = await world.printed('restore', file, '--replace');
    expect(restored).toMatch(/feed lake: .*\n.*feed take-over lake/);
    expect((await world.deliver()).problem).toContain('another store');
    const taken = await world.printed('restore', file, '--replace', '--take-over-feeds');
    expect(taken).toContain('feed lake: this store fills its tables');
    expect((await world.deliver()).problem).toBeNull();
  });
});
