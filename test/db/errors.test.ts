import { describe, expect, it } from 'vitest';
import { assertServerVersion, explainDatabaseError, OLDEST_SERVER } from '../../src/db/errors.js';
import { run } from '../cli/support.js';
import { databaseAt, testServer } from '../support/postgres.js';

/** What a command without its database says to people; programs that read its output get nothing. */
async function failure(url: string): Promise<string> {
  const { code, stdout, stderr } = await run(['status'], { DATABASE_URL: url });
  expect([code, stdout]).toEqual([1, '']);
  return stderr;
}

describe('a wrong DATABASE_URL', () => {
  const { userUrl } = testServer;
  it.each([
    [
      'postgresql://me:pa55word@no-such-host.invalid/shop',
      /shop at no-such-host\.invalid: the host name/,
    ],
    [
      'postgresql://me:pa55word@127.0.0.1:1/shop',
      /shop at 127\.0\.0\.1:1: the connection was refused/,
    ],
    [databaseAt(userUrl, 'no_such'), /no_such at .*: the database does not exist/],
  ])('is reported with host, port and database: %#', async (url, expected) => {
    const stderr = await failure(url);
    expect(stderr).toMatch(expected);
    expect(stderr).toMatch(/\n {2}→ .*DATABASE_URL/);
    expect(stderr).not.toContain('pa55word');
  });

  it.skipIf(process.env['TEST_DATABASE_URL'])(
    'with a wrong password is reported without showing it (skipped with TEST_DATABASE_URL, whose server may not ask for one)',
    async () => {
      const url = new URL(userUrl);
      url.password = 'pa55word';
      const stderr = await failure(url.href);
      expect(stderr).toMatch(/user name or password is wrong/);
      expect(stderr).not.toContain('pa55word');
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
