import { MIGRATION_ADVISORY_LOCK_KEY } from 'bullmq';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createTestDatabase } from '../support/postgres.js';
import { startProxy } from '../support/tcp-proxy.js';
import { noting, sync, until, works } from './support.js';
import { postgresTrial, postgresTrialAt, withClient } from './support.js';

/** As many finished jobs as are ever kept, with ids as long as those of long names. */
const MANY_FINISHED = `
  INSERT INTO bullmq.job (queue, id, seq, name, state, data, opts, priority, delay_ms, max_attempts,
                          added_at_ms, finished_at_ms)
  SELECT 'mirror', repeat('x', 80) || i, nextval('bullmq.job_seq'), 'sync', 'completed', '{}', '{}',
         0, 0, 12, 0, extract(epoch FROM now())::bigint * 1000 - 100000 + i
    FROM generate_series(1, 20000) i`;

describe('the queue on PostgreSQL', () => {
  it('finishes jobs quickly beside all that are kept, on a server with little memory too', async () => {
    const trial = await postgresTrial();
    const { databaseUrl } = trial.options;
    const database = new URL(databaseUrl).pathname.slice(1);
    await withClient(databaseUrl, (client) =>
      client.query(`ALTER DATABASE ${database} SET work_mem = '64kB'`),
    );
    const queues = await trial.open();
    await queues.ping();
    await withClient(databaseUrl, async (client) => {
      await client.query(MANY_FINISHED);
      await client.query('ANALYZE bullmq.job');
    });
    queues.work('mirror', noting().handler, { concurrency: 1 });
    const { jobId } = await queues.add('mirror', sync('acme'));
    const bull = await trial.bull();
    await until(async () => (await bull.getJobState(jobId)) === 'completed');
    expect((await queues.counts()).mirror.completed).toBe(20_000);
    expect(trial.lines).toEqual([]);
  });

  it('is made once by many that start at the same time', async () => {
    const trial = await postgresTrial();
    const many = await Promise.all(Array.from({ length: 5 }, () => trial.open()));
    for (const queues of many) await queues.ping();
    expect(trial.lines).toEqual([]);
  });

  it('survives a connection that is cut while the schema is being made', async () => {
    const database = await createTestDatabase();
    onTestFinished(() => database.drop());
    const address = new URL(database.url);
    const proxy = await startProxy({ host: address.hostname, port: Number(address.port) });
    onTestFinished(() => proxy.close());
    address.port = String(proxy.port);
    const trial = postgresTrialAt(address.href, database.url);
    await withClient(database.url, async (client) => {
      await client.query("SELECT pg_advisory_lock($1, hashtext('bullmq'))", [
        MIGRATION_ADVISORY_LOCK_KEY,
      ]);
      const opening = trial.open();
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
    // Unheard, the broken connection would have ended this process.
    await (await trial.open()).ping();
  });

  it('is not called usable by who only pings while the database lets itself be read only, as a standby does', async () => {
    const trial = await postgresTrial();
    const queues = await trial.open();
    const { databaseUrl } = trial.options;
    const database = new URL(databaseUrl).pathname.slice(1);
    const set = (value: string): Promise<unknown> =>
      withClient(databaseUrl, async (client) => {
        await client.query('SET default_transaction_read_only = off');
        await client.query(
          `ALTER DATABASE ${database} SET default_transaction_read_only = ${value}`,
        );
        // Who is connected keeps the setting of before.
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
    expect(trial.lines.map(({ message }) => message)).toEqual(['the queue can not be used']);
    await set('off');
    await until(() => works(queues.ping()));
  });

  it('can be used by who may not create a schema, once it is there', async () => {
    const trial = await postgresTrial();
    await (await trial.open()).ping();
    const { databaseUrl } = trial.options;
    const { username, pathname } = new URL(databaseUrl);
    const database = pathname.slice(1);
    await withClient(databaseUrl, async (client) => {
      await client.query(`REVOKE CREATE ON DATABASE ${database} FROM "${username}"`);
    });
    await expect(
      withClient(databaseUrl, (client) => client.query('CREATE SCHEMA IF NOT EXISTS bullmq')),
    ).rejects.toThrow('permission denied');
    await (await trial.open()).add('mirror', sync('acme'));
    expect(trial.lines).toEqual([]);
  });
});
