import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Secret } from '../../../src/domain/secret.js';
import { warningsIn } from '../../../src/service/queue/redis.js';
import { selfSigned } from '../../support/certificate.js';
import {
  hasRedis,
  type RedisProcess,
  redisTarget,
  redisTitle,
  startRedis,
} from '../../support/redis.js';
import { until } from '../../support/until.js';
import { SHORT, succeeds, sync, testQueue, untilCounts, work } from './support.js';

const INDEX = fileURLToPath(new URL('../../../dist/service/queue/queues.js', import.meta.url));

describe.skipIf(!hasRedis)(redisTitle('the queue on Redis'), () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis({ requirepass: 'right-word' });
  });
  afterAll(() => redis.dispose());
  const right = new Secret('right-word');

  it('reports a wrong password without showing it', async () => {
    const password = new Secret('wrong-word');
    const test = testQueue(redisTarget(redis, { password }), '');
    const queues = await test.open();
    const error: unknown = await queues.ping().catch((reason: unknown) => reason);
    expect(String(error)).toContain('WRONGPASS');
    expect(JSON.stringify([String(error), error, test.lines])).not.toContain('wrong-word');
  });

  it('uses only its database and prefix, so that others can share the server', async () => {
    const target = redisTarget(redis, { password: right, database: 3 });
    const one = testQueue(target, '');
    await (await one.open()).add('mirror', sync('acme'));
    const other = await testQueue(target, '').open();
    expect((await other.counts()).mirror.waiting).toBe(0);
    const elsewhere = testQueue({ ...target, database: 4 }, '');
    const there = await elsewhere.open({ prefix: one.options.prefix });
    expect((await there.counts()).mirror.waiting).toBe(0);
    const keys = await redis.command('-n', '3', 'KEYS', '*');
    for (const key of keys.split('\n')) expect(key).toMatch(/^\{test-[0-9a-f]{12}\}:/);
  });

  it('refuses a database that the server lacks: jobs would go to database 0, among those of others', async () => {
    const target = redisTarget(redis, { password: right, database: 99 });
    const queues = await testQueue(target, '').open();
    await expect(queues.add('mirror', sync('acme'))).rejects.toMatchObject({
      message: expect.stringContaining('the server has no database 99') as string,
      remedy: expect.stringContaining('smaller number') as string,
    });
    expect(await redis.command('KEYS', '*acme*')).toBe('');
  });

  it.each([
    ['a missing password', {}, /wants a password/, /redis:\/\/:password@host/],
    ['a wrong one', { password: new Secret('wrong') }, /refused the user name/, /Correct them/],
    [
      'TLS at a port without',
      { password: right, tls: true },
      /Redis at/,
      /rediss:\/\/ is for ports with TLS/,
    ],
  ])('says what is wrong and what to do about %s', async (_what, more, message, remedy) => {
    const queues = await testQueue(redisTarget(redis, more), '').open();
    await expect(queues.ping()).rejects.toMatchObject({
      message: expect.stringMatching(message) as string,
      remedy: expect.stringMatching(remedy) as string,
    });
  });

  it('fails pings while the server takes no writes: full, or a replica after a failover', async () => {
    const own = await startRedis();
    onTestFinished(() => own.dispose());
    const test = testQueue(redisTarget(own), '');
    const queues = await test.open();
    for (const [off, on, remedy] of [
      ['CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0', /maxmemory/],
      ['REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE', /takes writes/],
    ] as const) {
      await own.command(...off.split(' '));
      await expect(queues.ping()).rejects.toMatchObject({
        remedy: expect.stringMatching(remedy) as string,
      });
      await own.command(...on.split(' '));
      await until(() => succeeds(queues.ping()));
    }
    expect(test.lines.map(({ message }) => message)).toEqual([
      'the queue is unavailable',
      'the queue is available again',
    ]);
  });

  it.each([
    ['~* &* +@all -@scripting', 'run scripts (EVAL)'],
    ['~* &* +@all -@stream', 'add to streams (XADD)'],
    ['~* &* +@all -@blocking', 'wait for jobs (BZPOPMIN)'],
    ['~* &* +@read', 'write keys (SET)'],
  ])('says at once what its user may not do: %s', async (rules, what) => {
    const own = await startRedis();
    onTestFinished(() => own.dispose());
    await own.command('ACL', 'SETUSER', 'weak', 'on', '>word', ...rules.split(' '));
    const target = redisTarget(own, { username: 'weak', password: new Secret('word') });
    const queues = await testQueue(target, '').open();
    await expect(queues.ping()).rejects.toThrow(`its user may not ${what}`);
    expect(await own.command('KEYS', '*')).toMatch(/^$|doctor.*:key$/);
  });

  it('warns, without a line of the driver, when INFO is refused', async () => {
    const own = await startRedis();
    onTestFinished(() => own.dispose());
    await own.command(
      'ACL',
      'SETUSER',
      'blind',
      'on',
      '>word',
      '~*',
      '&*',
      '+@all',
      ...['-info', '-config'],
    );
    const printed = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    onTestFinished(() => printed.mockRestore());
    const target = redisTarget(own, { username: 'blind', password: new Secret('word') });
    const test = testQueue(target, '');
    const queues = await test.open();
    work(queues);
    await queues.add('mirror', sync('acme'));
    await untilCounts(queues, { completed: 1 });
    expect(test.lines.map(({ message }) => message).join()).toContain(
      'can’t be checked, because INFO failed',
    );
    expect(printed).not.toHaveBeenCalled();
    expect(await own.command('KEYS', '*doctor*')).toBe('');
  });

  /** Puts TLS in front of the server. By Node, since not every redis-server was built with TLS. */
  async function startTlsProxy(): Promise<{ port: number; cert: string }> {
    const { key, cert } = selfSigned(['localhost']);
    const front = createServer({ key, cert }, (near) => {
      const far = connect(redis.port, redis.host);
      near.pipe(far).pipe(near);
      for (const socket of [near, far]) socket.on('error', () => undefined);
      near.on('close', () => far.destroy());
    });
    front.on('tlsClientError', () => undefined);
    front.listen(0, '127.0.0.1');
    await once(front, 'listening');
    onTestFinished(() => void front.close());
    return { port: (front.address() as AddressInfo).port, cert };
  }

  it('rejects an untrusted certificate', async () => {
    const { port } = await startTlsProxy();
    const node = { host: 'localhost', port };
    const queues = await testQueue(redisTarget(node, { password: right, tls: true }), '').open();
    await expect(queues.ping()).rejects.toThrow(/certificate/);
  });

  it('connects over TLS to a server with a trusted certificate', async () => {
    const { port, cert } = await startTlsProxy();
    const folder = await mkdtemp(join(tmpdir(), `seller-mirror-tests-${process.pid}-`));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, 'ca.pem');
    await writeFile(file, cert);
    // Node reads trusted certificates at its start, so this needs another process.
    const script = `
      const { openQueues } = await import(process.argv[1]);
      const silent = { debug() {}, info() {}, warn() {}, error() {}, child: () => silent };
      const options = JSON.parse(process.argv[2]);
      options.target.password = { reveal: () => 'right-word' };
      const queues = await openQueues({ ...options, log: silent });
      await queues.ping();
      await queues.close();
      console.log('pong');
    `;
    const target = redisTarget({ host: 'localhost', port }, { tls: true });
    const given = { ...testQueue(target, '').options, log: undefined, times: SHORT };
    const args = ['--input-type=module', '-e', script, '--', INDEX, JSON.stringify(given)];
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: file };
    const { stdout } = await promisify(execFile)(process.execPath, args, { env });
    expect(stdout.trim()).toBe('pong');
  });
});

