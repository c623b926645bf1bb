import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openMirror } from '../../src/index.js';
import { useMirror } from '../support/mirror.js';
import { createTestDatabase, databaseAt, query, testServer } from '../support/postgres.js';
import { printed } from '../cli/support.js';
import { trialDataDir } from './embedded/trial.js';
import { offered } from '../reporting/contract.js';
import { fillStore } from '../reporting/data.js';

const SCHEMA = readFileSync(new URL('../../prisma/schema.prisma', import.meta.url), 'utf8');

/** `price_changes` → `PriceChanges`. */
const pascal = (name: string): string =>
  name.replaceAll(/(?:^|_)(.)/g, (_, c: string) => c.toUpperCase());

/** PostgreSQL type → Prisma type, without nullability. */
const TYPES: Readonly<Record<string, string>> = {
  text: 'String',
  'text[]': 'String[]',
  bigint: 'BigInt',
  integer: 'Int',
  boolean: 'Boolean',
  jsonb: 'Json',
  date: 'DateTime',
  timestamptz: 'DateTime',
};

/** The columns and types that schema.prisma declares for a view. */
function declared(view: string): string[] {
  const body =
    new RegExp(`^view Reporting${pascal(view)} \\{\n(.*?)^\\}`, 'ms').exec(SCHEMA)?.[1] ?? '';
  return [...body.matchAll(/^ {2}(\w+) +(\S+)(.*)$/gm)].map(([, name, type, rest = '']) => {
    const column = /@map\("(\w+)"\)/.exec(rest)?.[1] ?? name;
    return `${column} ${type?.replace('?', '')}`;
  });
}

/** Methods of Prisma Client that the types of a mirror hide. */
interface Hidden {
  readonly seller: { deleteMany(): Promise<unknown> };
  $executeRaw(sql: TemplateStringsArray): Promise<unknown>;
  $transaction(work: (tx: Hidden) => Promise<unknown>): Promise<unknown>;
}

const mirror = useMirror();

/** The views of schema reporting, with their columns. */
const views = async (): Promise<[string, string[]][]> =>
  Object.entries(await offered(mirror().pool)).filter(([name]) => !name.includes('('));

describe('openMirror', () => {
  it('declares every view and column of schema reporting', async () => {
    const all = await views();
    const expected = all.map(([view, columns]) => [
      view,
      columns.map((column) => {
        const [name = '', type = ''] = column.split(' ');
        return `${name} ${type.startsWith('numeric') ? 'Decimal' : TYPES[type]}`;
      }),
    ]);
    expect(all.map(([view]) => [view, declared(view)])).toEqual(expected);
  });

  it('reads every view with its declared types, also nulls, and can’t write', async () => {
    await fillStore(mirror());
    const reads = await openMirror({ databaseUrl: mirror().databaseUrl });
    onTestFinished(() => reads.close());
    for (const [view] of await views()) {
      const property = `reporting${pascal(view)}` as 'reportingItems';
      const rows = await reads[property].findMany();
      const [counted] = await mirror().rows(`SELECT count(*)::int AS n FROM reporting.${view}`);
      expect(rows.length, view).toBe(counted?.['n']);
      expect(rows.length, view).toBeGreaterThan(0);
    }
    // Writing is refused by PostgreSQL, also by methods that the types hide.
    const prisma = reads as unknown as Hidden;
    const refused = /cannot execute \w+ in a read-only transaction/;
    await expect(prisma.seller.deleteMany()).rejects.toThrow(refused);
    await expect(prisma.$executeRaw`DELETE FROM mirror.sellers`).rejects.toThrow(refused);
    await expect(prisma.$transaction((tx) => tx.seller.deleteMany())).rejects.toThrow(refused);
  });

  it('needs only the right to read schema reporting', async () => {
    const role = `reader_${randomBytes(6).toString('hex')}`;
    const database = new URL(mirror().databaseUrl).pathname.slice(1);
    const adminUrl = databaseAt(testServer.adminUrl, database);
    await query(
      adminUrl,
      `CREATE ROLE ${role} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA reporting TO ${role};
       GRANT SELECT ON ALL TABLES IN SCHEMA reporting TO ${role}`,
    );
    const url = new URL(mirror().databaseUrl);
    url.username = role;
    url.password = 'secret';
    const reads = await openMirror({ databaseUrl: url.href });
    expect(await reads.reportingFreshness.findMany()).toEqual([]);
    await expect(reads.seller.findMany()).rejects.toThrow('denied');
    await reads.close();
    await query(adminUrl, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
  });

  it('shares the embedded server, and releases it on close', async () => {
    const dataDir = await trialDataDir();
    await printed(['migrate'], { DATA_DIR: dataDir });
    const reads = await openMirror({ dataDir });
    expect(await reads.reportingItems.findMany()).toEqual([]);
    await reads.close();
  });

  it.each([
    ['', 'DATABASE_URL', /^databaseUrl is empty$/],
    ['mysql://host/db', 'DATABASE_URL', /^databaseUrl is not an address of PostgreSQL$/],
    [
      'postgresql://me:pass-word@127.0.0.1:1/none',
      'STORE_CONNECTION',
      /the connection was refused/,
    ],
  ])(
    'refuses the address "%s" at once, in one line without a password',
    async (databaseUrl, code, message) => {
      const error = await openMirror({ databaseUrl }).catch((reason: unknown) => reason as Error);
      expect(error).toMatchObject({ code, message: expect.stringMatching(message) as string });
      expect((error as Error).message).not.toMatch(/pass-word|\n/);
    },
  );

  it('says that a database has no mirror', async () => {
    const database = await createTestDatabase({ empty: true });
    onTestFinished(() => database.drop());
    await expect(openMirror({ databaseUrl: database.url })).rejects.toMatchObject({
      code: 'NO_MIRROR',
    });
  });

  it('does not create a database', async () => {
    const dataDir = await trialDataDir();
    await expect(openMirror({ dataDir })).rejects.toMatchObject({ code: 'NO_MIRROR' });
    expect(existsSync(dataDir)).toBe(false);
  });
});

describe('docs/prisma.md', () => {
  it('shows a view as schema.prisma has it, because people copy it', () => {
    const docs = readFileSync(new URL('../../docs/prisma.md', import.meta.url), 'utf8');
    const [view = ''] = /^view .*?^}$/ms.exec(docs) ?? [];
    expect(view).toContain('ReportingPriceChanges');
    expect(SCHEMA).toContain(view);
  });
});
