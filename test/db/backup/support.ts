import { onTestFinished } from 'vitest';
import type { BackupManifest } from '../../../src/db/backup/format.js';
import { restore, type OpenFile } from '../../../src/db/backup/restore.js';
import { backUp } from '../../../src/db/backup/write.js';
import { never } from '../../support/mirror.js';
import { createTestDatabase, query, type TestDatabase } from '../../support/postgres.js';

/** A backup in memory. */
export async function backupOf(url: string): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  const write = async (bytes: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const piece of bytes) pieces.push(piece);
  };
  await backUp(url, write, { signal: never });
  return Buffer.concat(pieces);
}

/** A file that is read in pieces. */
export function fileOf(bytes: Uint8Array): OpenFile {
  return async function* () {
    for (let at = 0; at < bytes.length; at += 50_000) {
      yield await Promise.resolve(bytes.subarray(at, at + 50_000));
    }
  };
}

export async function restoreInto(
  url: string,
  bytes: Uint8Array,
  { replace = false, signal = never } = {},
): Promise<BackupManifest> {
  return await restore(url, fileOf(bytes), { replace, signal });
}

/** A database that is dropped after the test. */
export async function database(options?: { empty: boolean }): Promise<TestDatabase> {
  const made = await createTestDatabase(options);
  onTestFinished(() => made.drop());
  return made;
}

/** All rows of the tables in a backup, as sorted text. */
export async function rowsIn(url: string): Promise<Record<string, string[]>> {
  const tables = await query(
    url,
    `SELECT relname AS name FROM pg_class
      WHERE relnamespace = 'mirror'::regnamespace AND relkind = 'r'
        AND relname NOT IN ('_prisma_migrations', 'processes', 'request_budgets', 'epochs')`,
  );
  const each = tables.map(
    ({ name }) =>
      `SELECT '${name as string}' AS name,
              ARRAY(SELECT t::text FROM mirror.${name as string} t ORDER BY t::text COLLATE "C") AS rows`,
  );
  const all = await query(url, each.join(' UNION ALL '));
  return Object.fromEntries(all.map(({ name, rows }) => [name, rows])) as Record<string, string[]>;
}
