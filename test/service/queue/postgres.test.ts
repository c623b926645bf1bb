import { MIGRATION_ADVISORY_LOCK_KEY } from 'bullmq';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createTestDatabase } from '../../support/postgres.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';
import { postgresQueue, postgresQueueAt, succeeds, sync, withClient, work } from './support.js';

/** As many finished jobs as a queue keeps, with long ids. */
const MANY_FINISHED = `
  INSERT INTO bullmq.job (queue, id, seq, name, state, data, opts, priority, delay_ms, max_attempts,
                          added_at_ms, finished_at_ms)
  SELECT 'mirror', repeat('x', 80) || i, nextval('bullmq.job_seq'), 'sync', 'completed', '{}', '{}',
         0, 0, 12, 0, extract(epoch FROM now())::bigint * 1000 - 100000 + i
    FROM generate_series(1, 20000) i`;

describe('the queue on PostgreSQL', () => {
  it('finishes jobs quickly among 20,000 kept ones, even on a server with little memory', async () => {
    const testQueue = await postgresQueue();
    const { databaseUrl } = testQueue.options;
    const database = new URL(databaseUrl).pathname.slice(1);
    await withClient(databaseUrl, (client) =>
      client.query(`ALTER DATABASE ${database} SET work_mem = '64kB'`),
    );
    const queues = await testQueue.open();
    await queues.ping();
    await withClient(databaseUrl, async (client) => {
      await client.query(MANY_FINISHED);
      await client.query('ANALYZE bullmq.job');
    });
    work(queues);
    const { jobId } = await queues.add('mirror', sync('acme'));
    const bull = await testQueue.bull();
    await until(async () => (await bull.getJobState(jobId)) === 'completed');
    expect((await queues.counts()).mirror.completed).toBe(20_000);
    expect(testQueue.lines).toEqual([]);
  });

  it('is created once by processes that start at the same time', async () => {
    const testQueue = await postgresQueue();
    const many = await Promise.all(Array.from({ length: 5 }, () => testQueue.open()));
    for (const queues of many) await queues.ping();
    expect(testQueue.lines).toEqual([]);
  });

  it('survives a connection that is cut while the schema is created', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const address = new URL(database.url);
    const proxy = await startProxy({ host: address.hostname, port: Number(address.port) });
    onTestFinished(() => proxy.close());
    address.port = String(proxy.port);
    const testQueue = postgresQueueAt(address.href, database.url);
    await withClient(database.url, async (client) => {
      await client.query("SELECT pg_advisory_lock($1, hashtext('bullmq'))", [
        MIGRATION_ADVISORY_LOCK_KEY,
      ]);
      const opening = testQueue.open();
      await until(async () => {
        const { rowCount } = await client.query(
          `SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
            WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`,
        );
        return rowCount === 1;
      });
      proxy.cut();
      await opening;
    });
    // Without a listener, the broken connection would have ended this process.
    await (await testQueue.open()).ping();
  });

  it('fails pings while the database is read-only, like a standby', async () => {
    const testQueue = await postgresQueue();
    const queues = await testQueue.open();
    const { databaseUrl } = testQueue.options;
    const database = new URL(databaseUrl).pathname.slice(1);
    const set = (value: string): Promise<unknown> =>
      withClient(databaseUrl, async (client) => {
        await client.query('SET default_transaction_read_only = off');
        await client.query(
          `ALTER DATABASE ${database} SET default_transaction_read_only = ${value}`,
        );
        // Existing sessions keep the old setting.
        await client.query(
          'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
        );
      });
    await set('on');
    await until(() =>
      queues.ping().then(
        () => false,
        (error: unknown) => String(error).includes('takes no writes'),
      ),
    );
    await expect(queues.add('mirror', sync('acme'))).rejects.toMatchObject({ code: 'QUEUE' });
    await expect(queues.ping()).rejects.toMatchObject({ code: 'QUEUE' });
    expect(testQueue.lines.map(({ message }) => message)).toEqual(['the queue is unavailable']);
    await set('off');
    await until(() => succeeds(queues.ping()));
  });

  it('can be used by a role that may not create schemas, once it exists', async () => {
    const testQueue = await postgresQueue();
    await (await testQueue.open()).ping();
    const { databaseUrl } = testQueue.options;
    const { username, pathname } = new URL(databaseUrl);
    const database = pathname.slice(1);
    await withClient(databaseUrl, async (client) => {
      await client.query(`REVOKE CREATE ON DATABASE ${database} FROM "${username}"`);
    });
    await expect(
      withClient(databaseUrl, (client) => client.query('CREATE SCHEMA IF NOT EXISTS bullmq')),
    ).rejects.toThrow('permission denied');
    await (await testQueue.open()).add('mirror', sync('acme'));
    expect(testQueue.lines).toEqual([]);
  });
});