const info = (facts: Record<string, string>): string =>
  Object.entries({
    redis_version: '7.2.4',
    maxmemory_policy: 'noeviction',
    ...facts,
  })
    .map(([name, value]) => `${name}:${value}`)
    .join('\r\n');

describe('a warning about a Redis server', () => {
  it('is not given without a problem or a report', () => {
    expect(warningsIn(info({}))).toEqual([]);
    expect(warningsIn('')).toEqual([]);
  });

  it.each([
    ['redis_version', '6.0.16', 'version 6.0.16 is too old; at least 6.2 is required'],
    ['redis_version', '5.0.7', 'version 5.0.7 is too old'],
    ['maxmemory_policy', 'allkeys-lru', 'set it to noeviction'],
  ])('is given for %s %s', (name, value, warning) => {
    expect(warningsIn(info({ [name]: value })).join()).toContain(warning);
  });

  it.each(['6.2.0', '7.0.15', '8.4.0', '10.0.1'])('is not given for version %s', (version) => {
    expect(warningsIn(info({ redis_version: version }))).toEqual([]);
  });

  it.skipIf(!hasRedis)(redisTitle('is logged once when the queue is opened'), async () => {
    const redis = await startRedis({ 'maxmemory-policy': 'allkeys-lru' });
    try {
      const test = testQueue(redisTarget(redis), '');
      const queues = await test.open();
      await queues.ping();
      const warnings = test.lines.filter(({ level }) => level === 'warn');
      expect(warnings.map(({ message }) => message)).toEqual([
        expect.stringContaining('maxmemory-policy is allkeys-lru'),
      ]);
    } finally {
      await redis.dispose();
    }
  });
});
