import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { startJobs, useServices } from '../../service/support.js';
import { until } from '../../support/until.js';
import { World } from './world.js';

const PASSWORD = 'a-secret-of-the-target';
const LAKE = { name: 'lake', folder: 'lake', format: 'ndjson', views: ['items', 'accounts'] };
let world: World;
beforeAll(async () => {
  world = await World.open();
  world.feeds(LAKE);
  await world.sync();
});
afterAll(() => world.close());
beforeEach(async () => {
  await world.rows('DELETE FROM mirror.feed_views');
  await world.rows('DELETE FROM mirror.feeds');
  rmSync(join(world.folder, 'lake'), { recursive: true, force: true });
  world.feeds(LAKE);
});
useServices();

const cli = (...args: string[]) => world.cli('feed', ...args);
describe('feeds', () => {
  it('are listed, delivered with their rows, and then without a change', async () => {
    expect((await cli()).stdout).toContain('lake');
    expect(await world.printed('feed', 'run', 'lake')).toContain('items: 12 rows');
    expect((await cli('run')).stdout).toContain('items: no change');
    expect((await cli('status')).stdout).toMatch(/lake +items +(?:just now|\d)/);
    expect((await cli('check', 'lake')).stdout).toContain(
      'items: the file is there; nothing differs',
    );
    // It would deliver nothing for a mistyped seller.
    world.feeds({ ...LAKE, sellers: ['ada', 'adda'] });
    const mistyped = await cli('check', 'lake');
    expect(mistyped.code).toBe(1);
    expect(mistyped.stdout).toContain('there is no seller adda: known are ada, bob');
    rmSync(join(world.folder, 'feeds.json'));
    expect((await cli()).stderr).toContain('FEEDS_FILE');
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
    for (const command of ['check', 'run']) {
      const { code, stdout } = await cli(command, 'bi');
      expect(code).toBe(1);
      expect(stdout).toContain(' room');
      expect(stdout).not.toMatch(/(?!\n)\p{Cc}/u);
    }
  });

  it.each([
    ['a folder that can’t be made', { folder: '/proc/nowhere' }, 'make the folder writable'],
    ['a file for a folder', { folder: 'feeds.json' }, 'name a folder'],
    ['a file that is no database', { target: 'sqlite:feeds.json' }, 'name another file'],
    ['a folder for a file', { target: 'sqlite:.' }, 'readable and writable'],
    [
      'a certificate that is not there',
      { target: 'postgresql://127.0.0.1:1/bi?sslrootcert=no.pem' },
      'no.pem',
    ],
  ])('says what to do about %s', async (_, place, words) => {
    world.feeds({ views: ['items'], ...place, name: 'odd' });
    const { code, stdout } = await cli('run', 'odd');
    expect(code).toBe(1);
    expect(stdout).toContain(words);
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

  const serve = () => {
    const own = { ...world.env, MARKETPLACE_URL: '', MARKETPLACE_API_KEY: '', SYNC_CRON: 'off' };
    return startJobs(world, world.marketUrl, own);
  };
  const states = () =>
    world.rows<{ feed: string; delivered: boolean; problem: string | null }>(
      'SELECT feed, delivered_at IS NOT NULL AS delivered, problem FROM mirror.feeds',
    );

  it('deliver after a sync, but wait while more syncs end; a dead target delays nobody else', async () => {
    const dead = { name: 'dead', target: 'postgresql://bi@127.0.0.1:1/bi', views: ['items'] };
    world.feeds(LAKE, { ...LAKE, name: 'calm', folder: 'calm' }, dead);
    await overdue('lake');
    await overdue('dead');
    await world.sync();
    await serve();
    await until(async () => {
      const found = await states();
      const problem = found.find(({ feed }) => feed === 'dead')?.problem ?? '';
      return found.some((one) => one.feed === 'lake' && one.delivered) && problem !== '';
    });
    expect((await states()).find(({ feed }) => feed === 'calm')).toMatchObject({
      delivered: false,
    });
    const text = readFileSync(join(world.folder, 'lake/items.ndjson'), 'utf8');
    expect(text.split('\n')).toHaveLength(13);
    const { stdout } = await world.cli('status');
    expect(stdout).toMatch(/✗ feed dead · failing since .*never delivered/);
    expect(stdout).toContain('ECONNREFUSED');
    expect(stdout).toMatch(/✓ feed lake · current, all delivered/);
  });

  it('deliver at once after `feed run` has succeeded, though a job waits for its next attempt', async () => {
    writeFileSync(join(world.folder, 'lake'), 'not a folder');
    await overdue('lake');
    await world.sync();
    const first = await serve();
    await until(() => first.lines.some(({ message }) => message === 'job delayed'));
    await first.stop();
    rmSync(join(world.folder, 'lake'));
    await world.printed('feed', 'run');
    // The job waits as long as after a day of failures.
    await world.rows(
      `UPDATE bullmq.job SET process_at_ms = process_at_ms + 3600000 WHERE state = 'delayed'`,
    );
    await overdue('lake');
    await serve();
    const waits = `SELECT FROM mirror.feed_views WHERE waiting_since IS NOT NULL`;
    await until(async () => (await world.rows(waits)).length === 0);
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
