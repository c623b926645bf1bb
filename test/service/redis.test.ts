import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { folder, run, settings } from '../cli/support.js';
import { selfSigned } from '../support/certificate.js';
import { useMirror } from '../support/mirror.js';
import { hasRedis, type RedisProcess, redisTitle, startRedis } from '../support/redis.js';
import { until } from '../support/until.js';
import { SHORT, startJobs, useServices } from './support.js';

const mirror = useMirror();
useServices();

const MARKET = 'http://127.0.0.1:1';

/** What `doctor` says of the queue at this address. */
async function doctor(REDIS_URL: string, more: Readonly<Record<string, string>> = {}) {
  const env = settings(mirror().databaseUrl, MARKET, { HEALTH_LISTEN: 'off', REDIS_URL, ...more });
  const { stdout } = await run(['doctor'], env, { spawned: 'NODE_EXTRA_CA_CERTS' in more });
  expect(stdout).not.toContain('wrong-word');
  return stdout;
}

/** Opens a queue as a service does. */
async function queueAt(REDIS_URL: string) {
  const roles = { scheduler: false, worker: false };
  // A server that can’t be asked is waited for, for no longer than this.
  const times = { ...SHORT, connectMs: 1_500, commandMs: 2_000 };
  const { queues, lines } = await startJobs(mirror(), MARKET, { REDIS_URL }, roles, times);
  const fault = async (): Promise<string> => {
    const error: unknown = await queues.ping().catch((reason: unknown) => reason);
    const { message, remedy } = error as { readonly message: string; readonly remedy: string };
    const text = `${message} → ${remedy}`;
    expect(text + JSON.stringify([error, lines])).not.toContain('wrong-word');
    return text;
  };
  return { queues, lines, fault };
}

describe.skipIf(!hasRedis)(redisTitle('the queue on Redis'), () => {
  let redis: RedisProcess;
  beforeAll(async () => {
    redis = await startRedis({ requirepass: 'right-word' });
    const user = async (name: string, ...rules: string[]): Promise<void> => {
      await redis.command('ACL', 'SETUSER', name, 'on', '>word', '~*', '&*', ...rules);
    };
    await user('weak', '+@read');
    await user('plain', '+@all', '-eval');
    await user('blind', '+@all', '-info', '-config');
  });
  afterAll(() => redis.dispose());
  const at = (path = '', login = ':right-word@', scheme = 'redis'): string =>
    `${scheme}://${login}127.0.0.1:${redis.port}${path}`;

  it.each([
    ['a user who may not write', () => at('', 'weak:word@'), /its user may not do all .*NOPERM.* → .*ACL SETUSER/],
    // By scripts go all jobs.
    ['a user who may run no scripts', () => at('', 'plain:word@'), /its user may not do all .*NOPERM.* → .*ACL SETUSER/],
    ['a missing password', () => at('', ''), /wants a password .* → .*redis:\/\/:password@host/],
    ['a wrong one', () => at('', ':wrong-word@'), /refused the user name .*WRONGPASS.* → Correct them/],
    ['TLS at a port without', () => at('', ':right-word@', 'rediss'), /rediss:\/\/ is for ports with TLS/],
    ['a database that the server lacks, whose jobs would go to database 0', () => at('/99'),
      /database 99: the server has no such database .* → Write a smaller number/],
  ])('says what is wrong and what to do about %s, and shows no password', async (_what, url, fault) => {
    const { queues, fault: found } = await queueAt(url());
    expect(await found()).toMatch(fault);
    const dueAt = new Date().toISOString();
    const task = { kind: 'sync', seller: 'acme', dueAt, byHand: true } as const;
    await expect(queues.add('mirror', task)).rejects.toThrow('the queue in Redis');
    expect(await redis.command('KEYS', '*acme*')).toBe('');
  }); // prettier-ignore

  it('uses only its database and prefix, so that others can share the server', async () => {
    const open = (path: string, QUEUE_PREFIX: string) =>
      startJobs(mirror(), MARKET, { REDIS_URL: at(path), QUEUE_PREFIX }, { worker: false });
    const own = await open('/3', 'ours');
    await until(async () => (await own.queues.counts()).mirror.waiting === 1);
    await own.service.stop();
    for (const [path, prefix] of [
      ['/3', 'theirs'],
      ['/4', 'ours'],
    ] as const) {
      const env = { REDIS_URL: at(path), QUEUE_PREFIX: prefix, SYNC_CRON: 'off' };
      const { queues } = await startJobs(mirror(), MARKET, env, { worker: false });
      expect((await queues.counts()).mirror.waiting).toBe(0);
    }
    const keys = (await redis.command('-n', '3', 'KEYS', '*')).split('\n');
    expect(keys.filter((key) => !/^\{(?:ours|theirs)\}:/.test(key))).toEqual([]);
  });

  it('is not ready while the server takes no writes: full, or a replica after a failover', async () => {
    const own = await startRedis();
    onTestFinished(() => own.dispose());
    const { queues, lines, fault } = await queueAt(`redis://127.0.0.1:${own.port}`);
    for (const [off, on, remedy] of [
      ['CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0', /memory is full.* → Raise maxmemory/],
      ['REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE', /read-only replica.* → Name the server/],
    ] as const) {
      await own.command(...off.split(' '));
      expect(await fault()).toMatch(remedy);
      await own.command(...on.split(' '));
      await until(() => queues.ping().then(() => true, () => false)); // prettier-ignore
    }
    // Once a minute at most.
    expect(lines.map(({ message }) => message)).toEqual([
      'the queue is unavailable',
      'the queue is available again',
    ]);
  });

  it('is warned about by doctor and the log, if the server may delete jobs', async () => {
    const own = await startRedis({ 'maxmemory-policy': 'allkeys-lru' });
    onTestFinished(() => own.dispose());
    const url = `redis://127.0.0.1:${own.port}`;
    const warning = 'maxmemory-policy is allkeys-lru, which may delete jobs; set it to noeviction';
    expect(await doctor(url)).toContain(warning);
    const { lines } = await queueAt(url);
    expect(lines.filter(({ message }) => message.includes(warning))).toHaveLength(1);
  });

  it('works with a user who may not ask INFO, without a line of the driver', async () => {
    const printed = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    onTestFinished(() => printed.mockRestore());
    const text = await doctor(at('', 'blind:word@'));
    expect(text).toContain('can’t be checked, because INFO failed');
    expect(text).toContain('queue: Redis answers');
    expect(printed).not.toHaveBeenCalled();
  });

  it('trusts a certificate of NODE_EXTRA_CA_CERTS, and no unknown one', async () => {
    const { key, cert } = selfSigned(['localhost']);
    // By Node, since not every redis-server was built with TLS.
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
    const url = `rediss://:right-word@localhost:${(front.address() as AddressInfo).port}`;
    expect(await (await queueAt(url)).fault()).toMatch(/certificate is not trusted/);
    const file = join(folder(), 'ca.pem');
    writeFileSync(file, cert);
    // Node reads trusted certificates at its start.
    expect(await doctor(url, { NODE_EXTRA_CA_CERTS: file })).toContain('queue: Redis answers');
  });
});
