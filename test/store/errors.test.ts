import { Client } from 'pg';
import { describe, expect, inject, it } from 'vitest';
import {
  OLDEST_SERVER,
  type StoreError,
  assertServerVersion,
  explainDatabaseError,
} from '../../src/store/errors.js';
import { databaseAt } from '../support/postgres.js';

/** What a person is told when the database at `url` is opened. */
async function complaint(url: string): Promise<StoreError> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 20_000 });
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
  it('with a host that does not exist is named', async () => {
    const error = await complaint('postgresql://me:pa55word@no-such-host.invalid/shop');
    expect(error.message).toMatch(/shop at no-such-host\.invalid: the host name/);
    expect(error.remedy).toContain('DATABASE_URL');
  });

  it('with a port where nothing listens is named', async () => {
    const { message } = await complaint('postgresql://me:pa55word@127.0.0.1:1/shop');
    expect(message).toMatch(/shop at 127\.0\.0\.1:1: the connection was refused/);
  });

  it('with a database that does not exist is named', async () => {
    const { message } = await complaint(databaseAt(inject('testServer').userUrl, 'no_such'));
    expect(message).toMatch(/no_such at .*: the database does not exist/);
  });

  it.skipIf(process.env['TEST_DATABASE_URL'])(
    'with a wrong password is named, and never shows one (skipped on a server given by TEST_DATABASE_URL, which may not ask for one)',
    async () => {
      const url = new URL(inject('testServer').userUrl);
      url.password = 'pa55word';
      const error = await complaint(url.href);
      expect(error.message).toMatch(/user name or password is wrong/);
      expect(`${error.message} ${error.remedy} ${error.stack ?? ''}`).not.toContain('pa55word');
    },
  );

  it('that is no address at all shows nothing of it, since it may be a password', () => {
    const error = explainDatabaseError({ code: 'ENOTFOUND' }, 'pa55word');
    expect(error?.message).toBe('the database: the host name is unknown');
  });
});

describe('an error of the database', () => {
  it('that is about a query and not about reaching it is left to the caller', () => {
    expect(explainDatabaseError({ code: '23505' }, 'postgresql://h/d')).toBeNull();
    expect(explainDatabaseError(new Error('whatever'), 'postgresql://h/d')).toBeNull();
  });

  it('for want of disk space is called that', () => {
    const error = explainDatabaseError({ code: '53100' }, 'postgresql://h/d');
    expect(error).toMatchObject({ code: 'DISK_FULL' });
  });

  it('of two addresses tried is that of the first', () => {
    const both = new AggregateError([{ code: 'ECONNREFUSED' }, { code: 'ETIMEDOUT' }]);
    expect(explainDatabaseError(both, 'postgresql://h/d')?.message).toContain('refused');
  });
});

describe('the version of the server', () => {
  it('is accepted from the oldest on', () => {
    expect(() => {
      assertServerVersion(OLDEST_SERVER * 10_000);
    }).not.toThrow();
  });

  it('is refused below that, named as people write it', () => {
    expect(() => {
      assertServerVersion(130_011);
    }).toThrow('PostgreSQL 13.11');
  });
});
