import { describe, expect, it } from 'vitest';
import {
  OLDEST_SERVER,
  type StoreError,
  assertServerVersion,
  explainDatabaseError,
} from '../../src/db/errors.js';
import { DbClient } from '../../src/db/connection.js';
import { databaseAt, testServer } from '../support/postgres.js';

/** The error of connecting to `url`, as shown to users. */
async function connectionError(url: string): Promise<StoreError> {
  const client = new DbClient({ connectionString: url, connectionTimeoutMillis: 20_000 });
  client.on('error', () => {});
  const error: unknown = await client.connect().then(
    () => client.query('SELECT 1'),
    (reason: unknown) => reason,
  );
  await client.end().catch(() => {});
  const explained = explainDatabaseError(error, url);
  if (explained === null) throw new Error('not explained', { cause: error });
  return explained;
}

describe('a wrong DATABASE_URL', () => {
  const noSuch = (): string => databaseAt(testServer.userUrl, 'no_such');
  it.each([
    ['no-such-host.invalid/shop', /shop at no-such-host\.invalid: the host name/],
    ['127.0.0.1:1/shop', /shop at 127\.0\.0\.1:1: the connection was refused/],
    [null, /no_such at .*: the database does not exist/],
  ])('is reported with host, port and database: %s', async (address, expected) => {
    const url = address === null ? noSuch() : `postgresql://me:pa55word@${address}`;
    const { message, remedy } = await connectionError(url);
    expect(message).toMatch(expected);
    expect(remedy).toContain('DATABASE_URL');
  });

  it.skipIf(process.env['TEST_DATABASE_URL'])(
    'with a wrong password is reported without showing it (skipped with TEST_DATABASE_URL, whose server may not ask for one)',
    async () => {
      const url = new URL(testServer.userUrl);
      url.password = 'pa55word';
      const error = await connectionError(url.href);
      expect(error.message).toMatch(/user name or password is wrong/);
      expect(`${error.message} ${error.remedy} ${error.stack ?? ''}`).not.toContain('pa55word');
    },
  );

  it('that is no URL is never shown, since it may be a password', () => {
    const error = explainDatabaseError({ code: 'ENOTFOUND' }, 'pa55word');
    expect(error?.message).toBe('the database: the host name is unknown');
  });
});

describe('a database error', () => {
  const refused = new AggregateError([{ code: 'ECONNREFUSED' }, { code: 'ETIMEDOUT' }]);
  it.each([
    ['of a query is left to the caller', { code: '23505' }, null],
    ['without a code is left to the caller', new Error('whatever'), null],
    ['about disk space says so', { code: '53100' }, 'd at h: the disk is full'],
    ['for two addresses is that of the first', refused, 'd at h: the connection was refused'],
  ])('%s', (_, error, expected) => {
    const explained = explainDatabaseError(error, 'postgresql://h/d');
    expect(explained?.message ?? null).toBe(expected === null ? null : `database ${expected}`);
  });
});

it('refuses an old server and shows its version as people write it', () => {
  expect(() => assertServerVersion(OLDEST_SERVER * 10_000)).not.toThrow();
  expect(() => assertServerVersion(130_011)).toThrow('PostgreSQL 13.11');
});
