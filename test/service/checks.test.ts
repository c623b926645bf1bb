import { expect, it, onTestFinished } from 'vitest';
import { findRefusedWrite } from '../../src/db/open.js';
import { never, useMirror } from '../support/mirror.js';
import { databaseAt, query, testServer } from '../support/postgres.js';

const mirror = useMirror();

it('doctor finds what a role may not do by trying it, and leaves nothing behind', async () => {
  const { databaseUrl } = mirror();
  expect(await findRefusedWrite(databaseUrl, never)).toBeNull();
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
  await admin(`REVOKE TEMPORARY ON DATABASE ${database} FROM PUBLIC`);
  expect(await findRefusedWrite(url.href, never)).toMatchObject({
    what: 'create temporary tables',
  });
  await admin(`GRANT TEMPORARY ON DATABASE ${database} TO ${role}`);
  expect(await findRefusedWrite(url.href, never)).toMatchObject({
    what: 'write to the tables of schema mirror',
  });
  await admin(`GRANT USAGE ON SCHEMA mirror TO ${role}`);
  await admin(`GRANT ALL ON ALL TABLES IN SCHEMA mirror TO ${role}`);
  expect(await findRefusedWrite(url.href, never)).toBeNull();
});
