import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mysqlTarget } from '../../../src/reporting/feeds/mysql.js';
import { postgresTarget } from '../../../src/reporting/feeds/postgres.js';
import { TargetError, type Target } from '../../../src/reporting/feeds/target.js';
import { hasMariaDb } from '../../support/mariadb.js';
import { never } from '../../support/mirror.js';
import { openDatabases, type FeedDatabase } from './databases.js';

const TIMES = { connectMs: 400, answerMs: 60_000, closeMs: 200 };
const OPENERS = {
  PostgreSQL: (url: string, signal: AbortSignal, times: typeof TIMES): Promise<Target> =>
    postgresTarget(new URL(url), 'shop', 'test', signal, times),
  MariaDB: (url: string, signal: AbortSignal, times: typeof TIMES): Promise<Target> =>
    mysqlTarget(new URL(url), 'test', signal, times),
};

/** Accepts connections and never answers. */
let silent: Server;
const accepted = new Set<Socket>();
let databases: readonly FeedDatabase[];
beforeAll(async () => {
  silent = createServer((socket) => void accepted.add(socket.on('error', () => undefined)));
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
  databases = hasMariaDb ? await openDatabases() : [];
});
afterAll(async () => {
  for (const socket of accepted) socket.destroy();
  silent.close();
  for (const database of databases) await database.close();
});

describe.each(['PostgreSQL', 'MariaDB'] as const)('%s', (name) => {
  const open = OPENERS[name];

  it('that accepts a connection but never answers fails the delivery instead of blocking it forever', async () => {
    const { port } = silent.address() as AddressInfo;
    const scheme = name === 'MariaDB' ? 'mysql' : 'postgresql';
    const url = `${scheme}://bi:hidden-word@127.0.0.1:${port}/bi`;
    const failure: unknown = await open(url, never, TIMES).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(TargetError);
    expect(failure).toMatchObject({
      message: expect.stringMatching(/no answer for 1 s/) as string,
      remedy: expect.stringContaining('host and port') as string,
    });
    expect(String(failure)).not.toContain('hidden-word');
    const interrupted = AbortSignal.timeout(100);
    await expect(open(url, interrupted, { ...TIMES, connectMs: 60_000 })).rejects.toThrow();
  });

  it.skipIf(!hasMariaDb)(
    'whose answers no longer arrive is cut off, after its time or when the feed is stopped',
    async () => {
      const database = databases.find((one) => one.name === name);
      if (database === undefined || database.link === null || database.place.kind === 'sqlite') {
        throw new Error('no such server');
      }
      const { url } = database.place;
      const cut = await open(url, never, { ...TIMES, connectMs: 20_000, answerMs: 2_000 });
      database.link.forget();
      await expect(cut.position('items')).rejects.toThrow('no answer for 2 s');
      await cut.close();
      const stop = new AbortController();
      const stopped = await open(url, stop.signal, { ...TIMES, connectMs: 20_000 });
      database.link.forget();
      const [waiting] = await Promise.all([
        stopped.position('items').catch((error: unknown) => error),
        sleep(50).then(() => stop.abort()),
      ]);
      expect(waiting).toBeInstanceOf(TargetError);
      await stopped.close();
    },
  );
});
