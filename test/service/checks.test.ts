import { expect, it, onTestFinished } from 'vitest';
import { run, settings } from '../cli/support.js';
import { useMirror } from '../support/mirror.js';
import { databaseAt, query, testServer } from '../support/postgres.js';

const mirror = useMirror();

it('doctor finds what a role may not do by trying it, and leaves nothing behind', async () => {
  const { databaseUrl } = mirror();
  // Makes schema `bullmq`.
  await (await mirror().queues()).ping();
  const role = `weak_${process.pid}`;
  const database = new URL(databaseUrl).pathname.slice(1);
  const adminUrl = databaseAt(testServer.adminUrl, database);
  const admin = (sql: string): Promise<unknown> => query(adminUrl, sql);
  await admin(`CREATE ROLE ${role} LOGIN PASSWORD 'word'`);
  onTestFinished(async () => {
    await admin(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });
  const url = new URL(databaseUrl);
  url.username = role;
  url.password = 'word';
  const found = async (): Promise<string> => {
    const env = settings(url.href, 'http://127.0.0.1:1', { HEALTH_LISTEN: 'off' });
    return (await run(['doctor'], env)).stdout;
  };
  await admin(`GRANT USAGE ON SCHEMA mirror, bullmq TO ${role}`);
  await admin(`GRANT SELECT ON ALL TABLES IN SCHEMA mirror TO ${role}`);
  expect(await found()).toContain('may not write to the tables of schema mirror');
  await admin(`GRANT ALL ON ALL TABLES IN SCHEMA mirror, bullmq TO ${role}`);
  await admin(`REVOKE TEMPORARY ON DATABASE ${database} FROM PUBLIC`);
  expect(await found()).toContain('may not create temporary tables');
  await admin(`GRANT TEMPORARY ON DATABASE ${database} TO ${role}`);
  expect(await found()).not.toContain('may not');
});
