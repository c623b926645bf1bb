import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { performMirrorTask } from '../../src/catalogue/mirror-task.js';
import { seededCatalogue } from '../../src/simulator/index.js';
import { CopyIn } from '../../src/db/copy.js';
import { UserError } from '../../src/domain/user-error.js';
import { type SellerLock, lockSeller } from '../../src/db/locks.js';
import { KEY, never, useMirror } from '../support/mirror.js';
import { type Db, openDb } from '../../src/db/db.js';
import { readBinding } from '../../src/catalogue/sellers-store.js';
import { readSellerStatuses } from '../../src/catalogue/status-store.js';
import { startProxy, type TcpProxy } from '../support/tcp-proxy.js';

const mirror = useMirror();

/** Shorter than the product's. */
const TIMES = {
  connectMs: 2_000,
  queryMs: 500,
  closeMs: 200,
  watch: { silentMs: 200, probeMs: 200 },
};

let proxy: TcpProxy;
let db: Db;
/** Different in each test, since the server frees the locks of lost connections a little later. */
let seller: string;

beforeEach(async () => {
  const url = new URL(mirror().databaseUrl);
  proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
  url.hostname = proxy.host;
  url.port = String(proxy.port);
  seller = `seller-${randomUUID()}`;
  db = openDb(url.href, 'half-open', TIMES);
});

afterEach(async () => {
  await db.close();
  await proxy.close();
});

/** Begins a COPY on a run's connection. */
async function copyOn({ client }: SellerLock): Promise<CopyIn> {
  await client.query('CREATE TEMP TABLE t (a int)');
  return new CopyIn(client, 't (a)');
}

describe('a run’s connection that dies silently', () => {
  type Case = [what: string, work: (lock: SellerLock, lose: () => unknown) => Promise<unknown>];
  const nextStatement: Case[1] = async ({ client }, lose) => {
    await lose();
    return client.query('SELECT 2');
  };

  it.each<Case>([
    ['the next statement, which the server never received', nextStatement],
    [
      'the statement whose reply is lost',
      async ({ client }, lose) => {
        const statement = client.query('SELECT pg_sleep(0.1)');
        statement.catch(() => undefined);
        await sleep(30);
        await lose();
        return statement;
      },
    ],
    [
      'the COPY whose end is lost, while server and client wait for each other',
      async (lock, lose) => {
        const copy = await copyOn(lock);
        await sleep(50);
        await lose();
        return copy.end();
      },
    ],
  ])('fails %s', async (_, work) => {
    const lock = await lockSeller(db, seller);
    await expect(work(lock, () => proxy.forget())).rejects.toThrow(UserError);
    expect(() => lock.assertHeld()).toThrow(UserError);
    await lock.release();
    expect(await readBinding(db, 'main')).toBeNull();
  });

  it('fails its statement even if no other connection can reach the server, and releasing the lock does not hang', async () => {
    const [lock, other] = [await lockSeller(db, seller), await lockSeller(db, `${seller}-2`)];
    await expect(nextStatement(lock, () => proxy.set('swallow'))).rejects.toThrow(UserError);
    await Promise.all([lock.release(), other.release()]);
  });

  it('has TCP keepalives that let the server notice and free the lock within two minutes', async () => {
    const lock = await lockSeller(db, seller);
    const { rows } = await lock.client.query<{ name: string; setting: string }>(
      `SELECT name, setting FROM pg_settings WHERE name ~ '^tcp_' ORDER BY name`,
    );
    await lock.release();
    expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
      tcp_keepalives_count: '3',
      tcp_keepalives_idle: '30',
      tcp_keepalives_interval: '10',
      tcp_user_timeout: '60000',
    });
  });
});

describe('a run’s connection that is merely silent', () => {
  it.each<[what: string, work: (lock: SellerLock) => Promise<unknown>]>([
    ['the server works, however long', ({ client }) => client.query('SELECT pg_sleep(1.5)')],
    [
      'no statement runs, also within a transaction',
      async ({ client }) => {
        await client.query('BEGIN');
        await sleep(1_000);
        await client.query('COMMIT');
      },
    ],
    [
      'a COPY waits for a slow list',
      async (lock) => {
        const copy = await copyOn(lock);
        await sleep(1_000);
        await copy.end();
      },
    ],
    [
      'it waits for another session’s lock',
      async ({ client }) => {
        const other = await lockSeller(db, `${seller}-2`);
        await other.client.query('SELECT pg_advisory_lock(4711)');
        const waiting = client.query('SELECT pg_advisory_lock(4711)');
        await sleep(1_000);
        await other.client.query('SELECT pg_advisory_unlock(4711)');
        await Promise.all([waiting, other.release()]);
      },
    ],
  ])('is kept while %s', async (_, work) => {
    const lock = await lockSeller(db, seller);
    await work(lock);
    lock.assertHeld();
    await lock.release();
  });
});

describe('a store that stops responding', () => {
  it('fails ordinary statements after a timeout, and works again once the server responds', async () => {
    expect(await readBinding(db, 'main')).toBeNull();
    await proxy.set('swallow');
    await expect(readBinding(db, 'main')).rejects.toThrow();
    await expect(readSellerStatuses(db)).rejects.toThrow(/timeout/);
    await proxy.set('pass');
    expect(await readBinding(db, 'main')).toBeNull();
  });
});

describe('a job whose connection dies while it reads the list', () => {
  it('is retried until the server has freed the lock, and then succeeds', async () => {
    const catalogue = seededCatalogue({ seed: 7, count: 400 });
    const sim = await mirror().simulate({ sellers: [{ key: KEY, username: 'ada', catalogue }] });
    sim.faults.next('list', { kind: 'slow', chunkBytes: 20_000, pauseMs: 10 });
    const deps = { ...mirror().deps(sim.url), db };
    const retryAt = () => new Date();
    const job = { kind: 'items', dueAt: new Date(), byHand: false, retryAt } as const;
    const first = performMirrorTask(deps, job, never);
    while (sim.log.length < 2) await sleep(5);
    await sleep(100);
    proxy.forget();
    expect(await first).toMatchObject({
      kind: 'later',
      reason: expect.stringMatching(/stopped responding/) as string,
    });
    expect(await performMirrorTask(deps, job, never)).toMatchObject({ kind: 'later' });
    expect(await mirror().items()).toEqual([]);
    // Now the server notices, too.
    proxy.cut();
    let outcome = await performMirrorTask(deps, job, never);
    // An idle connection that was cut may fail another attempt.
    while (outcome.kind !== 'done') outcome = await performMirrorTask(deps, job, never);
    expect(outcome).toMatchObject({ result: { items: { state: 'succeeded' } } });
    expect((await mirror().items()).length).toBe(400);
  });
});
